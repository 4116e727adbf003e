//! Fills a SQLite file.

use backstitch::store::sqlite::allow_guarded_writes;
use rusqlite::{Connection, params};

use super::super::Failure;
use super::Plan;

pub(super) fn write(path: &str, plan: &Plan) -> Result<(), Failure> {
    let mut connection = Connection::open(path)?;
    allow_guarded_writes(&connection)?;
    // Rows lost in a power failure are written again by the next run.
    connection
        .execute_batch("pragma synchronous = off; pragma cache_size = -400000; pragma temp_store = memory")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "create temp table plan (sagas integer, now integer, step integer);
         create temp table slots (slot integer primary key, model blob, only_begun integer)",
    )?;
    transaction.execute("insert into plan values (?1, ?2, ?3)", params![plan.sagas, plan.now, plan.step])?;
    for (slot, (model, only_begun)) in plan.slots.iter().enumerate() {
        let slot = i64::try_from(slot)?;
        let values = params![slot, model.0.as_bytes().as_slice(), only_begun];
        transaction.execute("insert into slots values (?1, ?2, ?3)", values)?;
    }
    transaction.execute_batch(include_str!("sqlite.sql"))?;
    transaction.commit()?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    Ok(())
}
