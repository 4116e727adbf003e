//! A connection to a `SQLite` file that another connection, or another program, writes too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::store::Error;
use backstitch::store::sqlite::{NotMigrated, OpenedFile, WRITER_SETTINGS, refuse_hard_links};
use backstitch_modules::key_file;
use rusqlite::Connection;

/// How long a write waits for somebody else's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The file, and one connection to it.
#[derive(Clone)]
pub(crate) struct SqliteFile {
    path: Arc<Path>,
    opened: Arc<OpenedFile>,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteFile {
    /// Opens the file, which need not exist yet: its first connection decides for good how it is laid out, so this one
    /// is set up like the engine's.
    pub(crate) async fn open(path: &str) -> Result<Self, Error> {
        let path = PathBuf::from(path);
        let (path, connection, opened) = off_the_runtime(move || {
            refuse_lost_database(&path)?;
            refuse_hard_links(&path)?;
            let connection = connect(&path).map_err(|why| told(&path, &why))?;
            let opened = OpenedFile::at(&path).map_err(|why| Error::Unavailable(why.to_string()))?;
            Ok((path, connection, opened))
        })
        .await?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(Self { path: path.into(), opened: Arc::new(opened), connection })
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
        let Self { path, opened, connection } = self.clone();
        off_the_runtime(move || {
            opened.check()?;
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

impl From<NotMigrated> for Fault {
    fn from(why: NotMigrated) -> Self {
        match why {
            NotMigrated::Sqlite(why) => Self::Sqlite(why),
            NotMigrated::Schema(why) => Self::Told(why),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(why: rusqlite::Error) -> Self {
        Self::Sqlite(why)
    }
}

/// A key without its database means that the database is lost or elsewhere. An empty one in its place would look as if nothing
/// had ever been stored.
pub(crate) fn refuse_lost_database(path: &Path) -> Result<(), Error> {
    let key = key_file::beside(path, ".key");
    let is_empty = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
    if is_empty && key.exists() {
        let (path, key) = (path.display(), key.display());
        return Err(Error::Refused(format!(
            "there is the key file `{key}`, but no database `{path}`: restore the database, or give its path with --db; \
             to begin with an empty one, move the key file away"
        )));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hard_link_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.db"), folder.path().join("b.db"));
        drop(SqliteFile::open(path.to_str().unwrap()).await.unwrap());
        std::fs::hard_link(&path, &link).unwrap();
        let refused = SqliteFile::open(link.to_str().unwrap()).await.map(|_| ()).unwrap_err();
        assert!(matches!(&refused, Error::Refused(why) if why.contains("hard link")), "{refused}");
        assert!(!folder.path().join("b.db-wal").exists());
    }
}
