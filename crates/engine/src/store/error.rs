//! What can go wrong with a store.

use backstitch_kernel::SagaId;

/// A store that could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached or written now; trying again can help.
    #[error("the database is not available: {0}; the work goes on once it is back")]
    Unavailable(String),
    /// It refused for a reason that trying again will not change.
    #[error("the database refused: {0}; it refuses the same again until that is put right")]
    Refused(String),
    /// It rejected a row that was to be written. Others can be.
    #[error("the database rejected a row: {0}; put right what is in its way")]
    Rejected(String),
    /// The disk is full.
    #[error("the disk is full: {0}; free some space, nothing acknowledged is lost")]
    Full(String),
    /// The file cannot be written.
    #[error("the database cannot be written: {0}; check the permissions of the file and its folder")]
    ReadOnly(String),
    /// Another engine has this file.
    #[error(
        "another engine has `{0}` open: one engine a file; use PostgreSQL to share work between processes"
    )]
    InUse(String),
    /// A newer version has written the schema.
    #[error(
        "the database has schema version {found}, this program knows {known}: run the newer program, or restore \
         the backup made before the upgrade"
    )]
    NewerSchema {
        /// The version found.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// Nodes of an older version are alive, which cannot read what this version writes.
    #[error(
        "nodes of an older version are alive and cannot read what this version writes: {0}; stop them all, then start \
         this version; one that crashed counts as alive until its lease is over"
    )]
    OlderNodes(String),
    /// The address does not name a store.
    #[error("`{0}` is not a database address: use sqlite:PATH or postgres://USER@HOST/DATABASE")]
    BadAddress(String),
    /// A row that cannot be read.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// A row that nobody can have written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{table}.{column} of {id} cannot be read: {why}; put the row right, or restore it from a backup")]
pub struct Corrupt {
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// The row.
    pub id: String,
    /// What is wrong with it.
    pub why: String,
}

impl Corrupt {
    /// A bad value in a saga's row or log.
    #[must_use]
    pub fn of(table: &'static str, column: &'static str, saga: SagaId, why: &impl ToString) -> Self {
        Self { table, column, id: saga.to_string(), why: why.to_string() }
    }
}

impl Error {
    /// An address that leads nowhere, without the password it may hold.
    #[must_use]
    pub fn bad_address(address: &str) -> Self {
        Self::BadAddress(without_password(address))
    }
}

/// An address that can be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `host=… password=…`: rather show too little.
        return url
            .split_whitespace()
            .filter(|part| !part.starts_with("password"))
            .collect::<Vec<_>>()
            .join(" ");
    };
    match rest.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://me:se:cr@et@host/db", "postgres://me@host/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://host/db", "postgres://host/db"),
            ("host=a password=b user=c", "host=a user=c"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
