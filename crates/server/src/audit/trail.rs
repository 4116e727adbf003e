//! The tables of the audit, written through the engine's own connections: a file has one writer.

use backstitch::store::Error;
use backstitch::store::product::Database;
use backstitch::{Engine, Timestamp, sql};
use rusqlite::params;

/// A request for a change.
pub(super) struct Asked {
    pub(super) key_id: Option<i64>,
    pub(super) key_name: Option<String>,
    pub(super) role: &'static str,
    pub(super) peer: Option<String>,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) subject: Option<String>,
}

/// The same as it was kept, with its answer.
pub(crate) struct Recorded {
    pub(crate) id: i64,
    pub(crate) at: Timestamp,
    pub(crate) key_id: Option<i64>,
    pub(crate) key_name: Option<String>,
    pub(crate) role: String,
    pub(crate) peer: Option<String>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) subject: Option<String>,
    /// `None` when nobody lived, or was able, to record it.
    pub(crate) status: Option<i32>,
    /// What was done, where the path does not say it.
    pub(crate) what: Option<String>,
}

/// Keeps a request, and gives its number.
pub(super) async fn asked(engine: &Engine, asked: Asked) -> Result<i64, Error> {
    let at = engine.clock().now().as_micros();
    let Asked { key_id, key_name, role, peer, method, path, subject } = asked;
    match engine.database() {
        Database::Sqlite(file) => {
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                let values = params![at, key_id, key_name, role, peer, method, path, subject];
                let mut statement = transaction.prepare_cached(sql!(sqlite / audit::insert))?;
                statement.query_row(values, |row| row.get("id"))
            };
            file.write_product(write).await
        }
        Database::Postgres(server) => {
            let sql = sql!(postgres / audit::insert);
            let values: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
                &[&at, &key_id, &key_name, &role, &peer, &method, &path, &subject];
            let rows = server.write_product(sql, values).await?;
            let id = rows.first().map(|row| row.try_get("id")).transpose().map_err(unreadable)?;
            id.ok_or_else(|| Error::Refused("the audit gave no number".to_owned()))
        }
    }
}

/// Keeps what a request was answered.
pub(super) async fn answered(
    engine: &Engine,
    asked: i64,
    status: u16,
    what: Option<String>,
) -> Result<(), Error> {
    let (at, status) = (engine.clock().now().as_micros(), i32::from(status));
    match engine.database() {
        Database::Sqlite(file) => {
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                let mut statement = transaction.prepare_cached(sql!(sqlite / audit::answer))?;
                statement.execute(params![asked, at, status, what])
            };
            file.write_product(write).await.map(|_| ())
        }
        Database::Postgres(server) => {
            let sql = sql!(postgres / audit::answer);
            server.write_product(sql, &[&asked, &at, &status, &what]).await.map(|_| ())
        }
    }
}

/// Requests before this number, newest first.
pub(crate) async fn list(engine: &Engine, before: i64, limit: i64) -> Result<Vec<Recorded>, Error> {
    match engine.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(sql!(sqlite / audit::list))?;
                statement.query_map([before, limit], of_sqlite)?.collect()
            };
            file.read_product(read).await
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!(postgres / audit::list), &[&before, &limit]).await?;
            rows.iter().map(of_postgres).collect::<Result<_, _>>().map_err(unreadable)
        }
    }
}

/// A row by the names of its columns, which both databases have, though not the word for getting one.
macro_rules! read {
    ($row:ident.$get:ident) => {
        Ok(Recorded {
            id: $row.$get("id")?,
            at: Timestamp::from_micros($row.$get("at")?),
            key_id: $row.$get("key_id")?,
            key_name: $row.$get("key_name")?,
            role: $row.$get("role")?,
            peer: $row.$get("peer")?,
            method: $row.$get("method")?,
            path: $row.$get("path")?,
            subject: $row.$get("subject")?,
            status: $row.$get("status")?,
            what: $row.$get("what")?,
        })
    };
}

fn of_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Recorded> {
    read!(row.get)
}

fn of_postgres(row: &tokio_postgres::Row) -> Result<Recorded, tokio_postgres::Error> {
    read!(row.try_get)
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error it is given")]
fn unreadable(why: tokio_postgres::Error) -> Error {
    Error::Refused(format!("the audit cannot be read: {why}"))
}
