//! How the sagas are doing.

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::sagas::summary;
use super::sql;
use super::values::{Reading, limit};
use crate::store::nodes::Known;
use crate::store::query::ENOUGH;
use crate::store::{COUNTED, Counts, Summary, Unregistered};

pub(super) fn stuck(
    connection: &Connection,
    since: Timestamp,
    at_most: usize,
) -> Result<Vec<Summary>, Fault> {
    let mut statement = connection.prepare_cached(sql!("health_stuck"))?;
    let mut rows = statement.query(params![since.as_micros(), limit(at_most)])?;
    let mut stuck = Vec::new();
    while let Some(row) = rows.next()? {
        stuck.push(summary(row)?);
    }
    Ok(stuck)
}

pub(super) fn counts(connection: &Connection, known: &[Known], now: Timestamp) -> Result<Counts, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let mut counts = Counts::default();

    let mut statement = snapshot.prepare_cached(sql!("health_active"))?;
    let mut rows = statement.query([limit(ENOUGH)])?;
    while let Some(row) = rows.next()? {
        let row = Reading::of("sagas", &"a group", row);
        let count = row.count(1, "count")?;
        if count > 0 {
            counts.active.insert(row.status(0)?, count);
        }
    }

    let mut statement = snapshot.prepare_cached(sql!("health_unregistered"))?;
    let mut rows = statement.query(params![now.as_micros(), limit(ENOUGH)])?;
    while let Some(row) = rows.next()? {
        let row = Reading::of("sagas", &"a group", row);
        let waiting = Unregistered {
            definition: row.get(0, "definition")?,
            version: row.count(1, "version")?,
            sagas: row.count::<u64>(2, "count")?.min(COUNTED + 1),
        };
        let is_known = |known: &Known| *known.name == *waiting.definition && known.version == waiting.version;
        if !known.iter().any(is_known) {
            counts.unregistered.push(waiting);
        }
    }
    Ok(counts)
}
