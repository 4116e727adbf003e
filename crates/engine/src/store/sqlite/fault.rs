//! What `SQLite` says went wrong, in the engine's terms.

use rusqlite::ErrorCode;

use crate::store::{Corrupt, Error};

/// Any reason why work on the file stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// `SQLite` said so.
    Sql(rusqlite::Error),
    /// The engine's own check said so.
    Store(Error),
}

impl Fault {
    /// Whether this comes from what was to be written, so that other writes can go on without it.
    pub(super) fn blames_the_data(&self) -> bool {
        match self {
            Self::Sql(error) => blames_the_data(error),
            Self::Store(_) => false,
        }
    }

    /// Whether a constraint or trigger rejects a row: what is in the way can be removed.
    pub(super) fn blames_the_row(&self) -> bool {
        matches!(self, Self::Sql(rusqlite::Error::SqliteFailure(failure, _))
            if failure.code == ErrorCode::ConstraintViolation)
    }

    /// Whether an item of a batch is to blame, also by what the file has of it already: a row that cannot be read.
    pub(super) fn is_about_an_item(&self) -> bool {
        self.blames_the_data() || matches!(self, Self::Store(Error::Corrupt(_)))
    }
}

fn blames_the_data(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
        ),
        rusqlite::Error::ToSqlConversionFailure(_) => true,
        _ => false,
    }
}

/// Whether a row was inserted. Guards refuse a key that exists, so only a refused insert costs a look for it: `false` where
/// `exists` finds the row.
pub(super) fn is_inserted(
    inserted: rusqlite::Result<usize>,
    exists: impl FnOnce() -> rusqlite::Result<bool>,
) -> Result<bool, Fault> {
    let refused = match inserted {
        Ok(_) => return Ok(true),
        Err(why) => Fault::from(why),
    };
    if refused.blames_the_data() && exists()? { Ok(false) } else { Err(refused) }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Self::Store(corrupt.into())
    }
}

/// The error that tells whoever runs the engine what to do.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Sql(error) => error,
            Fault::Store(error) => return error,
        };
        if blames_the_data(&error) {
            return Self::Rejected(error.to_string());
        }
        let Some(code) = error.sqlite_error_code() else {
            return Self::Refused(error.to_string());
        };
        match code {
            ErrorCode::DiskFull => Self::Full(error.to_string()),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Self::ReadOnly(error.to_string()),
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::SchemaChanged => Self::Unavailable(error.to_string()),
            ErrorCode::NotADatabase => Self::Refused(format!(
                "{error}: the path names some other file; give the path of a Backstitch file, or of none yet"
            )),
            ErrorCode::DatabaseCorrupt => Self::Refused(format!(
                "{error}: stop the engine, keep a copy of the file and its -wal, and restore a backup"
            )),
            _ => Self::Refused(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn told(code: i32) -> Error {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        Fault::Sql(failure).into()
    }

    #[test]
    fn every_fault_of_the_file_says_what_helps() {
        assert!(matches!(told(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(told(ffi::SQLITE_READONLY), Error::ReadOnly(_)));
        assert!(matches!(told(ffi::SQLITE_PERM), Error::ReadOnly(_)));
        assert!(matches!(told(ffi::SQLITE_BUSY), Error::Unavailable(_)));
        assert!(matches!(told(ffi::SQLITE_LOCKED), Error::Unavailable(_)));
        assert!(matches!(told(ffi::SQLITE_IOERR_FSYNC), Error::Unavailable(_)));
        assert!(matches!(told(ffi::SQLITE_NOTADB), Error::Refused(_)));
        assert!(matches!(told(ffi::SQLITE_CORRUPT), Error::Refused(_)));
        assert!(matches!(told(ffi::SQLITE_CONSTRAINT), Error::Rejected(_)));
    }

    #[test]
    fn only_a_bad_value_is_blamed_on_the_data() {
        let blamed = |code| {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Fault::Sql(failure).blames_the_data()
        };
        assert!(blamed(ffi::SQLITE_CONSTRAINT));
        assert!(blamed(ffi::SQLITE_CONSTRAINT_TRIGGER));
        assert!(blamed(ffi::SQLITE_TOOBIG));
        assert!(!blamed(ffi::SQLITE_FULL));
        assert!(!blamed(ffi::SQLITE_BUSY));
    }
}
