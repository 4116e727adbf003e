//! Sagas, read back.

use async_trait::async_trait;
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, codec};
use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use super::values::{RowReader, integer, limit};
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
    let mut statement = connection.prepare_cached(sql!(sagas::load))?;
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
    let mut statement = connection.prepare_cached(sql!(sagas::load))?;
    let mut rows = statement.query([saga.0.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(Stored {
        summary: summary(row)?,
        log: log(connection, saga, 0, usize::MAX)?,
        inbox: inbox(connection, saga)?,
        inbox_seq: RowReader::of("sagas", &saga, row).count("inbox_seq")?,
    }))
}

/// A row of the columns `sagas::summary`.
pub(super) fn summary(row: &Row<'_>) -> Result<Summary, Corrupt> {
    let id = RowReader::of("sagas", &"?", row).saga("id")?;
    let row = RowReader::of("sagas", &id, row);
    Ok(Summary {
        id,
        definition: row.text("definition")?.into(),
        version: row.count("version")?,
        status: row.status()?,
        paused: row.get("paused")?,
        failed_step: row.optional_step("failed_step")?,
        stuck: None,
        owner: row.get("owner")?,
        wake_at: row.optional_time("wake_at")?,
        correlation_id: row.get("correlation_id")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

/// Events after a number.
pub(super) fn log(
    connection: &Connection,
    saga: SagaId,
    after: u64,
    at_most: usize,
) -> Result<Vec<Recorded>, Fault> {
    let mut statement = connection.prepare_cached(sql!(sagas::log))?;
    let mut rows = statement.query(params![saga.0.as_bytes(), integer(after), limit(at_most)])?;
    let mut log = Vec::new();
    while let Some(row) = rows.next()? {
        log.push(recorded(saga, row)?);
    }
    Ok(log)
}

fn recorded(saga: SagaId, row: &Row<'_>) -> Result<Recorded, Corrupt> {
    let row = RowReader::of("saga_events", &saga, row);
    let event = codec::event(
        row.text("type")?,
        row.optional_text("step")?,
        row.get("attempt")?,
        row.optional_text("data")?,
    );
    Ok(Recorded {
        seq: row.count("seq")?,
        at: row.time("at")?,
        event: event.map_err(|why| Corrupt::of("saga_events", "data", saga, &why))?,
    })
}

fn inbox(connection: &Connection, saga: SagaId) -> Result<Vec<Received>, Fault> {
    let mut statement = connection.prepare_cached(sql!(inbox::load))?;
    let mut rows = statement.query([saga.0.as_bytes()])?;
    let mut inbox = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RowReader::of("saga_inbox", &saga, row);
        let message = serde_json::from_str(row.text("body")?);
        inbox.push(Received {
            seq: row.count("seq")?,
            message: message.map_err(|why| Corrupt::of("saga_inbox", "body", saga, &why))?,
        });
    }
    Ok(inbox)
}

/// How far these logs go.
fn heads(connection: &Connection, ids: &[SagaId]) -> Result<Vec<LogHead>, Fault> {
    let mut statement = connection.prepare_cached(sql!(sagas::heads))?;
    let mut heads = Vec::with_capacity(ids.len());
    for id in ids {
        let seq: Option<u32> = statement.query_one([id.0.as_bytes()], |row| row.get("seq"))?;
        heads.extend(seq.map(|seq| LogHead { log: *id, seq: seq.into() }));
    }
    Ok(heads)
}
