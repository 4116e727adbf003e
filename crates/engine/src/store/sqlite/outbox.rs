//! Messages to the world on their way out.

use std::time::Duration;

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::sql;
use super::values::{Reading, limit};
use crate::store::Corrupt;
use crate::store::outbox::{NewMessage, Outgoing, Report, Sent};

pub(super) fn claim(
    connection: &Connection,
    lease: Duration,
    now: Timestamp,
    at_most: usize,
) -> Result<Vec<Outgoing>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
    let abandoned_since = now.as_micros().saturating_sub(lease);
    let mut claimed = due(&transaction, now, abandoned_since, at_most)?;
    claimed.sort_by_key(|outgoing| outgoing.id);
    for outgoing in &mut claimed {
        outgoing.lock += 1;
        transaction
            .prepare_cached("update outbox set status = 'sending', lock = ?2, locked_at = ?3 where id = ?1")?
            .execute(params![outgoing.id, outgoing.lock, now.as_micros()])?;
    }
    transaction.commit()?;
    Ok(claimed)
}

fn due(
    connection: &Connection,
    now: Timestamp,
    abandoned_since: i64,
    at_most: usize,
) -> Result<Vec<Outgoing>, Fault> {
    let mut statement = connection.prepare_cached(sql!("due_messages"))?;
    let mut rows = statement.query(params![now.as_micros(), abandoned_since, limit(at_most)])?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        due.push(outgoing(row)?);
    }
    Ok(due)
}

fn outgoing(row: &Row<'_>) -> Result<Outgoing, Corrupt> {
    let id = Reading::of("outbox", &"?", row).get(0, "id")?;
    let row = Reading::of("outbox", &id, row);
    Ok(Outgoing {
        id,
        message: NewMessage {
            topic: row.get(1, "topic")?,
            idempotency_key: row.get(2, "idempotency_key")?,
            ordering_key: row.get(3, "ordering_key")?,
            payload: row.payload(4, "payload")?,
        },
        attempts: row.count(5, "attempts")?,
        lock: row.get(6, "lock")?,
        in_doubt: row.get(7, "status")?,
    })
}

pub(super) fn settle(connection: &Connection, sent: &[Sent]) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut statement = transaction.prepare_cached(sql!("settle_outbox"))?;
    for sent in sent {
        let (status, due_at, error) = match &sent.report {
            Report::Delivered => ("sent", None, None),
            Report::Retry { at, error } => ("failed", Some(at.as_micros()), Some(error)),
            Report::Aborted { error } => ("aborted", None, Some(error)),
        };
        statement.execute(params![sent.id, sent.lock, status, due_at, error])?;
    }
    drop(statement);
    transaction.commit()?;
    Ok(())
}

pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Fault> {
    one_time(connection, sql!("next_outgoing"))
}

pub(super) fn oldest(connection: &Connection) -> Result<Option<Timestamp>, Fault> {
    one_time(connection, sql!("oldest_outgoing"))
}

fn one_time(connection: &Connection, sql: &str) -> Result<Option<Timestamp>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let time: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(time.map(Timestamp::from_micros))
}
