//! Messages as they are asked for, asked about and asked for again.

use backstitch_kernel::Timestamp;
use backstitch_kernel::idempotency::{self, Digest};
use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior, params, params_from_iter};

use super::fault::{Fault, is_inserted};
use super::sql;
use super::values::{Reading, limit};
use crate::outbox::sink::Undelivered;
use crate::store::outbox::{
    Kept, Listing, NewMessage, Publication, Published, REMOVED, Retried, Status, reading, scope,
};
use crate::store::{Corrupt, Error};

const FIRST_OF_KEY: &str =
    "select 1 from outbox where topic = ?1 and idempotency_key = ?2 and retry_of is null";

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

pub(super) fn publish(
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

/// Whoever knows that it stands counts it.
fn publish_one(
    connection: &Connection,
    publication: &Publication,
    counted: bool,
    at: Timestamp,
) -> Result<Published, Fault> {
    let (message, digest) = (&*publication.written(at), &publication.digest);
    if let Some((first, came)) = ledger(connection, message)? {
        let kept = newest(connection, message)?;
        return Ok(match idempotency::judge(Some(&first), digest) {
            idempotency::Verdict::Conflict => Published::Conflict { id: kept, digest: first, at: came },
            idempotency::Verdict::Fresh | idempotency::Verdict::Replay => Published::Replay(kept),
        });
    }
    if !insert(connection, message, Some(publication), counted, at)? {
        return Ok(Published::Refused(format!(
            "the topic {:?} has a message of the engine's own under the key {:?}: use another key",
            message.topic, message.idempotency_key
        )));
    }
    let id = connection.last_insert_rowid();
    connection.prepare_cached(include_str!("insert_claim.sql"))?.execute(params![
        scope(&message.topic),
        message.idempotency_key,
        digest.0,
        None::<[u8; 16]>,
        at.as_micros()
    ])?;
    Ok(Published::Accepted(id))
}

/// Writes a message unless its key is there; says whether it did. The engine's own messages come without a publication.
pub(super) fn insert(
    connection: &Connection,
    message: &NewMessage,
    publication: Option<&Publication>,
    counted: bool,
    at: Timestamp,
) -> Result<bool, Fault> {
    let inserted = connection.prepare_cached(include_str!("insert_message.sql"))?.execute(params![
        message.topic,
        message.idempotency_key,
        message.ordering_key,
        message.payload.as_str(),
        publication.map(|publication| publication.digest.0),
        message.expires_at.map(Timestamp::as_micros),
        at.as_micros(),
        counted,
        publication.and_then(|publication| publication.ordering_scope.as_deref())
    ]);
    is_inserted(inserted, || {
        connection.prepare_cached(FIRST_OF_KEY)?.exists([&message.topic, &message.idempotency_key])
    })
}

fn ledger(connection: &Connection, message: &NewMessage) -> Result<Option<(Digest, Timestamp)>, Fault> {
    let mut find = connection.prepare_cached(sql!("find_claim"))?;
    let mut rows = find.query(params![scope(&message.topic), message.idempotency_key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = Reading::of("idempotency_ledger", &message.idempotency_key, row);
    Ok(Some((Digest(row.bytes(0, "digest")?), row.time(2, "at")?)))
}

/// The newest message of this one's key.
fn newest(connection: &Connection, message: &NewMessage) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(&format!("select {}", reading::NEWEST))?;
    let found: Option<i64> =
        statement.query_row(params![message.topic, message.idempotency_key], |row| row.get(0))?;
    Ok(found.unwrap_or(REMOVED))
}

pub(super) fn message(connection: &Connection, id: i64) -> Result<Option<Kept>, Fault> {
    Ok(select(connection, &reading::by_number(), [id])?.pop())
}

pub(super) fn message_of(connection: &Connection, topic: &str, key: &str) -> Result<Option<Kept>, Fault> {
    Ok(select(connection, &reading::by_key(), [topic, key])?.pop())
}

pub(super) fn list(connection: &Connection, listing: &Listing, at_most: usize) -> Result<Vec<Kept>, Fault> {
    use rusqlite::types::Value;
    let status = listing.status.map(|status| Value::from(status.as_str().to_owned()));
    let topic = listing.topic.clone().map(Value::from);
    let before = listing.before.map(Value::from);
    let values = [status, topic, before, Some(Value::from(limit(at_most)))];
    select(connection, &reading::list(listing), params_from_iter(values.into_iter().flatten()))
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
    let id = Reading::of("outbox", &"?", row).get(0, "id")?;
    let row = Reading::of("outbox", &id, row);
    let code: Option<String> = row.get(14, "last_error_code")?;
    let said: Option<String> = row.get(15, "last_error_msg")?;
    let result = row.optional_text(16, "result")?.map(|_| row.payload(16, "result")).transpose()?;
    Ok(Kept {
        id,
        message: super::outbox::message(&row)?,
        digest: row.get::<Option<[u8; 32]>>(6, "request_digest")?.map(Digest),
        // The table's check leaves nothing else.
        status: Status::named(row.text(7, "status")?).unwrap_or(Status::Pending),
        attempts: row.count(8, "attempts")?,
        in_doubt: row.get(9, "in_doubt")?,
        due_at: row.optional_time(10, "due_at")?,
        locked_by: row.get(11, "locked_by")?,
        locked_at: row.optional_time(12, "locked_at")?,
        retry_of: row.get(13, "retry_of")?,
        last_error: code.zip(said).map(|(code, said)| Undelivered::new(code, said)),
        result,
        created_at: row.time(17, "created_at")?,
        updated_at: row.time(18, "updated_at")?,
    })
}

pub(super) fn retry(connection: &Connection, id: i64, at: Timestamp) -> Result<Retried, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Some(aborted) = message(&transaction, id)? else {
        return Ok(Retried::Unknown);
    };
    let mut find = transaction.prepare_cached("select id from outbox where retry_of = ?1")?;
    let mut rows = find.query([id])?;
    if let Some(row) = rows.next()? {
        return Ok(Retried::Replay(row.get(0)?));
    }
    drop(rows);
    drop(find);
    if aborted.status != Status::Aborted {
        return Ok(Retried::NotAborted(aborted.status));
    }
    transaction.prepare_cached(sql!("retry_message"))?.execute(params![id, at.as_micros()])?;
    let new = transaction.last_insert_rowid();
    transaction
        .prepare_cached(
            "update idempotency_ledger set state = 'accepted', result = null where scope = ?1 and key = ?2",
        )?
        .execute(params![scope(&aborted.message.topic), aborted.message.idempotency_key])?;
    transaction.commit()?;
    Ok(Retried::Accepted(new))
}
