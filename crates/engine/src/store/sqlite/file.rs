//! The file itself: who may have it, and how its connections are set up.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::identity::{FileLock, NotHeld, OpenedFile, refuse_hard_links};
use super::schema;
use super::write_guard::allow_guarded_writes;
use crate::store::Error;
use backstitch_kernel::Timestamp;

/// Older ones can damage the file when one connection writes while another moves the log into it.
pub(super) const OLDEST_SQLITE: i32 = 3_051_003;

/// How long a connection waits for another program's write before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long somebody who reads old pages may hold up that the log is emptied: an end waits for it.
const READ_OUT: Duration = Duration::from_millis(500);

/// Statements kept ready on a connection: all that never change, those of products too, and the most usual lists.
const STATEMENTS: usize = 160;

/// How the connection that writes is set up. The first two count only for a new file, before anything is written.
pub const WRITER_SETTINGS: &str = "
    pragma page_size = 4096;
    pragma auto_vacuum = incremental;
    pragma journal_mode = wal;
    pragma synchronous = full;
    pragma wal_autocheckpoint = 4000;
    pragma journal_size_limit = 67108864;
    pragma cache_size = -16384;
    pragma temp_store = memory;
    pragma trusted_schema = off;
    pragma cell_size_check = on;
    pragma recursive_triggers = on;
";

/// There are several, and what they read the machine has in memory anyway.
const READER: &str = "
    pragma cache_size = -4096;
    pragma temp_store = memory;
    pragma trusted_schema = off;
    pragma cell_size_check = on;
";

/// A database file that no other engine has.
pub(super) struct Held {
    path: PathBuf,
    /// Both are held as long as this value lives: one by the path, one by the file itself.
    _lock: File,
    _file_lock: FileLock,
}

impl Held {
    /// Takes the file, which need not exist yet.
    pub(super) fn take(path: &Path) -> Result<Self, Error> {
        let path = resolved(path)?;
        let mut name = path.clone().into_os_string();
        name.push(".lock");
        let name = PathBuf::from(name);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&name)
            .map_err(|why| unusable(&name, &why))?;
        let in_use = || Error::InUse(path.display().to_string());
        lock.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => in_use(),
            TryLockError::Error(why) => unusable(&name, &why),
        })?;
        create_missing(&path).map_err(|why| unusable(&path, &why))?;
        let file_lock = FileLock::take(&path).map_err(|why| match why {
            NotHeld::InUse => in_use(),
            NotHeld::Unusable(why) => unusable(&path, &why),
        })?;
        refuse_hard_links(&path)?;
        Ok(Self { path, _lock: lock, _file_lock: file_lock })
    }

    /// The database and its write-ahead log, once a connection has both open.
    pub(super) fn opened(&self) -> Result<[OpenedFile; 2], Error> {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let opened = |path: &Path| OpenedFile::at(path).map_err(|why| unusable(path, &why));
        Ok([opened(&self.path)?, opened(Path::new(&log))?])
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The connection that writes, with the newest schema in place.
    pub(super) fn writer(&self, now: Timestamp) -> Result<Connection, Fault> {
        supported(rusqlite::version_number())?;
        let connection = Connection::open(&self.path)?;
        if connection.is_readonly("main")? {
            return Err(Error::ReadOnly(self.path.display().to_string()).into());
        }
        ready(&connection)?;
        connection.execute_batch(WRITER_SETTINGS)?;
        // Asked for in vain where memory cannot be shared between processes, as on many network drives.
        let mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
        if mode != "wal" {
            let path = self.path.display();
            let told = format!("`{path}` cannot have a write-ahead log there: put it on a local disk");
            return Err(Error::Refused(told).into());
        }
        allow_guarded_writes(&connection)?;
        schema::migrate_engine(&connection, now)?;
        Ok(connection)
    }

    /// A connection that only reads. It waits for nobody, and nobody waits for it.
    pub(super) fn reader(&self) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        ready(&connection)?;
        connection.execute_batch(READER)?;
        Ok(connection)
    }
}

/// Creates an empty file where there is none, so that there is something to hold.
fn create_missing(path: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}

/// Moves everything from the write-ahead log into the file, as far as nobody reads older pages; says whether the file
/// alone has everything now.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(READ_OUT)?;
    // Somebody in the way is no error here: the row says so.
    let emptied = connection.query_row("pragma wal_checkpoint(truncate)", [], |row| {
        let (busy, logged, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(!busy || (logged >= 0 && moved == logged))
    });
    connection.busy_timeout(BUSY_TIMEOUT)?;
    emptied
}

/// What every connection needs.
pub(super) fn ready(connection: &Connection) -> Result<(), Fault> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on what is bound. Where they may, a statement is planned anew each time it is taken up again.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn supported(version: i32) -> Result<(), Error> {
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "this program was built with SQLite {}, which can damage its file: build it with SQLite {} or newer",
        dotted(version),
        dotted(OLDEST_SQLITE),
    )))
}

/// A version as people write it.
pub(super) fn dotted(number: i32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
}

/// One name for one file, so that no second way to write its path gets round the lock.
fn resolved(path: &Path) -> Result<PathBuf, Error> {
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(Error::Refused(format!("`{}` does not name a file", path.display())));
    };
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().map_err(|why| unusable(folder, &why))?;
    Ok(folder.join(name))
}

fn unusable(path: &Path, why: &io::Error) -> Error {
    let told = format!("{}: {why}", path.display());
    match why.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly(told),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(told),
        io::ErrorKind::NotFound => Error::Refused(format!("{told}: create the folder first")),
        _ => Error::Unavailable(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_refused_with_both_versions_named() {
        supported(OLDEST_SQLITE).unwrap();
        let refused = supported(3_050_004).unwrap_err().to_string();
        assert!(refused.contains("3.50.4") && refused.contains("3.51.3"), "{refused}");
    }

    #[test]
    fn whether_the_file_alone_has_everything_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = Held::take(&folder.path().join("sagas.db")).unwrap();
        let (writer, reader) = (file.writer(Timestamp::default()).unwrap(), file.reader().unwrap());
        let write = || writer.execute_batch("insert into nodes values (null, 'n', 0, 0, 1)").unwrap();
        write();
        reader.execute_batch("begin; select count(*) from nodes").unwrap();
        assert!(empty_log(&writer).unwrap(), "whoever reads the newest pages is in nobody's way");
        write();
        assert!(!empty_log(&writer).unwrap());
        reader.execute_batch("rollback").unwrap();
        assert!(empty_log(&writer).unwrap());
    }

    #[test]
    fn the_sqlite_of_this_build_is_new_enough() {
        supported(rusqlite::version_number()).unwrap();
    }
}
