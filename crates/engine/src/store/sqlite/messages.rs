//! Messages as they are asked for, asked about and asked for again.

use std::borrow::Cow;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use backstitch_kernel::idempotency::{self, Digest};
use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior, params, params_from_iter};

use super::claim_rows::{ClaimRow, insert_claims};
use super::fault::{Fault, is_inserted};
use super::grouped_insert::GroupedInsert;
use super::message_rows::{MessageRow, insert_messages};
use super::values::{RowReader, limit};
use super::{SqliteStore, sql};
use crate::outbox::sink::Undelivered;
use crate::store::outbox::{
    Kept, Listing, NewMessage, Publication, Published, REMOVED, Retried, Status, list_of, scope,
};
use crate::store::{Corrupt, Error, MessageStore};

#[async_trait]
impl MessageStore for SqliteStore {
    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        let batch = batch.to_vec();
        self.connections.write(move |connection| publish(connection, &batch, at)).await
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        self.connections.read(move |connection| message(connection, id)).await
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        let (topic, key) = (topic.to_owned(), key.to_owned());
        self.connections.read(move |connection| message_of(connection, &topic, &key)).await
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        let listing = listing.clone();
        self.connections.read(move |connection| list(connection, &listing, limit)).await
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        self.connections.write(move |connection| retry(connection, id, at)).await
    }
}

/// Writes a message inside the caller's own transaction on the engine's file, and its key into the ledger: both stand or
/// fall with that transaction.
///
/// Begin the transaction as an immediate one: a deferred one that has read before it writes is refused when the
/// engine has written in between.
///
/// # Errors
/// When the database cannot be read or written; the transaction is then of no use and must be rolled back.
pub fn publish_in(
    transaction: &Transaction<'_>,
    publication: &Publication,
    at: Timestamp,
) -> Result<Published, Error> {
    Ok(publish_one(transaction, publication, false, at)?)
}

fn publish(connection: &Connection, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Fault> {
    match publish_grouped(connection, batch, at) {
        // A message of the engine's own has the key of one of them.
        Err(fault) if fault.blames_the_data() => publish_each(connection, batch, at),
        published => published,
    }
}

/// Publishes by few statements. Fails where the file rejects one of the messages.
fn publish_grouped(
    connection: &Connection,
    batch: &[Publication],
    at: Timestamp,
) -> Result<Vec<Published>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut pending: Vec<&Publication> = Vec::with_capacity(GroupedInsert::LARGEST);
    let mut published: Vec<Option<Published>> = Vec::with_capacity(batch.len());
    for publication in batch {
        let NewMessage { topic, idempotency_key, .. } = &publication.message;
        let is_pending = |other: &&Publication| {
            other.message.idempotency_key == *idempotency_key && other.message.topic == *topic
        };
        if pending.len() == GroupedInsert::LARGEST || pending.iter().any(is_pending) {
            insert_pending(&transaction, &mut pending, &mut published, at)?;
        }
        let repeated = repeated(&transaction, publication)?;
        if repeated.is_none() {
            pending.push(publication);
        }
        published.push(repeated);
    }
    insert_pending(&transaction, &mut pending, &mut published, at)?;
    transaction.commit()?;
    Ok(published.into_iter().flatten().collect())
}

fn publish_each(
    connection: &Connection,
    batch: &[Publication],
    at: Timestamp,
) -> Result<Vec<Published>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let published: Result<Vec<Published>, Fault> =
        batch.iter().map(|publication| publish_one(&transaction, publication, true, at)).collect();
    let published = published?;
    transaction.commit()?;
    Ok(published)
}

/// Inserts messages and their keys in the ledger, and fills their places in `published`.
fn insert_pending(
    connection: &Connection,
    pending: &mut Vec<&Publication>,
    published: &mut [Option<Published>],
    at: Timestamp,
) -> Result<(), Fault> {
    let messages: Vec<_> = pending.iter().map(|publication| message_to_write(publication, at)).collect();
    let rows: Vec<_> = pending
        .iter()
        .zip(&messages)
        .map(|(publication, message)| row(message, Some(publication), true, at))
        .collect();
    insert_messages(connection, &rows)?;
    // Nobody else writes in this transaction, so the numbers are consecutive.
    let ids = (1 - i64::try_from(pending.len()).unwrap_or(i64::MAX)..=0)
        .map(|before| connection.last_insert_rowid() + before);
    for (place, id) in published.iter_mut().filter(|place| place.is_none()).zip(ids) {
        *place = Some(Published::Accepted(id));
    }
    let claims: Vec<_> = pending.iter().map(|publication| claim(publication, at)).collect();
    insert_claims(connection, &claims)?;
    pending.clear();
    Ok(())
}

/// Whoever knows that it stands counts it.
fn publish_one(
    connection: &Connection,
    publication: &Publication,
    counted: bool,
    at: Timestamp,
) -> Result<Published, Fault> {
    if let Some(repeated) = repeated(connection, publication)? {
        return Ok(repeated);
    }
    let message = &*message_to_write(publication, at);
    if !insert(connection, message, Some(publication), counted, at)? {
        return Ok(Published::Refused(format!(
            "the topic {:?} has a message of the engine's own under the key {:?}: use another key",
            message.topic, message.idempotency_key
        )));
    }
    let id = connection.last_insert_rowid();
    insert_claims(connection, &[claim(publication, at)])?;
    Ok(Published::Accepted(id))
}

/// The answer to a publication whose key the ledger has.
fn repeated(connection: &Connection, publication: &Publication) -> Result<Option<Published>, Fault> {
    let message = &publication.message;
    let Some((first, came)) = ledger(connection, message)? else { return Ok(None) };
    let kept = newest(connection, message)?;
    Ok(Some(match idempotency::judge(Some(&first), &publication.digest) {
        idempotency::Verdict::Conflict => Published::Conflict { id: kept, digest: first, at: came },
        idempotency::Verdict::Fresh | idempotency::Verdict::Replay => Published::Replay(kept),
    }))
}

