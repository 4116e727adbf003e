//! Questions to the database, each asked by the part whose rights it takes.

use backstitch::jobs;
use backstitch::store::Error;

use super::base::{Base, Part, Side};
use crate::question::{Record, Statement, Value, answered, borrowed, chosen, numbers_on_file, on_file};

impl Base {
    /// Asks what changes nothing.
    pub(super) async fn read(
        &self,
        part: Part,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        self.read_text(part, statement.sqlite, statement.postgres, values).await
    }

    /// The same with texts that were put together.
    pub(super) async fn read_text(
        &self,
        part: Part,
        sqlite: impl Into<String>,
        postgres: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        match self.side(part)? {
            Side::Sqlite(file) => {
                let sql = sqlite.into();
                file.read_product(move |connection| on_file(connection, &sql, &values)).await
            }
            Side::Postgres(server) => answered(&server.query(postgres, &borrowed(&values)).await?),
        }
    }

    /// Reads rows that an earlier request may have written with an unknown outcome. They are durable then, also on a
    /// synchronous standby.
    pub(super) async fn read_durably(
        &self,
        part: Part,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        match self.side(part)? {
            Side::Sqlite(_) => self.read(part, statement, values).await,
            Side::Postgres(server) => {
                answered(&server.query_durably(statement.postgres, &borrowed(&values)).await?)
            }
        }
    }

    /// Changes something, and says what it gave.
    pub(super) async fn change(
        &self,
        part: Part,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Vec<Record>, Error> {
        match self.side(part)? {
            Side::Sqlite(file) => {
                file.write_product(move |transaction| on_file(transaction, statement.sqlite, &values)).await
            }
            Side::Postgres(server) => answered(&server.query(statement.postgres, &borrowed(&values)).await?),
        }
    }

    /// Changes in one transaction what `pick` picks in it: every statement gets the numbers in its first column. What
    /// changed by the time it had picked them is seen by them. Removes the jobs in the first column of the rows that the statement
    /// `with_jobs` returns, and returns how many there were.
    pub(super) async fn change_picked<const N: usize>(
        &self,
        part: Part,
        pick: Statement,
        values: Vec<Value>,
        statements: [Statement; N],
        with_jobs: Option<usize>,
    ) -> Result<([Vec<Record>; N], u64), Error> {
        let mut given = [const { Vec::new() }; N];
        match self.side(part)? {
            Side::Sqlite(file) => {
                let change = move |transaction: &rusqlite::Transaction<'_>| {
                    let picked = numbers_on_file(transaction, pick.sqlite, &values)?;
                    for (statement, given) in statements.iter().zip(&mut given) {
                        *given = on_file(transaction, statement.sqlite, &[chosen(&picked)])?;
                    }
                    let removed = jobs::sqlite::remove_items(transaction, &jobs_in(&given, with_jobs))?;
                    Ok((given, removed as u64))
                };
                file.write_product(change).await
            }
            Side::Postgres(server) => {
                let unit = server.begin().await?;
                let picked = answered(&unit.query(pick.postgres, &borrowed(&values)).await?)?;
                let picked = picked.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
                let values = [chosen(&picked)];
                for (statement, given) in statements.iter().zip(&mut given) {
                    *given = answered(&unit.query(statement.postgres, &borrowed(&values)).await?)?;
                }
                let jobs = jobs_in(&given, with_jobs);
                let removed =
                    if jobs.is_empty() { 0 } else { jobs::postgres::remove_items(&unit, &jobs).await? };
                unit.commit().await?;
                Ok((given, removed as u64))
            }
        }
    }
}

/// The jobs that rows of this statement name in their first column.
fn jobs_in<const N: usize>(given: &[Vec<Record>; N], with_jobs: Option<usize>) -> Vec<i64> {
    let rows = with_jobs.and_then(|statement| given.get(statement)).into_iter().flatten();
    rows.filter_map(|row| row.optional_integer(0).ok().flatten()).collect()
}
