//! Inserts into `outbox`.

use std::sync::LazyLock;

use backstitch_kernel::Timestamp;
use rusqlite::Connection;

use super::grouped_insert::GroupedInsert;

// Without the id: naming it would make SQLite keep a statement journal, in case it is no integer.
static INSERT: LazyLock<GroupedInsert> = LazyLock::new(|| {
    let into = "insert or fail into outbox ( \
         topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, expires_at, counted, due_at, \
         created_at, updated_at \
     )";
    GroupedInsert::new(into, 11)
});

/// A new message as its row.
pub struct MessageRow<'m> {
    /// Where it goes.
    pub topic: &'m str,
    /// Unique in its topic.
    pub idempotency_key: &'m str,
    /// Messages with the same one are sent in order.
    pub ordering_key: Option<&'m str>,
    /// The topics across which they are. Its topic alone where there is none.
    pub ordering_scope: Option<&'m str>,
    /// Its content, as JSON.
    pub payload: &'m str,
    /// The digest of the request for it, where the ledger has its key.
    pub digest: Option<&'m [u8; 32]>,
    /// Not sent any more from then on.
    pub expires_at: Option<Timestamp>,
    /// Whether the program that publishes it counts it.
    pub counted: bool,
    /// When it was published, and is due.
    pub at: Timestamp,
}

/// Inserts messages in their order.
///
/// # Errors
/// When the file rejects one of them, as where its topic has a message of its key: roll the transaction back.
pub fn insert_messages(connection: &Connection, messages: &[MessageRow<'_>]) -> rusqlite::Result<()> {
    INSERT.insert(connection, messages, |message, values| {
        values.bind(message.topic)?;
        values.bind(message.idempotency_key)?;
        values.bind(message.ordering_key)?;
        values.bind(message.ordering_scope)?;
        values.bind(message.payload)?;
        values.bind(message.digest)?;
        values.bind(message.expires_at.map(Timestamp::as_micros))?;
        values.bind(message.counted)?;
        for _ in ["due_at", "created_at", "updated_at"] {
            values.bind(message.at.as_micros())?;
        }
        Ok(())
    })
}
