//! Order requests that reach the broker once, however often they are asked for.

use backstitch::outbox::Receiving;
use backstitch::store::outbox::Kept;
use backstitch::{Engine, Error, Timestamp};
use serde_json::{Map, Value};

use super::differences::differences;

/// The topic of order requests.
pub const ORDERS: &str = "orders";

/// The member of a request that makes a repeated one the same.
const KEY: &str = "idempotency_key";

/// An order request and its key.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderRequest {
    idempotency_key: String,
    request: Map<String, Value>,
}

/// What an order request cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There is no key.
    #[error(
        "idempotency_key is missing: give a text that is the same when this request is repeated, and no other's"
    )]
    NoKey,
    /// The key is something else.
    #[error("idempotency_key must be a text of 1 to 512 bytes")]
    BadKey,
    /// There is nothing but a key.
    #[error("the request holds nothing but its key: add the order")]
    Empty,
}

/// What became of an order request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is on disk for the first time.
    Accepted(Kept),
    /// It was there: this is what has become of it.
    Known(Kept),
    /// The key was first used for another request.
    Conflict(Conflict),
}

/// How two requests with one key differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The message of the first one.
    pub id: i64,
    /// The digest of the first one, in hexadecimal.
    pub first_digest: String,
    /// The digest of this one.
    pub digest: String,
    /// When the first one came.
    pub first_at: Timestamp,
    /// Where they differ.
    pub differs: Vec<String>,
}

impl OrderRequest {
    /// Takes the key out of a request.
    ///
    /// # Errors
    /// When there is none that can be used, or nothing else.
    pub fn read(mut request: Map<String, Value>) -> Result<Self, Unreadable> {
        match request.remove(KEY) {
            None => Err(Unreadable::NoKey),
            Some(Value::String(key)) if (1..=backstitch::MAX_LABEL).contains(&key.len()) => {
                if request.is_empty() {
                    return Err(Unreadable::Empty);
                }
                Ok(Self { idempotency_key: key, request })
            }
            Some(_) => Err(Unreadable::BadKey),
        }
    }

    /// Writes the request and its key in one transaction, or says what became of the first one.
    ///
    /// # Errors
    /// When the request is refused or the store cannot be written.
    pub async fn accept(&self, engine: &Engine) -> Result<Answer, Error> {
        match engine.publish(ORDERS, &self.idempotency_key, &self.request).await {
            Ok(Receiving::Accepted(id)) => Ok(Answer::Accepted(kept(engine, id).await?)),
            Ok(Receiving::Replay(id)) => Ok(Answer::Known(kept(engine, id).await?)),
            Err(Error::MessageConflict { id, first, now, at }) => {
                let said = engine.message(id).await?.and_then(|kept| kept.message.payload.decode().ok());
                let differs =
                    said.map(|first: Value| differences(&first, &Value::Object(self.request.clone())));
                Ok(Answer::Conflict(Conflict {
                    id,
                    first_digest: first.to_string(),
                    digest: now.to_string(),
                    first_at: at,
                    differs: differs.unwrap_or_default(),
                }))
            }
            Err(other) => Err(other),
        }
    }
}

async fn kept(engine: &Engine, id: i64) -> Result<Kept, Error> {
    engine.message(id).await?.ok_or(Error::MessageRemoved)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(request: Value) -> Result<OrderRequest, Unreadable> {
        let Value::Object(request) = request else { panic!() };
        OrderRequest::read(request)
    }

    #[test]
    fn the_key_is_no_part_of_the_request() {
        let order = read(json!({ "idempotency_key": "k", "sku": "a" })).unwrap();
        assert_eq!(order.idempotency_key, "k");
        assert_eq!(Value::Object(order.request), json!({ "sku": "a" }));
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        assert_eq!(read(json!({ "sku": "a" })), Err(Unreadable::NoKey));
        assert_eq!(read(json!({ "idempotency_key": "k" })), Err(Unreadable::Empty));
        for bad in [json!(""), json!(7), json!(null), json!("x".repeat(513))] {
            assert_eq!(read(json!({ "idempotency_key": bad, "sku": "a" })), Err(Unreadable::BadKey));
        }
    }
}
