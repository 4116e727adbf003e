//! What `PostgreSQL` says went wrong, and what that means for the work in hand.

use std::error::Error as _;
use std::io;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::tls;
use crate::store::Error;

/// Why a batch was not answered.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database cannot hold a value of the batch. Nothing of the batch was written.
    Data(String),
    /// A constraint or trigger rejects a row of the batch. Nothing of the batch was written.
    Rejected(String),
    /// Somebody holds a lock for too long. Nothing of the batch was written.
    Blocked(String),
    /// Nothing of the batch was written, and the same batch can succeed.
    Undone(String),
    /// The connection is gone, and with it the answer: the batch may be on disk.
    Lost(String),
    /// Trying again will not help soon.
    Hopeless(Error),
}

impl Fault {
    /// Judges an error of a statement that was sent.
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::said(said),
            None => Self::Lost(told(error)),
        }
    }

    fn said(error: &DbError) -> Self {
        let why = in_words(error);
        // Whoever is told this may have committed already.
        if is_last_word(error) {
            return Self::Lost(why);
        }
        match (error.code(), class(error.code())) {
            (&SqlState::LOCK_NOT_AVAILABLE, _) => Self::Blocked(why),
            (_, "40") | (&SqlState::QUERY_CANCELED, _) => Self::Undone(why),
            (_, class) if blames_the_row(class) => Self::Rejected(why),
            (_, class) if blames_the_data(class) => Self::Data(why),
            _ => Self::Hopeless(judged(error)),
        }
    }
}

/// The error that tells whoever runs the engine what to do.
pub(super) fn error(error: &tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(said) => judged(said),
        None if tls::is_why(error) => Error::Unavailable(tls::advice(error)),
        None if is_not_writable(error) => Error::Unavailable(format!(
            "{}: this server is a standby or read-only, and no host of the address is a primary",
            told(error)
        )),
        None => Error::Unavailable(told(error)),
    }
}

/// Whether the driver passed over every host because none can be written.
fn is_not_writable(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| {
        cause.kind() == io::ErrorKind::PermissionDenied && cause.to_string().contains("does not allow writes")
    })
}

/// Whether the connection that gave this error is gone, or about to be.
pub(super) fn ends_connection(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(is_last_word)
}

/// Whether somebody's open transaction holds what is wanted. Nothing was written.
pub(super) fn is_held(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

fn is_last_word(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// The same for a connection that could not be had.
pub(super) fn no_connection(error: &PoolError) -> Error {
    match error {
        PoolError::Backend(error) => self::error(error),
        other => Error::Unavailable(other.to_string()),
    }
}

/// The same for a row that does not have the shape it was given.
pub(super) fn unreadable(error: &tokio_postgres::Error) -> Error {
    Error::Refused(told(error))
}

fn judged(error: &DbError) -> Error {
    let why = in_words(error);
    match (error.code(), class(error.code())) {
        (&SqlState::DISK_FULL, _) => Error::Full(why),
        (&SqlState::READ_ONLY_SQL_TRANSACTION, _) => {
            Error::Unavailable(format!("{why}: this server is a standby"))
        }
        (&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED, _) => {
            Error::Refused(format!("{why}: keep a copy of the server's files, and restore a backup"))
        }
        (_, class) if blames_the_data(class) => Error::Rejected(why),
        (_, "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX") => Error::Unavailable(why),
        _ => Error::Refused(why),
    }
}

/// Bad values, broken constraints, too much for an index, and what the triggers refuse.
fn blames_the_data(class: &str) -> bool {
    matches!(class, "21" | "22" | "23" | "44" | "54" | "P0")
}

/// Broken constraints, and what the triggers refuse: what is in the way can be removed.
fn blames_the_row(class: &str) -> bool {
    matches!(class, "23" | "44" | "P0")
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// Details of rejected rows and values repeat what they contain, such as payloads and tokens; those of keys name the key.
fn in_words(error: &DbError) -> String {
    let code = error.code();
    let names_a_key = [&SqlState::UNIQUE_VIOLATION, &SqlState::FOREIGN_KEY_VIOLATION].contains(&code);
    let mut words = error.message().to_owned();
    if let Some(detail) = error.detail().filter(|_| names_a_key || !blames_the_data(class(code))) {
        words.push_str(": ");
        words.push_str(detail);
    }
    words
}

/// The driver says what it did, its cause says what happened.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
