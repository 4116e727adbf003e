//! Order requests that reach the broker once, however often they are asked for.

use std::collections::BTreeMap;

use backstitch::outbox::Receiving;
use backstitch::store::outbox::Kept;
use backstitch::{Engine, Error, Payload, Timestamp};

use super::differences::differences;

/// The topic of order requests.
pub const ORDERS: &str = "orders";

/// An order request and its key. The broker gets its members as they were written: a number that no program here could hold is
/// for whoever reads it there.
#[derive(Clone, Debug)]
pub struct OrderRequest {
    idempotency_key: String,
    expires_at: Option<Timestamp>,
    request: BTreeMap<String, Payload>,
}

/// What an order request cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There is no key.
    #[error(
        "idempotency_key is missing: give a text that is the same when this request is repeated, and no other's, here or \
         in the Idempotency-Key header"
    )]
    NoKey,
    /// The key is something else.
    #[error("idempotency_key must be a text of 1 to 512 bytes")]
    BadKey,
    /// The header has another key.
    #[error("idempotency_key and the Idempotency-Key header differ: give one of them, or both alike")]
    TwoKeys,
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
    /// A request with its key, which it may have itself or get from the `Idempotency-Key` header.
    ///
    /// # Errors
    /// When there is no key that can be used, two different ones, or nothing but a key.
    pub fn new(
        key: Option<String>,
        header: Option<&str>,
        request: BTreeMap<String, Payload>,
    ) -> Result<Self, Unreadable> {
        let key = match (key, header) {
            (Some(key), Some(header)) if key != header => return Err(Unreadable::TwoKeys),
            (Some(key), _) => key,
            (None, Some(header)) => header.to_owned(),
            (None, None) => return Err(Unreadable::NoKey),
        };
        if !(1..=backstitch::MAX_LABEL).contains(&key.len()) {
            return Err(Unreadable::BadKey);
        }
        if request.is_empty() {
            return Err(Unreadable::Empty);
        }
        Ok(Self { idempotency_key: key, expires_at: None, request })
    }

    /// Aborted if it is not sent by then.
    #[must_use]
    pub fn expires_at(self, time: Option<Timestamp>) -> Self {
        Self { expires_at: time, ..self }
    }

    /// Writes the request and its key in one transaction, or says what became of the first one.
    ///
    /// # Errors
    /// When the request is refused or the store cannot be written.
    pub async fn accept(&self, engine: &Engine) -> Result<Answer, Error> {
        let mut publishing = engine.publish(ORDERS, &self.idempotency_key, &self.request);
        if let Some(time) = self.expires_at {
            publishing = publishing.expires_at(time);
        }
        match publishing.await {
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
    use super::*;

    fn new(key: Option<&str>, header: Option<&str>, request: &str) -> Result<(String, String), Unreadable> {
        let request = serde_json::from_str(request).unwrap();
        let order = OrderRequest::new(key.map(str::to_owned), header, request)?;
        Ok((order.idempotency_key, serde_json::to_string(&order.request).unwrap()))
    }

    #[test]
    fn a_request_stays_as_it_was_written() {
        let (key, request) =
            new(Some("k"), None, r#"{"total": 12345678901234567890123, "rate": 0.10}"#).unwrap();
        assert_eq!(key, "k");
        assert_eq!(request, r#"{"rate":0.10,"total":12345678901234567890123}"#);
    }

    #[test]
    fn the_header_gives_the_key_and_may_repeat_it() {
        let order = r#"{"sku":"a"}"#;
        for key in [None, Some("k")] {
            assert_eq!(new(key, Some("k"), order), Ok(("k".to_owned(), order.to_owned())));
        }
        assert_eq!(new(Some("k"), Some("l"), order), Err(Unreadable::TwoKeys));
        assert_eq!(new(None, Some(&"x".repeat(513)), order), Err(Unreadable::BadKey));
        assert_eq!(new(None, None, order), Err(Unreadable::NoKey));
        for (key, header) in [(None, Some("k")), (Some("k"), None)] {
            assert_eq!(new(key, header, "{}"), Err(Unreadable::Empty));
        }
    }
}
