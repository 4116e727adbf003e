//! Messages on their way to the world.

use std::time::{Duration, SystemTime};

use backstitch_kernel::{Payload, Timestamp};
use tokio_postgres::Row;

use super::session::Session;
use super::sql;
use super::value::{get, get_time, limit, millis, readable, time};
use crate::store::outbox::{NewMessage, Outgoing, Report, Sent};
use crate::store::{Corrupt, Error};

pub(super) async fn claim(session: &Session, lease: Duration, rows: usize) -> Result<Vec<Outgoing>, Error> {
    let claimed = session.query(sql!("due_messages"), &[&millis(lease), &limit(rows)]).await?;
    claimed.iter().map(outgoing).collect()
}

pub(super) async fn settle(session: &Session, sent: &[Sent]) -> Result<(), Error> {
    let mut ids = Vec::with_capacity(sent.len());
    let mut locks = Vec::with_capacity(sent.len());
    let mut statuses: Vec<&str> = Vec::with_capacity(sent.len());
    let mut due: Vec<Option<SystemTime>> = Vec::with_capacity(sent.len());
    let mut errors: Vec<Option<String>> = Vec::with_capacity(sent.len());
    for sent in sent {
        let (status, at, error) = match &sent.report {
            Report::Delivered => ("sent", None, None),
            Report::Retry { at, error } => ("failed", Some(time(*at)), Some(readable(error))),
            Report::Aborted { error } => ("aborted", None, Some(readable(error))),
        };
        ids.push(sent.id);
        locks.push(sent.lock);
        statuses.push(status);
        due.push(at);
        errors.push(error);
    }
    session.query(sql!("settle_outbox"), &[&ids, &locks, &statuses, &due, &errors]).await.map(|_| ())
}

pub(super) async fn next_due(session: &Session) -> Result<Option<Timestamp>, Error> {
    let rows = session.query(sql!("next_outgoing"), &[]).await?;
    rows.first().map(|row| get_time(row, "due_at")).transpose()
}

pub(super) async fn oldest(session: &Session) -> Result<Option<Timestamp>, Error> {
    let rows = session.query(sql!("oldest_outgoing"), &[]).await?;
    rows.first().map(|row| get_time(row, "created_at")).transpose()
}

fn outgoing(row: &Row) -> Result<Outgoing, Error> {
    let id: i64 = get(row, "id")?;
    let payload = Payload::parse(get::<&str>(row, "payload")?).map_err(|why| Corrupt {
        table: "outbox",
        column: "payload",
        id: format!("message {id}"),
        why: why.to_string(),
    })?;
    Ok(Outgoing {
        id,
        lock: get(row, "lock")?,
        message: NewMessage {
            topic: get(row, "topic")?,
            idempotency_key: get(row, "idempotency_key")?,
            ordering_key: get(row, "ordering_key")?,
            payload,
        },
        attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
        in_doubt: get(row, "in_doubt")?,
    })
}
