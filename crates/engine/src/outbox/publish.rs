//! Asking for a message to be sent.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{Payload, Timestamp};
use futures::future::BoxFuture;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::topic_pattern::TopicPattern;
use crate::engine::Engine;
use crate::error::Error;
use crate::runtime::Shared;
use crate::start::{check_name, check_topic};
use crate::store;
use crate::store::outbox::{NewMessage, Publication, Published, REMOVED};

/// A message about to be published: await it, or write it in a transaction of your own.
#[must_use = "nothing is published until this is awaited"]
pub struct Publishing {
    shared: Arc<Shared>,
    message: Result<NewMessage, Error>,
    expires_in: Option<Duration>,
    ordering_scope: Option<TopicPattern>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// It is on disk and will be sent.
    Accepted(i64),
    /// It was there already: this is its number.
    Replay(i64),
}

impl Receiving {
    /// The message's number.
    #[must_use]
    pub fn id(self) -> i64 {
        match self {
            Self::Accepted(id) | Self::Replay(id) => id,
        }
    }
}

impl Engine {
    /// Sends a message, at least once, to where its topic goes. The same key with the same payload is the same message.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), backstitch::Error> {
    /// let engine = backstitch::Engine::in_memory().await?;
    /// let message = engine.publish("orders", "order-17", &serde_json::json!({ "amount": 5 })).await?;
    /// let again = engine.publish("orders", "order-17", &serde_json::json!({ "amount": 5 })).await?;
    /// assert_eq!(message.id(), again.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish<T: Serialize + ?Sized>(&self, topic: &str, key: &str, payload: &T) -> Publishing {
        let shared = self.shared().clone();
        let message = message(&shared, topic, key, payload);
        Publishing { shared, message, expires_in: None, ordering_scope: None }
    }
}

fn message<T: Serialize + ?Sized>(
    shared: &Shared,
    topic: &str,
    key: &str,
    payload: &T,
) -> Result<NewMessage, Error> {
    check_topic(topic)?;
    check_name("the key of a message", key)?;
    let payload = Payload::encode(payload).map_err(|why| Error::BadInput(why.to_string()))?;
    let (size, limit) = (payload.len(), shared.options.max_payload);
    if size > limit {
        return Err(Error::InputTooLarge { size, limit });
    }
    Ok(NewMessage {
        topic: topic.to_owned(),
        idempotency_key: key.to_owned(),
        ordering_key: None,
        payload,
        expires_at: None,
    })
}

impl Publishing {
    /// Messages of a topic with the same ordering key arrive in the order they were published.
    pub fn ordering_key(mut self, key: &str) -> Self {
        self.message = self.message.and_then(|message| {
            check_name("the ordering key of a message", key)?;
            Ok(NewMessage { ordering_key: Some(key.to_owned()), ..message })
        });
        self
    }

    /// The order of the [ordering key](Self::ordering_key) holds across all topics of a [pattern](TopicPattern) that the
    /// message's topic is below, such as `sites.*`, and not in its topic alone.
    pub fn ordering_scope(mut self, pattern: &str) -> Self {
        self.message = self.message.and_then(|message| {
            let scope = TopicPattern::read(pattern).map_err(|why| Error::BadInput(why.to_string()))?;
            self.ordering_scope = scope.filter(|scope| scope.rest_of(&message.topic).is_some());
            if self.ordering_scope.is_none() {
                return Err(Error::BadInput(format!(
                    "the topic `{}` is not below the ordering scope `{pattern}`: use a pattern of the topic's own beginning",
                    message.topic
                )));
            }
            Ok(message)
        });
        self
    }

    /// Given up if it is not sent by then.
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.message = self.message.map(|message| NewMessage { expires_at: Some(time), ..message });
        self
    }

    /// Given up if it is not sent this long after it was published, by the clock of the store.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(time);
        self
    }

    /// Publishes inside a transaction on the engine's own file, opened by the caller: it is sent if, and only if, the
    /// caller commits. Begin the transaction as an immediate one.
    ///
    /// # Errors
    /// When the request is refused or the file cannot be written; roll the transaction back then.
    #[cfg(feature = "sqlite")]
    pub fn in_sqlite(self, transaction: &rusqlite::Transaction<'_>) -> Result<Receiving, Error> {
        let now = self.shared.options.clock.now();
        let publication = self.publication()?.1;
        received(store::sqlite::publish_in(transaction, &publication, now)?, &publication)
    }

    /// Publishes inside a transaction on the engine's own database, opened by the caller: it is sent if, and only if,
    /// the caller commits.
    ///
    /// # Errors
    /// When the request is refused or the database cannot be written; roll the transaction back then.
    #[cfg(feature = "postgres")]
    pub async fn in_postgres(
        self,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<Receiving, Error> {
        let now = self.shared.options.clock.now();
        let (shared, publication) = self.publication()?;
        let server = shared.store.database().server_of_transaction()?;
        received(server.publish_in(transaction, &publication, now).await?, &publication)
    }

    fn publication(self) -> Result<(Arc<Shared>, Publication), Error> {
        let message = self.message?;
        let digest = digest(&message.payload);
        let ordering_scope = self.ordering_scope.filter(|_| message.ordering_key.is_some());
        let ordering_scope = ordering_scope.map(|scope| scope.to_string());
        let publication = Publication { message, digest, expires_in: self.expires_in, ordering_scope };
        Ok((self.shared, publication))
    }
}

impl IntoFuture for Publishing {
    type Output = Result<Receiving, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (shared, publication) = self.publication()?;
            received(shared.publisher.write(publication.clone()).await?, &publication)
        })
    }
}

fn received(published: Published, publication: &Publication) -> Result<Receiving, Error> {
    match published {
        Published::Accepted(id) => Ok(Receiving::Accepted(id)),
        Published::Replay(REMOVED) => Err(Error::MessageRemoved),
        Published::Replay(id) => Ok(Receiving::Replay(id)),
        Published::Conflict { id, digest, at } => {
            Err(Error::MessageConflict { id, first: digest, now: publication.digest, at })
        }
        Published::Held => {
            Err(Error::KeyHeld("a transaction that is still open has published under this key".to_owned()))
        }
        Published::Refused(why) => Err(store::Error::Refused(why).into()),
    }
}

/// SHA-256 of the canonical form (RFC 8785): the same for the same document, however it is written.
#[must_use]
pub fn digest(payload: &Payload) -> Digest {
    let canonical = payload
        .decode::<serde_json::Value>()
        .map_err(|why| why.to_string())
        .and_then(|value| serde_json_canonicalizer::to_vec(&value).map_err(|why| why.to_string()));
    // A document that cannot be looked into is its own only spelling.
    let canonical = canonical.unwrap_or_else(|_| payload.as_str().as_bytes().to_vec());
    Digest(Sha256::digest(&canonical).into())
}