/// Writes a message unless its key is there; says whether it did. The engine's own messages come without a publication.
pub(super) fn insert(
    connection: &Connection,
    message: &NewMessage,
    publication: Option<&Publication>,
    counted: bool,
    at: Timestamp,
) -> Result<bool, Fault> {
    let inserted = insert_messages(connection, &[row(message, publication, counted, at)]);
    is_inserted(inserted.map(|()| 1), || {
        connection
            .prepare_cached(sql!(messages::first_of_key))?
            .exists([&message.topic, &message.idempotency_key])
    })
}

fn claim(publication: &Publication, at: Timestamp) -> ClaimRow<'_> {
    ClaimRow {
        scope: scope(&publication.message.topic).into(),
        key: &publication.message.idempotency_key,
        digest: &publication.digest,
        saga: None,
        at,
    }
}

fn row<'m>(
    message: &'m NewMessage,
    publication: Option<&'m Publication>,
    counted: bool,
    at: Timestamp,
) -> MessageRow<'m> {
    MessageRow {
        topic: &message.topic,
        idempotency_key: &message.idempotency_key,
        ordering_key: message.ordering_key.as_deref(),
        ordering_scope: publication.and_then(|publication| publication.ordering_scope.as_deref()),
        payload: message.payload.as_str(),
        digest: publication.map(|publication| &publication.digest.0),
        expires_at: message.expires_at,
        counted,
        at,
    }
}

fn ledger(connection: &Connection, message: &NewMessage) -> Result<Option<(Digest, Timestamp)>, Fault> {
    let mut find = connection.prepare_cached(sql!(idempotency::find))?;
    let mut rows = find.query(params![scope(&message.topic), message.idempotency_key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = RowReader::of("idempotency_ledger", &message.idempotency_key, row);
    Ok(Some((Digest(row.bytes("digest")?), row.time("at")?)))
}

/// The newest message of this one's key.
fn newest(connection: &Connection, message: &NewMessage) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(sql!(messages::newest))?;
    let found: Option<i64> =
        statement.query_row(params![message.topic, message.idempotency_key], |row| row.get("id"))?;
    Ok(found.unwrap_or(REMOVED))
}

fn message(connection: &Connection, id: i64) -> Result<Option<Kept>, Fault> {
    Ok(select(connection, sql!(messages::by_id), [id])?.pop())
}

fn message_of(connection: &Connection, topic: &str, key: &str) -> Result<Option<Kept>, Fault> {
    Ok(select(connection, sql!(messages::by_key), [topic, key])?.pop())
}

fn list(connection: &Connection, listing: &Listing, at_most: usize) -> Result<Vec<Kept>, Fault> {
    use rusqlite::types::Value;
    let status = listing.status.map(|status| Value::from(status.as_str().to_owned()));
    let topic = listing.topic.clone().map(Value::from);
    let before = listing.before.map(Value::from);
    let values = [status, topic, before, Some(Value::from(limit(at_most)))];
    select(
        connection,
        &list_of(sql!(messages::messages), listing),
        params_from_iter(values.into_iter().flatten()),
    )
}

fn select(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<Kept>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(kept(row)?);
    }
    Ok(messages)
}

fn kept(row: &Row<'_>) -> Result<Kept, Corrupt> {
    let id = RowReader::of("outbox", &"?", row).get("id")?;
    let row = RowReader::of("outbox", &id, row);
    let code: Option<String> = row.get("last_error_code")?;
    let said: Option<String> = row.get("last_error_msg")?;
    let result = row.optional_text("result")?.map(|_| row.payload("result")).transpose()?;
    Ok(Kept {
        id,
        message: super::outbox::message(&row)?,
        digest: row.get::<Option<[u8; 32]>>("request_digest")?.map(Digest),
        // The table's check leaves nothing else.
        status: Status::named(row.text("status")?).unwrap_or(Status::Pending),
        attempts: row.count("attempts")?,
        in_doubt: row.get("in_doubt")?,
        due_at: row.optional_time("due_at")?,
        locked_by: row.get("locked_by")?,
        locked_at: row.optional_time("locked_at")?,
        retry_of: row.get("retry_of")?,
        last_error: code.zip(said).map(|(code, said)| Undelivered::new(code, said)),
        result,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

fn retry(connection: &Connection, id: i64, at: Timestamp) -> Result<Retried, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Some(aborted) = message(&transaction, id)? else {
        return Ok(Retried::Unknown);
    };
    let mut find = transaction.prepare_cached(sql!(messages::retried))?;
    let mut rows = find.query([id])?;
    if let Some(row) = rows.next()? {
        return Ok(Retried::Replay(row.get("id")?));
    }
    drop(rows);
    drop(find);
    if aborted.status != Status::Aborted {
        return Ok(Retried::NotAborted(aborted.status));
    }
    transaction.prepare_cached(sql!(messages::retry))?.execute(params![id, at.as_micros()])?;
    let new = transaction.last_insert_rowid();
    transaction
        .prepare_cached(sql!(idempotency::accept_again))?
        .execute(params![scope(&aborted.message.topic), aborted.message.idempotency_key])?;
    transaction.commit()?;
    Ok(Retried::Accepted(new))
}

/// The message with the time when it expires, by the clock of this process.
fn message_to_write(publication: &Publication, now: Timestamp) -> Cow<'_, NewMessage> {
    publication.expires_in.map_or(Cow::Borrowed(&publication.message), |time| {
        Cow::Owned(NewMessage { expires_at: Some(now.plus(time)), ..publication.message.clone() })
    })
}
