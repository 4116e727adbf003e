//! A connection to a `SQLite` file that another connection, or another program, writes too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::store::Error;
use backstitch::store::sqlite::WRITER_SETTINGS;
use rusqlite::Connection;

/// How long a write waits for somebody else's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The file, and one connection to it.
#[derive(Clone)]
pub(crate) struct SqliteFile {
    path: Arc<Path>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteFile {
    /// Opens the file, which need not exist yet: its first connection decides for good how it is laid out, so this one
    /// is set up like the engine's.
    pub(crate) async fn open(path: &str) -> Result<Self, Error> {
        let path = PathBuf::from(path);
        let (path, connection) = off_the_runtime(move || {
            let opened = connect(&path).map_err(|why| told(&path, &why))?;
            Ok((path, opened))
        })
        .await?;
        Ok(Self { path: path.into(), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Does something with the connection, on a thread that may wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let Self { path, connection } = self.clone();
        off_the_runtime(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection).map_err(|fault| match fault {
                Fault::Sqlite(why) => told(&path, &why),
                Fault::Told(error) => error,
            })
        })
        .await
    }
}

/// What can go wrong with work on a connection.
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Told(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(why: rusqlite::Error) -> Self {
        Self::Sqlite(why)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch(WRITER_SETTINGS)?;
    Ok(connection)
}

fn told(path: &Path, why: &rusqlite::Error) -> Error {
    let told = format!("{}: {why}", path.display());
    match why.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::PermissionDenied) => Error::ReadOnly(told),
        Some(rusqlite::ErrorCode::DiskFull) => Error::Full(told),
        Some(rusqlite::ErrorCode::CannotOpen) => {
            Error::Refused(format!("{told}: check that its folder exists and may be written"))
        }
        _ => Error::Unavailable(told),
    }
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let cut_short = |why| Error::Unavailable(format!("the work on the file was cut short: {why}"));
    tokio::task::spawn_blocking(work).await.map_err(cut_short)?
}
