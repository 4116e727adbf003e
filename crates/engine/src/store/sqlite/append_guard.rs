//! The guard of `saga_events`: only connections of Backstitch append to the log.
//!
//! `INSERT OR REPLACE` fires no delete trigger, so the table must refuse it when a row is inserted. A trigger that looks
//! for the key costs a lookup with every event. This one calls a function that other programs do not have: they
//! cannot even prepare the statement.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// As in the trigger. The name is also the error that other programs get.
const FUNCTION: &str = "only_backstitch_appends_events";

/// Lets a connection append to `saga_events`. Needed by every program that writes these rows itself, such as a benchmark.
///
/// # Errors
/// When SQLite refuses the function.
pub fn allow_appends(connection: &Connection) -> rusqlite::Result<()> {
    // Registering it again would invalidate prepared statements, and fail while one of them runs.
    if connection.prepare_cached("select only_backstitch_appends_events()").is_ok() {
        return Ok(());
    }
    // A schema that is not trusted calls innocuous functions only.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(FUNCTION, 0, flags, |_| Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_allowed_while_a_statement_runs() {
        let connection = Connection::open_in_memory().unwrap();
        allow_appends(&connection).unwrap();
        let mut statement =
            connection.prepare("select only_backstitch_appends_events() union all select 0").unwrap();
        let mut rows = statement.query([]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(1));
        allow_appends(&connection).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), Ok(0));
    }
}
