//! What is kept about sagas, read back.

use std::collections::HashMap;
use std::sync::Arc;

use backstitch_kernel::saga::{Recorded, Status, codec};
use backstitch_kernel::{SagaId, StepId, Timestamp};
use futures::future::{try_join, try_join3};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::session::Session;
use super::sql;
use super::value::{get, get_count, get_time, limit, time, timestamp};
use crate::inbox::Received;
use crate::store::nodes::Known;
use crate::store::query::ENOUGH;
use crate::store::{COUNTED, Corrupt, Counts, Error, LogHead, Stored, Summary, Unregistered};

/// Rows, logs and inboxes of the same moment.
pub(super) async fn load(session: &mut Session, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
    let ids: Vec<Uuid> = sagas.iter().map(|saga| saga.0).collect();
    let ids: &[&(dyn ToSql + Sync)] = &[&ids];
    let kept = async {
        let moment = session.moment().start().await?;
        let load_row = moment.prepare_cached(sql!("load_row")).await?;
        let load_logs = moment.prepare_cached(include_str!("load_logs.sql")).await?;
        let load_inbox = moment.prepare_cached(sql!("load_inbox")).await?;
        let kept = try_join3(
            moment.query(&load_row, ids),
            moment.query(&load_logs, ids),
            moment.query(&load_inbox, ids),
        );
        let kept = kept.await?;
        moment.commit().await?;
        Ok(kept)
    };
    let kept = kept.await.map_err(|why| session.told(&why));
    let (rows, events, messages) = kept?;

    let mut logs: HashMap<SagaId, Vec<Recorded>> = HashMap::with_capacity(rows.len());
    for event in &events {
        let saga = SagaId(get(event, "saga_id")?);
        logs.entry(saga).or_default().push(recorded(event, saga)?);
    }
    let mut inboxes: HashMap<SagaId, Vec<Received>> = HashMap::new();
    for message in &messages {
        let saga = SagaId(get(message, "saga_id")?);
        inboxes.entry(saga).or_default().push(received(message, saga)?);
    }
    let stored = rows.iter().map(|row| {
        let summary = summary(row)?;
        Ok(Stored {
            log: logs.remove(&summary.id).unwrap_or_default(),
            inbox: inboxes.remove(&summary.id).unwrap_or_default(),
            inbox_seq: get_count::<u64>(row, "sagas", "inbox_seq", summary.id)?,
            summary,
        })
    });
    stored.collect()
}

/// How far these logs go.
pub(super) async fn heads(session: &Session, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
    let ids: Vec<Uuid> = logs.iter().map(|log| log.0).collect();
    let rows = session.query(sql!("head"), &[&ids]).await?;
    let heads = rows.iter().map(|row| {
        let seq = get::<i32>(row, "seq")?.unsigned_abs().into();
        Ok(LogHead { log: SagaId(get(row, "id")?), seq })
    });
    heads.collect()
}

pub(super) async fn log(
    session: &Session,
    saga: SagaId,
    after: u64,
    rows: usize,
) -> Result<Vec<Recorded>, Error> {
    let after = i32::try_from(after).unwrap_or(i32::MAX);
    let events = session.query(sql!("load_log"), &[&saga.0, &after, &limit(rows)]).await?;
    events.iter().map(|event| recorded(event, saga)).collect()
}

/// The same, and these events are durable, also on a synchronous standby.
pub(super) async fn durable_log(
    session: &Session,
    saga: SagaId,
    after: u64,
    rows: usize,
) -> Result<Vec<Recorded>, Error> {
    let events = log(session, saga, after, rows).await?;
    session.confirm().await?;
    Ok(events)
}

pub(super) async fn rows(session: &Session, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
    let ids: Vec<Uuid> = sagas.iter().map(|saga| saga.0).collect();
    session.query(sql!("load_row"), &[&ids]).await?.iter().map(summary).collect()
}

pub(super) async fn stuck(
    session: &Session,
    since: Timestamp,
    at_most: usize,
) -> Result<Vec<Summary>, Error> {
    let rows = session.query(sql!("health_stuck"), &[&time(since), &limit(at_most)]).await?;
    rows.iter().map(summary).collect()
}

pub(super) async fn counts(session: &Session, known: &[Known]) -> Result<Counts, Error> {
    let enough = limit(ENOUGH);
    let (active, unregistered) = try_join(
        session.query(sql!("health_active"), &[&enough]),
        session.query(sql!("health_unregistered"), &[&enough]),
    )
    .await?;
    let mut counts = Counts::default();
    for row in &active {
        let sagas: i64 = get(row, "count")?;
        if sagas > 0 {
            counts.active.insert(status(row, None)?, sagas.unsigned_abs());
        }
    }
    for row in &unregistered {
        let waiting = Unregistered {
            definition: get(row, "definition")?,
            version: get::<i32>(row, "version")?.unsigned_abs(),
            sagas: get::<i64>(row, "sagas")?.unsigned_abs().min(COUNTED + 1),
        };
        let is_waiting =
            |known: &Known| *known.name == *waiting.definition && known.version == waiting.version;
        if !known.iter().any(is_waiting) {
            counts.unregistered.push(waiting);
        }
    }
    Ok(counts)
}

pub(super) fn summary(row: &Row) -> Result<Summary, Error> {
    let id = SagaId(get(row, "id")?);
    Ok(Summary {
        id,
        definition: get::<&str>(row, "definition").map(Arc::from)?,
        version: get_count(row, "sagas", "version", id)?,
        status: status(row, Some(id))?,
        paused: get(row, "paused")?,
        failed_step: get::<Option<&str>>(row, "failed_step")?.map(StepId::from),
        stuck: None,
        owner: get(row, "owner")?,
        wake_at: get::<Option<_>>(row, "wake_at")?.map(timestamp),
        correlation_id: get(row, "correlation_id")?,
        created_at: get_time(row, "created_at")?,
        updated_at: get_time(row, "updated_at")?,
    })
}

fn status(row: &Row, saga: Option<SagaId>) -> Result<Status, Error> {
    let name: &str = get(row, "status")?;
    let unknown = || {
        Error::from(Corrupt {
            table: "sagas",
            column: "status",
            id: saga.map_or_else(|| "some saga".to_owned(), |saga| saga.to_string()),
            why: format!("`{name}` is no status"),
        })
    };
    Status::parse(name).ok_or_else(unknown)
}

pub(super) fn recorded(row: &Row, saga: SagaId) -> Result<Recorded, Error> {
    let attempt: Option<i32> = get(row, "attempt")?;
    let event =
        codec::event(get(row, "type")?, get(row, "step")?, attempt.map(i32::unsigned_abs), get(row, "data")?);
    Ok(Recorded {
        seq: get_count(row, "saga_events", "seq", saga)?,
        at: get_time(row, "at")?,
        event: event.map_err(|why| Corrupt::of("saga_events", "data", saga, &why))?,
    })
}

fn received(row: &Row, saga: SagaId) -> Result<Received, Error> {
    let message = serde_json::from_str(get(row, "body")?);
    Ok(Received {
        seq: get_count(row, "saga_inbox", "seq", saga)?,
        message: message.map_err(|why| Corrupt::of("saga_inbox", "body", saga, &why))?,
    })
}
