//! Counts of sagas, work that may be orphaned, and facts about the file.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::file::{OLDEST_SQLITE, dotted};
use super::sagas::summary;
use super::values::{RowReader, limit};
use super::{SqliteStore, schema, sql};
use crate::store::diagnostics::{
    DatabaseFile, Footing, Heard, Owner, Queue, SchemaVersion, Software, Survey, Waiting,
};
use crate::store::migrations::ENGINE;
use crate::store::nodes::Known;
use crate::store::query::ENOUGH;
use crate::store::{COUNTED, Counts, DiagnosticsStore, Error, InFlight, Summary, Unregistered};

#[async_trait]
impl DiagnosticsStore for SqliteStore {
    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        let (known, now) = (known.to_vec(), self.clock.now());
        self.connections.read(move |connection| counts(connection, &known, now)).await
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        let definition = definition.to_owned();
        self.connections.read(move |connection| in_flight(connection, &definition)).await
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        self.connections.read(move |connection| stuck(connection, since, limit)).await
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| survey(connection, now, limit)).await
    }

    async fn footing(&self) -> Result<Option<Footing>, Error> {
        let Some(path) = self.connections.path().map(Path::to_owned) else { return Ok(None) };
        self.connections.read(move |connection| footing(connection, &path)).await.map(Some)
    }
}

fn counts(connection: &Connection, known: &[Known], now: Timestamp) -> Result<Counts, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut counts = Counts::default();

    let mut statement = snapshot.prepare_cached(sql!(diagnostics::active))?;
    let mut rows = statement.query([limit(ENOUGH)])?;
    while let Some(row) = rows.next()? {
        let row = RowReader::of("sagas", &"a group", row);
        let count = row.count("count")?;
        if count > 0 {
            counts.active.insert(row.status()?, count);
        }
    }

    let mut statement = snapshot.prepare_cached(sql!(diagnostics::unregistered))?;
    let mut rows = statement.query(params![now.as_micros(), limit(ENOUGH)])?;
    while let Some(row) = rows.next()? {
        let row = RowReader::of("sagas", &"a group", row);
        let waiting = Unregistered {
            definition: row.get("definition")?,
            version: row.count("version")?,
            sagas: row.count::<u64>("sagas")?.min(COUNTED + 1),
        };
        let is_known = |known: &Known| *known.name == *waiting.definition && known.version == waiting.version;
        if !known.iter().any(is_known) {
            counts.unregistered.push(waiting);
        }
    }
    Ok(counts)
}

fn in_flight(connection: &Connection, definition: &str) -> Result<Vec<InFlight>, Fault> {
    let mut statement = connection.prepare_cached(sql!(documents::in_flight))?;
    let mut rows = statement.query(params![definition, limit(ENOUGH)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RowReader::of("sagas", &definition, row);
        let sagas = row.count::<u64>("sagas")?.min(COUNTED + 1);
        found.push(InFlight { version: row.count("version")?, sagas });
    }
    Ok(found)
}

fn stuck(connection: &Connection, since: Timestamp, at_most: usize) -> Result<Vec<Summary>, Fault> {
    let mut statement = connection.prepare_cached(sql!(sagas::stuck))?;
    let mut rows = statement.query(params![since.as_micros(), limit(at_most)])?;
    let mut stuck = Vec::new();
    while let Some(row) = rows.next()? {
        stuck.push(summary(row)?);
    }
    Ok(stuck)
}

fn survey(connection: &Connection, now: Timestamp, at_most: usize) -> Result<Survey, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut adrift = Vec::new();
    let mut statement = snapshot.prepare_cached(sql!(sagas::orphaned))?;
    let mut rows = statement.query([limit(at_most)])?;
    while let Some(row) = rows.next()? {
        adrift.push(summary(row)?);
    }
    Ok(Survey {
        adrift,
        owners: owners(&snapshot, at_most)?,
        waiting: waiting(&snapshot, now, at_most)?,
        leased: queues(&snapshot, sql!(diagnostics::leased_queues), now, at_most)?,
        pending: queues(&snapshot, sql!(diagnostics::pending_queues), now, at_most)?,
    })
}

/// From one to the next along the index, which no single statement of this dialect can do for more than one column.
fn owners(connection: &Connection, at_most: usize) -> Result<Vec<Owner>, Fault> {
    let mut statement = connection.prepare_cached(sql!(diagnostics::owners))?;
    let mut found: Vec<Owner> = Vec::new();
    while found.len() < at_most {
        let last = found.last();
        let after = last.map_or(("", 0, 0), |last| (&*last.definition, last.version, last.epoch));
        let mut rows = statement.query(params![after.0, after.1, after.2])?;
        let Some(row) = rows.next()? else { break };
        let row = RowReader::of("sagas", &"of an owner", row);
        // Whoever has the file is alive, however long it has written nothing.
        let heard = row.get::<Option<String>>("name")?.map(|node| Heard { node, late: Duration::ZERO });
        let (definition, version) = (row.get("definition")?, row.count("version")?);
        let owner = Owner { definition, version, epoch: row.get("owner")?, heard };
        drop(rows);
        found.push(owner);
    }
    Ok(found)
}

fn waiting(connection: &Connection, now: Timestamp, at_most: usize) -> Result<Vec<Waiting>, Fault> {
    let mut statement = connection.prepare_cached(sql!(diagnostics::waiting_sagas))?;
    let mut found: Vec<Waiting> = Vec::new();
    while found.len() < at_most {
        let after = found.last().map_or(("", 0), |last| (&*last.definition, last.version));
        let mut rows = statement.query(params![after.0, after.1])?;
        let Some(row) = rows.next()? else { break };
        let row = RowReader::of("sagas", &"of a definition", row);
        let waiting = Waiting {
            definition: row.get("definition")?,
            version: row.count("version")?,
            late: now.since(row.time("wake_at")?),
        };
        drop(rows);
        found.push(waiting);
    }
    Ok(found)
}

fn queues(connection: &Connection, sql: &str, now: Timestamp, at_most: usize) -> Result<Vec<Queue>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found: Vec<Queue> = Vec::new();
    let mut after = String::new();
    loop {
        let mut rows = statement.query([&after])?;
        let Some(row) = rows.next()? else { break };
        let row = RowReader::of("jobs", &"of a queue", row);
        let queue =
            Queue { queue: row.get("queue")?, job: row.get("id")?, late: now.since(row.time("until")?) };
        drop(rows);
        after.clone_from(&queue.queue);
        // They are sorted, so those of a kind are found one after the other.
        if found.iter().rev().take_while(|it| it.kind() == queue.kind()).count() < at_most {
            found.push(queue);
        }
    }
    Ok(found)
}

fn footing(connection: &Connection, path: &Path) -> Result<Footing, Fault> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    // Where it is not there, nothing was written since it was last emptied.
    let wal_bytes = std::fs::metadata(wal).map_or(0, |wal| wal.len());
    let number = rusqlite::version_number();
    let mut products = schema::versions(connection)?;
    let found = products.remove(ENGINE.product).unwrap_or_default();
    Ok(Footing {
        software: Software {
            name: "SQLite",
            version: dotted(number),
            number,
            oldest: dotted(OLDEST_SQLITE),
            oldest_number: OLDEST_SQLITE,
        },
        schema: SchemaVersion { found, known: ENGINE.newest() },
        products,
        clock: None,
        file: Some(DatabaseFile { path: path.to_owned(), wal_bytes }),
    })
}
