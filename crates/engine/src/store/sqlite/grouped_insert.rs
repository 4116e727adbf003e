//! Inserts many rows by few statements.
//!
//! SQLite sets up each execution of a statement anew, and each of its triggers. For small rows this costs as much as
//! the rows themselves.

use rusqlite::{Connection, Statement, ToSql};

/// Rows per statement, largest first. The last one takes whatever is left.
const GROUPS: [usize; 3] = [32, 8, 1];

/// An `insert` statement for any number of rows.
pub(super) struct GroupedInsert {
    /// One for each of [`GROUPS`].
    statements: [String; GROUPS.len()],
}

/// Binds the values of one row after another, in the order of the statement's columns.
pub(super) struct RowValues<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
}

impl GroupedInsert {
    /// The number of rows from which on more of them at once are no faster.
    pub(super) const LARGEST: usize = GROUPS[0];

    /// `into` is the statement up to its values. Let it say `or fail`: a statement that undoes its own rows keeps a
    /// journal, and a caller of several statements rolls back more than that anyway.
    pub(super) fn new(into: &str, columns: usize) -> Self {
        let row = format!("({})", vec!["?"; columns].join(", "));
        Self { statements: GROUPS.map(|rows| format!("{into} values {}", vec![&*row; rows].join(", "))) }
    }

    /// Inserts all rows in their order. `bind` binds the values of one.
    ///
    /// # Errors
    /// When the file rejects a row. Those before it may be in the transaction: roll it back.
    pub(super) fn insert<R>(
        &self,
        connection: &Connection,
        mut rows: &[R],
        bind: impl Fn(&R, &mut RowValues<'_, '_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        for (size, sql) in GROUPS.into_iter().zip(&self.statements) {
            if rows.len() < size {
                continue;
            }
            let mut statement = connection.prepare_cached(sql)?;
            while let Some((group, rest)) = rows.split_at_checked(size) {
                let mut values = RowValues { statement: &mut statement, bound: 0 };
                for row in group {
                    bind(row, &mut values)?;
                }
                statement.raw_execute()?;
                rows = rest;
            }
        }
        Ok(())
    }
}

impl RowValues<'_, '_> {
    /// Binds the next column.
    ///
    /// # Errors
    /// When the value cannot be bound, or the statement has no such column.
    pub(super) fn bind(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_rows_keeps_its_order() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("create table numbers (id integer primary key, value integer, name text)")
            .unwrap();
        let insert = GroupedInsert::new("insert or fail into numbers (value, name)", 2);
        let mut expected = 0;
        for count in [0, 1, 7, 8, 9, 31, 32, 33, 41, 64, 100] {
            let rows: Vec<i64> = (expected..expected + count).collect();
            let bind = |row: &i64, values: &mut RowValues<'_, '_>| {
                values.bind(row)?;
                values.bind(format!("n{row}"))
            };
            insert.insert(&connection, &rows, bind).unwrap();
            expected += count;
        }
        let mut read = connection.prepare("select value, name from numbers order by id").unwrap();
        let read = read.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).unwrap();
        let expected: Vec<_> = (0..expected).map(|value| (value, format!("n{value}"))).collect();
        assert_eq!(read.collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn rejected_row_is_an_error() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("create table numbers (value integer check (value < 40))").unwrap();
        let insert = GroupedInsert::new("insert or fail into numbers (value)", 1);
        let rows: Vec<i64> = (0..41).collect();
        insert.insert(&connection, &rows, |row, values| values.bind(row)).unwrap_err();
        insert.insert(&connection, &rows[..40], |row, values| values.bind(row)).unwrap();
    }
}
