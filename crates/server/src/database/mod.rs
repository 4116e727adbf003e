//! The server's own tables, beside the engine's in the same database.

pub(crate) mod migrations;
mod sqlite;

use std::sync::Arc;

use backstitch::clock::Clock;
use backstitch::store::sqlite::migrate as sqlite_migrate;
use backstitch::store::{Error, postgres};
use deadpool_postgres::Pool;

use crate::Config;

pub(crate) use sqlite::{SqliteFile, refuse_lost_database};

/// Connections for the server's own tables; few, since they are asked seldom.
const CONNECTIONS: usize = 4;

/// The database that holds the server's own tables. No lock is taken: the command line may open it beside a server.
#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(SqliteFile),
    Postgres(Pool),
}

impl Database {
    /// Opens the configured database and brings the server's own tables up to date.
    pub(crate) async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let (address, schema) = (config.db.as_str(), &config.schema);
        if let Some(path) = address.strip_prefix("sqlite:") {
            let file = SqliteFile::open(path).await?;
            let now = clock.now();
            file.run(move |connection| Ok(sqlite_migrate(connection, &migrations::SCHEMA, now)?)).await?;
            return Ok(Self::Sqlite(file));
        }
        if address.starts_with("postgres://") || address.starts_with("postgresql://") {
            postgres::check_sessions(address).await?;
            let pool = postgres::pool_in(address, schema, CONNECTIONS)?;
            postgres::migrate(&mut connection(&pool).await?, schema, &migrations::SCHEMA).await?;
            return Ok(Self::Postgres(pool));
        }
        Err(Error::bad_address(address))
    }
}

/// A connection of the pool, or why there is none.
pub(crate) async fn connection(pool: &Pool) -> Result<deadpool_postgres::Object, Error> {
    pool.get().await.map_err(|why| Error::Unavailable(with_causes(&why)))
}

/// What went wrong with a statement.
#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error it is given")]
pub(crate) fn told(why: tokio_postgres::Error) -> Error {
    Error::Unavailable(with_causes(&why))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    message
}
