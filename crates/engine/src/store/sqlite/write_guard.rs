//! The guard of rows that only connections of Backstitch write.
//!
//! `INSERT OR REPLACE` fires no delete trigger, so a table must refuse it when a row is inserted. A trigger that looks for the
//! key costs a lookup with every row. A live row of `lifecycles` decides what happens next, and any of its columns may
//! change. The triggers of such tables compare two texts by a collation of Backstitch, in which all texts are equal. Other
//! programs do not have it, so they cannot even prepare the statement. Some tools supply any collation that a statement names:
//! there the texts differ, and the trigger refuses.

use std::cmp::Ordering;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// As in the triggers. The name is also the error that other programs get.
const COLLATION: &str = "only_backstitch_writes";

/// As in triggers of earlier versions, which are in place while later migrations change their tables.
const FUNCTIONS: [&str; 2] = ["only_backstitch_appends_events", "only_backstitch_changes_lifecycles"];

/// Lets a connection write rows that only Backstitch writes. Needed by every program that does so itself, such as a benchmark.
///
/// # Errors
/// When SQLite refuses the collation.
pub fn allow_guarded_writes(connection: &Connection) -> rusqlite::Result<()> {
    // Registering it again would invalidate prepared statements, and fail while one of them runs.
    let is_ours = format!("select 'a' = 'b' collate {COLLATION}");
    if connection
        .prepare_cached(&is_ours)
        .is_ok_and(|mut ours| ours.query_row([], |row| row.get(0)) == Ok(true))
    {
        return Ok(());
    }
    // A schema that is not trusted calls innocuous functions only.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    FUNCTIONS
        .into_iter()
        .try_for_each(|name| connection.create_scalar_function(name, 0, flags, |_| Ok(true)))?;
    connection.create_collation(COLLATION, |_, _| Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_allowed_while_a_statement_runs() {
        let connection = Connection::open_in_memory().unwrap();
        allow_guarded_writes(&connection).unwrap();
        let mut statement =
            connection.prepare(&format!("select 'a' = 'b' collate {COLLATION} union all select 2")).unwrap();
        let mut rows = statement.query([]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(1));
        allow_guarded_writes(&connection).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(2));
    }

    #[test]
    fn collation_that_a_tool_supplied_is_replaced() {
        let connection = Connection::open_in_memory().unwrap();
        connection.create_collation(COLLATION, Ord::cmp).unwrap();
        allow_guarded_writes(&connection).unwrap();
        let equal = format!("select 'a' = 'b' collate {COLLATION}");
        assert_eq!(connection.query_row(&equal, [], |row| row.get(0)), Ok(true));
    }
}
