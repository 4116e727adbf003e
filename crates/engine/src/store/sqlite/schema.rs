//! Brings the tables of one area of a file to their newest form.

use std::collections::BTreeMap;

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use crate::store::Error;
use crate::store::migrations::{ENGINE, missing};
use crate::store::product::Schema;

/// Why an area was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum NotMigrated {
    /// `SQLite` said so.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A newer program has changed the area.
    #[error(transparent)]
    Schema(#[from] Error),
}

impl From<NotMigrated> for Fault {
    fn from(why: NotMigrated) -> Self {
        match why {
            NotMigrated::Sqlite(why) => Self::Sql(why),
            NotMigrated::Schema(why) => Self::Store(why),
        }
    }
}

/// Brings the engine's own tables to their newest form.
pub(super) fn migrate_engine(connection: &Connection, now: Timestamp) -> Result<(), NotMigrated> {
    migrate(connection, &ENGINE, now)
}

/// Brings the tables of an area to their newest form, whole or not at all.
///
/// # Errors
/// When the file cannot be written, or a newer program has changed the area.
pub fn migrate(connection: &Connection, schema: &Schema, now: Timestamp) -> Result<(), NotMigrated> {
    if versions(connection)?.get(schema.product) == Some(&schema.newest()) {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // A table and not `user_version`, because the file may hold its owner's tables too, and that number is theirs.
    transaction.execute_batch(
        "create table if not exists backstitch_product_migrations (
            product text not null, version integer not null, name text not null, applied_at integer not null,
            primary key (product, version)
        ) strict, without rowid",
    )?;
    let found = versions(&transaction)?.get(schema.product).copied().unwrap_or_default();
    for (version, migration) in missing(schema, found)? {
        transaction.execute_batch(migration.sqlite)?;
        transaction.execute(
            "insert into backstitch_product_migrations (product, version, name, applied_at)
             values (?1, ?2, ?3, ?4)",
            params![schema.product, version, migration.name, now.as_micros()],
        )?;
    }
    Ok(transaction.commit()?)
}

/// The version of each area that the file has.
pub(super) fn versions(connection: &Connection) -> rusqlite::Result<BTreeMap<String, i64>> {
    let record = "select 1 from sqlite_schema where name = 'backstitch_product_migrations'";
    if connection.query_row(record, [], |_| Ok(())).optional()?.is_none() {
        return Ok(BTreeMap::new());
    }
    let newest = "select product, max(version) from backstitch_product_migrations group by product";
    let mut statement = connection.prepare_cached(newest)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
