//! Sagas, read back.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use backstitch_kernel::saga::{Recorded, Status, codec};
use backstitch_kernel::{SagaId, StepId};
use futures::future::try_join3;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::session::{Session, read};
use super::values::{get, get_count, get_time, limit, timestamp};
use super::{PostgresStore, list, settle, sql};
use crate::inbox::Received;
use crate::store::{
    Commit, Corrupt, Cursor, Error, Filter, LogHead, Page, SagaStore, Stored, Summary, Verdict,
};

#[async_trait]
impl SagaStore for PostgresStore {
    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        settle::write(&self.sessions, batch).await
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        read!(self.sessions, |session| load(session, sagas))
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        read!(self.sessions, |session| log(session, saga, after, limit))
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        read!(self.sessions, |session| durable_log(session, saga, after, limit))
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        read!(self.sessions, |session| heads(session, logs))
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        read!(self.sessions, |session| list::list(session, filter, cursor))
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        read!(self.sessions, |session| rows(session, sagas))
    }
}

/// Rows, logs and inboxes of the same moment.
async fn load(session: &mut Session, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
    let ids: Vec<Uuid> = sagas.iter().map(|saga| saga.0).collect();
    let ids: &[&(dyn ToSql + Sync)] = &[&ids];
    let kept = async {
        let moment = session.moment().start().await?;
        let load_row = moment.prepare_cached(sql!(sagas::load)).await?;
        let load_logs = moment.prepare_cached(sql!(sagas::logs)).await?;
        let load_inbox = moment.prepare_cached(sql!(inbox::load)).await?;
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
async fn heads(session: &Session, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
    let ids: Vec<Uuid> = logs.iter().map(|log| log.0).collect();
    let rows = session.query(sql!(sagas::heads), &[&ids]).await?;
    let heads = rows.iter().map(|row| {
        let seq = get::<i32>(row, "seq")?.unsigned_abs().into();
        Ok(LogHead { log: SagaId(get(row, "id")?), seq })
    });
    heads.collect()
}

async fn log(session: &Session, saga: SagaId, after: u64, rows: usize) -> Result<Vec<Recorded>, Error> {
    let after = i32::try_from(after).unwrap_or(i32::MAX);
    let events = session.query(sql!(sagas::log), &[&saga.0, &after, &limit(rows)]).await?;
    events.iter().map(|event| recorded(event, saga)).collect()
}

/// The same, and these events are durable, also on a synchronous standby.
async fn durable_log(
    session: &Session,
    saga: SagaId,
    after: u64,
    rows: usize,
) -> Result<Vec<Recorded>, Error> {
    let events = log(session, saga, after, rows).await?;
    session.confirm().await?;
    Ok(events)
}

async fn rows(session: &Session, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
    let ids: Vec<Uuid> = sagas.iter().map(|saga| saga.0).collect();
    session.query(sql!(sagas::load), &[&ids]).await?.iter().map(summary).collect()
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

pub(super) fn status(row: &Row, saga: Option<SagaId>) -> Result<Status, Error> {
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
