//! Removes what has been over for long enough, and gives the room back to the file system.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::{Event, Status};
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::values::{RowReader, limit};
use super::{SqliteStore, sagas, sql};
use crate::store::retention::{
    Bulk, Gone, Key, KeyName, OldKey, OldKeys, OldMessage, OldMessages, OldSagas, Shrunk,
};
use crate::store::{Corrupt, Error, RetentionStore, outbox};

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| old_sagas(connection, status, age, after, limit, now)).await
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| bulk_of_sagas(connection, &sagas)).await
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| keys_of_sagas(connection, &sagas)).await
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        let (sagas, now) = (sagas.to_vec(), self.clock.now());
        self.connections.write(move |connection| remove_sagas(connection, &sagas, status, age, now)).await
    }

    async fn old_messages(
        &self,
        status: outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        let (besides, before) = (besides.map(str::to_owned), before(age, self.clock.now()));
        self.connections
            .read(move |connection| {
                old_messages(connection, status, before, besides.as_deref(), after, limit)
            })
            .await
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        let messages = messages.to_vec();
        self.connections.write(move |connection| remove_messages(connection, &messages)).await
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        let (after, now) = (after.cloned(), self.clock.now());
        self.connections.read(move |connection| old_keys(connection, age, after, limit, now)).await
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        let keys = keys.to_vec();
        self.connections.write(move |connection| remove_keys(connection, &keys)).await
    }

    async fn shrink(&self, pages: u32) -> Result<Shrunk, Error> {
        self.connections.write(move |connection| shrink(connection, pages)).await
    }
}

/// Of this many pages one is left free, for the rows to come: a file that has just shrunk would have to grow again.
const ROOM: u64 = 20;

/// The last moment that is old enough.
fn before(age: Duration, now: Timestamp) -> i64 {
    now.as_micros().saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}

/// Ids as statements take them: a list of their digits.
fn listed(sagas: &[SagaId]) -> String {
    let ids: Vec<String> = sagas.iter().map(|saga| format!("\"{}\"", saga.0.simple())).collect();
    format!("[{}]", ids.join(","))
}

fn old_sagas(
    connection: &Connection,
    status: Status,
    age: Duration,
    after: Option<SagaId>,
    at_most: usize,
    now: Timestamp,
) -> Result<OldSagas, Fault> {
    let after = after.map_or([0; 16], |saga| *saga.0.as_bytes());
    let mut statement = connection.prepare_cached(sql!(retention::old_sagas))?;
    let mut rows = statement.query(params![status.as_str(), before(age, now), after, limit(at_most)])?;
    let mut found = OldSagas::default();
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        let row = RowReader::of("sagas", &"?", row);
        let saga = row.saga("id")?;
        if row.get("old")? {
            found.old.push(saga);
        }
        seen += 1;
        let behind: bool = row.get("young")?;
        found.next = Some(saga).filter(|_| seen == at_most && !behind);
    }
    Ok(found)
}

fn bulk_of_sagas(connection: &Connection, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Fault> {
    let mut statement = connection.prepare_cached(sql!(retention::log_sizes))?;
    let mut bulks = Vec::with_capacity(sagas.len());
    for saga in sagas {
        let mut rows = statement.query([saga.0.as_bytes()])?;
        if let Some(row) = rows.next()? {
            let row = RowReader::of("saga_events", saga, row);
            bulks.push((*saga, Bulk { rows: row.count("events")?, bytes: row.count("bytes")? }));
        }
    }
    Ok(bulks)
}

fn keys_of_sagas(connection: &Connection, sagas: &[SagaId]) -> Result<Vec<Key>, Fault> {
    keys(connection, sql!(idempotency::of_sagas), [listed(sagas)])
}

/// The row goes first, then what belongs to it: a log that lost its row can go, and none before.
fn remove_sagas(
    connection: &Connection,
    sagas: &[SagaId],
    status: Status,
    age: Duration,
    now: Timestamp,
) -> Result<Gone, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let removed = {
        let mut statement = transaction.prepare_cached(sql!(retention::remove_sagas))?;
        let mut rows = statement.query(params![listed(sagas), status.as_str(), before(age, now)])?;
        let mut removed = Vec::with_capacity(sagas.len());
        while let Some(row) = rows.next()? {
            removed.push(RowReader::of("sagas", &"?", row).saga("id")?);
        }
        removed
    };
    let mut gone = Gone { sagas: removed.len() as u64, ..Gone::default() };
    for saga in &removed {
        remove_belongings(&transaction, *saga, &mut gone)?;
    }
    transaction.commit()?;
    Ok(gone)
}

