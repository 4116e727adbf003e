//! Order requests that reach the broker once, however often they are asked for.

use std::collections::BTreeMap;

use backstitch::outbox::Receiving;
use backstitch::store::outbox::Kept;
use backstitch::{Engine, Error, Timestamp};
use serde_json::value::RawValue;

use super::differences::differences;

/// The topic of order requests.
pub const ORDERS: &str = "orders";

/// The member of a request that makes a repeated one the same.
const KEY: &str = "idempotency_key";

/// An order request and its key. The broker gets its members as they were written: a number that no program here could hold is
/// for whoever reads it there.
#[derive(Clone, Debug)]
pub struct OrderRequest {
    idempotency_key: String,
    request: BTreeMap<String, Box<RawValue>>,
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
    pub fn read(mut request: BTreeMap<String, Box<RawValue>>) -> Result<Self, Unreadable> {
        let key = request.remove(KEY).ok_or(Unreadable::NoKey)?;
        match serde_json::from_str::<String>(key.get()) {
            Ok(key) if (1..=backstitch::MAX_LABEL).contains(&key.len()) => {
                if request.is_empty() {
                    return Err(Unreadable::Empty);
                }
                Ok(Self { idempotency_key: key, request })
            }
            _ => Err(Unreadable::BadKey),
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
                let differs = said.zip(serde_json::to_value(&self.request).ok());
                let differs = differs.map(|(first, now)| differences(&first, &now));
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

    fn read(request: &str) -> Result<(String, String), Unreadable> {
        let order = OrderRequest::read(serde_json::from_str(request).unwrap())?;
        Ok((order.idempotency_key, serde_json::to_string(&order.request).unwrap()))
    }

    #[test]
    fn the_key_is_no_part_of_the_request_and_the_rest_stays_as_it_was_written() {
        let (key, request) =
            read(r#"{"idempotency_key": "k", "total": 12345678901234567890123, "rate": 0.10}"#).unwrap();
        assert_eq!(key, "k");
        assert_eq!(request, r#"{"rate":0.10,"total":12345678901234567890123}"#);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        assert_eq!(read(r#"{"sku": "a"}"#), Err(Unreadable::NoKey));
        assert_eq!(read(r#"{"idempotency_key": "k"}"#), Err(Unreadable::Empty));
        for bad in [json!(""), json!(7), json!(null), json!("x".repeat(513))] {
            let request = json!({ "idempotency_key": bad, "sku": "a" });
            assert_eq!(read(&request.to_string()), Err(Unreadable::BadKey));
        }
    }
}
