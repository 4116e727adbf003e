//! The schema and how a file gets to it.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use crate::store::Error;
use crate::store::product::Schema;
use backstitch_kernel::Timestamp;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In the order they are applied; the first one is version 1.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "sagas", sql: include_str!("../../../migrations/sqlite/0001_sagas.sql") },
    Migration { name: "jobs", sql: include_str!("../../../migrations/sqlite/0002_jobs.sql") },
    Migration { name: "outbox", sql: include_str!("../../../migrations/sqlite/0003_outbox.sql") },
    Migration { name: "retention", sql: include_str!("../../../migrations/sqlite/0004_retention.sql") },
    Migration { name: "guards", sql: include_str!("../../../migrations/sqlite/0005_guards.sql") },
    Migration { name: "ordering", sql: include_str!("../../../migrations/sqlite/0006_ordering.sql") },
    Migration {
        name: "order_requests",
        sql: include_str!("../../../migrations/sqlite/0007_order_requests.sql"),
    },
    Migration { name: "parked_items", sql: include_str!("../../../migrations/sqlite/0008_parked_items.sql") },
    Migration {
        name: "other_programs",
        sql: include_str!("../../../migrations/sqlite/0009_other_programs.sql"),
    },
    Migration {
        name: "mixed_versions",
        sql: include_str!("../../../migrations/sqlite/0010_mixed_versions.sql"),
    },
    Migration {
        name: "cheaper_guards",
        sql: include_str!("../../../migrations/sqlite/0011_cheaper_guards.sql"),
    },
    Migration {
        name: "product_versions",
        sql: include_str!("../../../migrations/sqlite/0012_product_versions.sql"),
    },
    Migration {
        name: "atomic_refusals",
        sql: include_str!("../../../migrations/sqlite/0013_atomic_refusals.sql"),
    },
];

/// Brings the file to the newest schema, whole or not at all.
pub(super) fn migrate(connection: &Connection, now: Timestamp) -> Result<(), Fault> {
    if version(connection)? == newest() {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // A table and not `user_version`, because the file may hold its owner's tables too, and that number is theirs.
    transaction.execute_batch(
        "create table if not exists backstitch_migrations (
            version integer primary key, name text not null, applied_at integer not null
        ) strict",
    )?;
    let found = version(&transaction)?;
    if found > newest() {
        let known = newest();
        return Err(Error::NewerSchema { found, known }.into());
    }
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        transaction.execute_batch(migration.sql)?;
        transaction.execute(
            "insert into backstitch_migrations (version, name, applied_at) values (?1, ?2, ?3)",
            params![version, migration.name, now.as_micros()],
        )?;
    }
    transaction.commit()?;
    Ok(())
}

/// Brings the tables of a product to their newest form, whole or not at all.
pub(super) fn migrate_product(connection: &Connection, schema: &Schema, now: Timestamp) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "create table if not exists backstitch_product_migrations (
            product text not null, version integer not null, name text not null, applied_at integer not null,
            primary key (product, version)
        ) strict, without rowid",
    )?;
    let newest = "select coalesce(max(version), 0) from backstitch_product_migrations where product = ?1";
    let found: i64 = transaction.query_row(newest, [schema.product], |row| row.get(0))?;
    let known = schema.newest();
    if found > known {
        return Err(Error::NewerSchema { found, known }.into());
    }
    for (version, migration) in (1..).zip(schema.migrations).filter(|(version, _)| *version > found) {
        transaction.execute_batch(migration.sqlite)?;
        transaction.execute(
            "insert into backstitch_product_migrations (product, version, name, applied_at)
             values (?1, ?2, ?3, ?4)",
            params![schema.product, version, migration.name, now.as_micros()],
        )?;
    }
    transaction.commit()?;
    Ok(())
}

pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Whether there is a table of this name.
pub(super) fn is_there(connection: &Connection, table: &str) -> Result<bool, rusqlite::Error> {
    let found = connection
        .query_row("select 1 from sqlite_schema where name = ?1", [table], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

pub(super) fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    if !is_there(connection, "backstitch_migrations")? {
        return Ok(0);
    }
    let newest = "select coalesce(max(version), 0) from backstitch_migrations";
    connection.query_row(newest, [], |row| row.get(0))
}