fn remove_belongings(connection: &Connection, saga: SagaId, gone: &mut Gone) -> Result<(), Fault> {
    let id = saga.0.as_bytes();
    let remove =
        |statement| -> Result<u64, Fault> { Ok(connection.prepare_cached(statement)?.execute([id])? as u64) };
    // Attributes are kept by name and value, which the first event tells.
    match sagas::log(connection, saga, 0, 1).map(|mut log| log.pop().map(|first| first.event)) {
        Ok(Some(Event::SagaStarted(started))) => {
            for (name, value) in &started.attributes {
                connection
                    .prepare_cached(sql!(retention::remove_attribute))?
                    .execute(params![name, value, id])?;
            }
        }
        // Where it cannot, all there are are gone through. That takes long, and happens to nobody whose rows are left alone.
        Err(Fault::Store(Error::Corrupt(_))) => {
            remove(sql!(retention::remove_attributes))?;
        }
        Err(fault) => return Err(fault),
        Ok(_) => {}
    }
    gone.events += remove(sql!(retention::remove_log))?;
    remove(sql!(inbox::clear))?;
    gone.jobs += remove(sql!(retention::remove_jobs))?;
    gone.keys += remove(sql!(retention::remove_keys))?;
    Ok(())
}

fn old_messages(
    connection: &Connection,
    status: outbox::Status,
    before: i64,
    besides: Option<&str>,
    after: Option<i64>,
    at_most: usize,
) -> Result<OldMessages, Fault> {
    let mut statement = connection.prepare_cached(sql!(retention::old_messages))?;
    let values = params![status.as_str(), before, limit(at_most), besides, after.unwrap_or_default()];
    let mut rows = statement.query(values)?;
    let mut found = OldMessages::default();
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        let row = RowReader::of("outbox", &"?", row);
        let id = row.get("id")?;
        if row.get("old")? {
            found.old.push(OldMessage { id, bytes: row.count("bytes")? });
        }
        seen += 1;
        found.next = Some(id).filter(|_| seen == at_most);
    }
    Ok(found)
}

fn remove_messages(connection: &Connection, messages: &[i64]) -> Result<u64, Fault> {
    let ids: Vec<String> = messages.iter().map(i64::to_string).collect();
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let removed = {
        let mut statement = transaction.prepare_cached(sql!(retention::remove_messages))?;
        let mut rows = statement.query([format!("[{}]", ids.join(","))])?;
        let mut removed = 0;
        while rows.next()?.is_some() {
            removed += 1;
        }
        removed
    };
    transaction.commit()?;
    Ok(removed)
}

fn old_keys(
    connection: &Connection,
    age: Duration,
    after: Option<KeyName>,
    at_most: usize,
    now: Timestamp,
) -> Result<OldKeys, Fault> {
    let mut statement = connection.prepare_cached(sql!(idempotency::old))?;
    let (at, scope, key) = after
        .map_or((i64::MIN, String::new(), String::new()), |name| (name.at.as_micros(), name.scope, name.key));
    let mut rows = statement.query(params![before(age, now), at, scope, key, limit(at_most)])?;
    let mut found = OldKeys::default();
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        let row = RowReader::of("idempotency_ledger", &"?", row);
        let name = KeyName { at: row.time("at")?, scope: row.get("scope")?, key: row.get("key")? };
        if row.get("old")? {
            found.old.push(OldKey { kept: read_key(&row), name: name.clone() });
        }
        seen += 1;
        found.next = Some(name).filter(|_| seen == at_most);
    }
    Ok(found)
}

fn keys(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Key>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.push(read_key(&RowReader::of("idempotency_ledger", &"?", row))?);
    }
    Ok(keys)
}

fn read_key(row: &RowReader<'_>) -> Result<Key, Corrupt> {
    Ok(Key {
        scope: row.get("scope")?,
        key: row.get("key")?,
        digest: Digest(row.bytes("digest")?),
        state: row.get("state")?,
        result: row.optional_text("result")?.map(|_| row.payload("result")).transpose()?,
        at: row.time("at")?,
        saga: row.get::<Option<[u8; 16]>>("saga_id")?.map(|_| row.saga("saga_id")).transpose()?,
    })
}

fn remove_keys(connection: &Connection, keys: &[KeyName]) -> Result<u64, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut removed = 0;
    for key in keys {
        let mut statement = transaction.prepare_cached(sql!(idempotency::remove))?;
        removed += statement.execute(params![key.scope, key.key, key.at.as_micros()])? as u64;
    }
    transaction.commit()?;
    Ok(removed)
}

/// Moves pages from the end of the file into free ones further in front and cuts the end off. A file that was made without
/// room for that has none to give: its free pages are used again.
fn shrink(connection: &Connection, pages: u32) -> Result<Shrunk, Fault> {
    let count = |name: &str| -> Result<u64, Fault> {
        Ok(connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0))?.into())
    };
    if count("auto_vacuum")? == 0 {
        return Ok(Shrunk::default());
    }
    let free = count("freelist_count")?;
    let excess = free.saturating_sub(count("page_count")? / ROOM);
    let asked = excess.min(pages.into());
    if asked == 0 {
        return Ok(Shrunk::default());
    }
    // It gives back one page each time it is stepped.
    let mut statement = connection.prepare(&format!("pragma incremental_vacuum({asked})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    let pages = free.saturating_sub(count("freelist_count")?);
    Ok(Shrunk { pages, more: pages > 0 && excess > pages })
}
