//! Declared definitions: what is active, and what is staged.

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::sql;
use super::values::{Reading, limit};
use crate::store::COUNTED;
use crate::store::declared::{Collected, Declared, InFlight, Version};
use crate::store::nodes::Registered;
use crate::store::query::ENOUGH;

/// Keeps a version, and lets it be active or staged.
pub(super) fn keep(
    connection: &Connection,
    definition: &Registered,
    is_active: bool,
    now: Timestamp,
) -> Result<bool, Fault> {
    let Registered { name, version, fingerprint, body } = definition;
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let kept = transaction.prepare_cached(sql!("keep_declared"))?.execute(params![
        name,
        version,
        fingerprint.cast_signed(),
        body.as_str(),
        now.as_micros()
    ])?;
    if kept > 0 {
        transaction.prepare_cached(include_str!("stand_definition.sql"))?.execute(params![
            name,
            is_active.then_some(version),
            (!is_active).then_some(version),
            now.as_micros()
        ])?;
    }
    transaction.commit()?;
    Ok(kept > 0)
}

pub(super) fn apply(
    connection: &Connection,
    name: &str,
    expected: Option<u32>,
    now: Timestamp,
) -> Result<Option<u32>, Fault> {
    let mut statement = connection.prepare_cached(sql!("apply_definition"))?;
    Ok(statement.query_row(params![name, expected, now.as_micros()], |row| row.get(0)).optional()?)
}

pub(super) fn discard(
    connection: &Connection,
    name: &str,
    expected: Option<u32>,
    now: Timestamp,
) -> Result<Option<u32>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let meant = "select staged from declared where name = ?1 and staged = coalesce(?2, staged)";
    let staged = transaction.query_row(meant, params![name, expected], |row| row.get(0)).optional()?;
    if staged.is_some() {
        let forget = "update declared set staged = null, changed_at = ?2 where name = ?1";
        transaction.execute(forget, params![name, now.as_micros()])?;
    }
    transaction.commit()?;
    Ok(staged)
}

pub(super) fn list(connection: &Connection, name: Option<&str>) -> Result<Vec<Declared>, Fault> {
    let mut statement = connection.prepare_cached(sql!("declared"))?;
    let mut rows = statement.query([name])?;
    let mut found = Collected::default();
    while let Some(row) = rows.next()? {
        let name: String = Reading::of("declared", &"?", row).get(0, "name")?;
        let row = Reading::of("declared", &name, row);
        let version = Version { number: row.count(3, "version")?, created_at: row.time(4, "created_at")? };
        found.add(&name, row.get(1, "active")?, row.get(2, "staged")?, version);
    }
    Ok(found.all())
}

pub(super) fn in_flight(connection: &Connection, definition: &str) -> Result<Vec<InFlight>, Fault> {
    let mut statement = connection.prepare_cached(sql!("in_flight"))?;
    let mut rows = statement.query(params![definition, limit(ENOUGH)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Reading::of("sagas", &definition, row);
        let sagas = row.count::<u64>(1, "count")?.min(COUNTED + 1);
        found.push(InFlight { version: row.count(0, "version")?, sagas });
    }
    Ok(found)
}
