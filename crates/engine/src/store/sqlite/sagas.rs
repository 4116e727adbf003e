//! Sagas, read back.

use async_trait::async_trait;
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, codec};
use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use super::values::{Reading, integer, limit};
use super::{SqliteStore, commit, list, sql};
use crate::inbox::Received;
use crate::store::{
    Commit, Corrupt, Cursor, Error, Filter, LogHead, Page, SagaStore, Stored, Summary, Verdict,
};

#[async_trait]
impl SagaStore for SqliteStore {
    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        self.connections.write_here(|connection| commit::write(connection, batch))
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        let ids = sagas.to_vec();
        self.connections.read(move |connection| load(connection, &ids)).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.connections.read(move |connection| log(connection, saga, after, limit)).await
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.log(saga, after, limit).await
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        let ids = logs.to_vec();
        self.connections.read(move |connection| heads(connection, &ids)).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        let (filter, cursor) = (filter.clone(), cursor.clone());
        self.connections.read(move |connection| list::list(connection, &filter, &cursor)).await
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| rows(connection, &sagas)).await
    }
}

/// The columns that [`summary`] reads, in its order.
pub(super) const SUMMARY: &str = "sagas.id, definition, version, status, paused, failed_step, owner, wake_at, \
                                  correlation_id, created_at, updated_at";

/// Each of these that exists, whole and as of one moment.
fn load(connection: &Connection, sagas: &[SagaId]) -> Result<Vec<Stored>, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut found = Vec::with_capacity(sagas.len());
    for saga in sagas {
        if let Some(stored) = load_one(&snapshot, *saga)? {
            found.push(stored);
        }
    }
    Ok(found)
}

/// The row of each of these that exists.
fn rows(connection: &Connection, sagas: &[SagaId]) -> Result<Vec<Summary>, Fault> {
    let mut statement = connection.prepare_cached(sql!("load_row"))?;
    let mut found = Vec::with_capacity(sagas.len());
    for saga in sagas {
        let mut rows = statement.query([saga.0.as_bytes()])?;
        if let Some(row) = rows.next()? {
            found.push(summary(row)?);
        }
    }
    Ok(found)
}

fn load_one(connection: &Connection, saga: SagaId) -> Result<Option<Stored>, Fault> {
    let mut statement = connection.prepare_cached(sql!("load_row"))?;
    let mut rows = statement.query([saga.0.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(Stored {
        summary: summary(row)?,
        log: log(connection, saga, 0, usize::MAX)?,
        inbox: inbox(connection, saga)?,
        inbox_seq: Reading::of("sagas", &saga, row).count(11, "inbox_seq")?,
    }))
}

/// A row of the columns [`SUMMARY`].
pub(super) fn summary(row: &Row<'_>) -> Result<Summary, Corrupt> {
    let id = Reading::of("sagas", &"?", row).saga(0, "id")?;
    let row = Reading::of("sagas", &id, row);
    Ok(Summary {
        id,
        definition: row.text(1, "definition")?.into(),
        version: row.count(2, "version")?,
        status: row.status(3)?,
        paused: row.get(4, "paused")?,
        failed_step: row.optional_step(5, "failed_step")?,
        stuck: None,
        owner: row.get(6, "owner")?,
        wake_at: row.optional_time(7, "wake_at")?,
        correlation_id: row.get(8, "correlation_id")?,
        created_at: row.time(9, "created_at")?,
        updated_at: row.time(10, "updated_at")?,
    })
}

/// Events after a number.
pub(super) fn log(
    connection: &Connection,
    saga: SagaId,
    after: u64,
    at_most: usize,
) -> Result<Vec<Recorded>, Fault> {
    let mut statement = connection.prepare_cached(sql!("load_log"))?;
    let mut rows = statement.query(params![saga.0.as_bytes(), integer(after), limit(at_most)])?;
    let mut log = Vec::new();
    while let Some(row) = rows.next()? {
        log.push(recorded(saga, row)?);
    }
    Ok(log)
}

fn recorded(saga: SagaId, row: &Row<'_>) -> Result<Recorded, Corrupt> {
    let row = Reading::of("saga_events", &saga, row);
    let event = codec::event(
        row.text(2, "type")?,
        row.optional_text(3, "step")?,
        row.get(4, "attempt")?,
        row.optional_text(5, "data")?,
    );
    Ok(Recorded {
        seq: row.count(0, "seq")?,
        at: row.time(1, "at")?,
        event: event.map_err(|why| Corrupt::of("saga_events", "data", saga, &why))?,
    })
}

fn inbox(connection: &Connection, saga: SagaId) -> Result<Vec<Received>, Fault> {
    let mut statement = connection.prepare_cached(sql!("load_inbox"))?;
    let mut rows = statement.query([saga.0.as_bytes()])?;
    let mut inbox = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Reading::of("saga_inbox", &saga, row);
        let message = serde_json::from_str(row.text(1, "body")?);
        inbox.push(Received {
            seq: row.count(0, "seq")?,
            message: message.map_err(|why| Corrupt::of("saga_inbox", "body", saga, &why))?,
        });
    }
    Ok(inbox)
}

/// How far these logs go.
fn heads(connection: &Connection, ids: &[SagaId]) -> Result<Vec<LogHead>, Fault> {
    let mut statement = connection.prepare_cached(sql!("head"))?;
    let mut heads = Vec::with_capacity(ids.len());
    for id in ids {
        let seq: Option<u32> = statement.query_one([id.0.as_bytes()], |row| row.get(0))?;
        heads.extend(seq.map(|seq| LogHead { log: *id, seq: seq.into() }));
    }
    Ok(heads)
}
