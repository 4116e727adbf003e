//! Files for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstitch::clock::ManualClock;
use backstitch::kernel::Timestamp;
use backstitch::store::Error;
use backstitch::store::sqlite::{SqliteStore, allow_guarded_writes};
use rusqlite::Connection;
use tempfile::TempDir;

/// A temporary directory with a path for a database.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sagas.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        open(&self.path()).unwrap()
    }

    /// A connection besides the store's, with its right to insert.
    pub(crate) fn beside(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        allow_guarded_writes(&connection).unwrap();
        connection
    }
}

pub(crate) fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Arc::new(ManualClock::at(now())))
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000)
}

/// The error of a file that cannot be opened.
pub(crate) fn refusal(path: &Path) -> Error {
    match open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}
