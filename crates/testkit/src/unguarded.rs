//! Changes guarded rows, as a defect or an earlier version could have left them.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Runs statements on a `SQLite` file while one table has no triggers; returns the number of rows changed by the last
/// one.
///
/// # Errors
/// When a statement is still refused.
pub fn on_sqlite(connection: &Connection, table: &str, sql: &str) -> rusqlite::Result<usize> {
    // Immediate: a transaction that reads first cannot write after another process has written.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let guards: Vec<(String, String)> = transaction
        .prepare("select name, sql from sqlite_schema where type = 'trigger' and tbl_name = ?1")?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, _) in &guards {
        transaction.execute_batch(&format!("drop trigger {name}"))?;
    }
    transaction.execute_batch(sql)?;
    let changed = transaction.changes();
    for (_, guard) in &guards {
        transaction.execute_batch(guard)?;
    }
    transaction.commit()?;
    Ok(usize::try_from(changed).unwrap_or(usize::MAX))
}

/// The same for `PostgreSQL`, as one batch.
#[must_use]
pub fn on_postgres(table: &str, sql: &str) -> String {
    format!(
        "begin; alter table {table} disable trigger user; {sql}; alter table {table} enable trigger user; commit"
    )
}
