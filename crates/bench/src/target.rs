//! A throwaway store to load: a file, a database, or memory.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::Failure;

/// The store of the sagas, removed afterwards.
pub(super) enum Target {
    Memory,
    Sqlite { path: PathBuf, folder: TempDir },
    Postgres { server: String, database: String },
}

impl Target {
    pub(super) async fn make(store: &str) -> Result<Self, Failure> {
        match store.split_once(':') {
            None if store == "memory" => Ok(Self::Memory),
            None if store == "sqlite" => Self::file_in(&std::env::temp_dir()),
            Some(("sqlite", path)) => {
                Self::file_in(Path::new(path).parent().filter(|at| at.exists()).unwrap_or(Path::new(".")))
            }
            Some(("postgres" | "postgresql", _)) => Self::database_on(store).await,
            _ => {
                Err(format!("`{store}` is not a store: use memory, sqlite, sqlite:PATH or postgres://…")
                    .into())
            }
        }
    }

    fn file_in(folder: &Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("backstitch-bench-").tempdir_in(folder)?;
        Ok(Self::Sqlite { path: folder.path().join("bench.db"), folder })
    }

    async fn database_on(server: &str) -> Result<Self, Failure> {
        let client = connect(server).await?;
        let tag: i64 = client
            .query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint", &[])
            .await?
            .get(0);
        let database = format!("backstitch_bench_{}_{tag}", std::process::id());
        client.batch_execute(&format!("CREATE DATABASE {database}")).await?;
        // A long-running server overwrites old WAL segments; a new one creates them first and delays everyone. Without
        // the right to
        // checkpoint, the run measures that too.
        let _ = client.batch_execute("CHECKPOINT").await;
        Ok(Self::Postgres { server: server.to_owned(), database })
    }

    /// A second, empty one of the same kind and place.
    pub(super) async fn sibling(&self) -> Result<Self, Failure> {
        match self {
            Self::Memory => Ok(Self::Memory),
            Self::Sqlite { folder, .. } => {
                Self::file_in(folder.path().parent().unwrap_or_else(|| Path::new(".")))
            }
            Self::Postgres { server, .. } => Self::database_on(server).await,
        }
    }

    pub(super) fn address(&self) -> Option<String> {
        match self {
            Self::Memory => None,
            Self::Sqlite { path, .. } => Some(format!("sqlite:{}", path.display())),
            Self::Postgres { server, database } => Some(address_of(server, database)),
        }
    }

    /// The size on disk after a checkpoint; `None` without a disk.
    pub(super) async fn bytes(&self) -> Result<Option<u64>, Failure> {
        match self {
            Self::Memory => Ok(None),
            Self::Sqlite { path, .. } => {
                let connection = rusqlite::Connection::open(path)?;
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
                Ok(Some(std::fs::metadata(path)?.len()))
            }
            Self::Postgres { server, database } => {
                let client = connect(&address_of(server, database)).await?;
                client.batch_execute("CHECKPOINT").await?;
                let sql = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
                           JOIN pg_namespace n ON n.oid = c.relnamespace \
                           WHERE n.nspname = 'backstitch' AND c.relkind = 'r'";
                let bytes: i64 = client.query_one(sql, &[]).await?.get(0);
                Ok(Some(u64::try_from(bytes)?))
            }
        }
    }

    pub(super) async fn remove(self) -> Result<(), Failure> {
        if let Self::Postgres { server, database } = &self {
            let client = connect(server).await?;
            client.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await?;
        }
        Ok(())
    }
}

/// The address of another database of the server.
fn address_of(server: &str, database: &str) -> String {
    let (address, options) = server.split_once('?').map_or((server, None), |(a, o)| (a, Some(o)));
    let host_ends = address.find("://").map_or(0, |at| at + 3);
    let path = address[host_ends..].find('/').map_or(address.len(), |at| host_ends + at);
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    format!("{}/{database}{options}", &address[..path])
}

pub(super) async fn connect(address: &str) -> Result<tokio_postgres::Client, Failure> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.map_err(|why| {
        let cause = std::error::Error::source(&why).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("cannot connect to the PostgreSQL server of --store: {why}{cause}")
    })?;
    // The connection ends with its client; an error shows in the next call.
    tokio::spawn(connection);
    Ok(client)
}
