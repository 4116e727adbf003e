//! What products on the engine keep in the same database: tables of their own, and rows written with a decision.

use backstitch_kernel::Payload;

/// The tables of one area. Those of a product are made and changed when the store is opened, after the engine's own.
///
/// A saga that is over for long may be removed ([`retention`](crate::retention)). A table with rows about sagas says what
/// becomes of them with a trigger, `after delete on sagas`, which is part of the same transaction.
#[derive(Debug)]
pub struct Schema {
    /// The area: a product, the server, or `engine`. Its migrations are counted under this name.
    pub product: &'static str,
    /// In the order they are applied; the first one is version 1.
    pub migrations: &'static [Migration],
    /// The versions whose data older nodes cannot read, such as a new kind of event. On `PostgreSQL` such a migration is
    /// refused while older nodes are alive, and keeps them from coming back.
    pub breaking: &'static [i64],
}

impl Schema {
    /// The newest version.
    #[must_use]
    pub fn newest(&self) -> i64 {
        i64::try_from(self.migrations.len()).unwrap_or(i64::MAX)
    }

    /// The newest version after this one whose data older nodes cannot read.
    #[must_use]
    pub fn breaking_after(&self, version: i64) -> Option<i64> {
        self.breaking.iter().copied().filter(|breaking| *breaking > version).max()
    }
}

/// One change of a product's tables, in both dialects.
#[derive(Debug)]
pub struct Migration {
    /// What it is about.
    pub name: &'static str,
    /// For `SQLite`.
    pub sqlite: &'static str,
    /// For `PostgreSQL`, which says `$schema` for the name of the engine's schema.
    pub postgres: &'static str,
}

/// How one kind of row is written, in both dialects.
#[derive(Debug, PartialEq, Eq)]
pub struct RowKind {
    /// Takes the saga's id (16 bytes), the time of the decision (microseconds) and the row's JSON text, as `?1` to `?3`.
    pub sqlite: &'static str,
    /// Takes the same as arrays, `$1::uuid[]`, `$2::timestamptz[]` and `$3::text[]`: one entry for each row.
    pub postgres: &'static str,
}

/// A row of a product, written with a decision: both are on disk, or neither.
#[derive(Clone, Debug)]
pub struct ProductRow {
    /// How it is written.
    pub kind: &'static RowKind,
    /// What it holds.
    pub body: Payload,
}

/// The database that a product shares with the engine.
#[derive(Clone, Copy)]
pub enum Database<'a> {
    /// A file.
    #[cfg(feature = "sqlite")]
    Sqlite(&'a super::sqlite::SqliteStore),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(&'a super::postgres::PostgresStore),
    /// Never there: it only uses the lifetime when no database is built in.
    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    None(std::marker::PhantomData<&'a ()>),
}

#[cfg(feature = "postgres")]
impl<'a> Database<'a> {
    /// The server that a transaction of the caller is on.
    pub(crate) fn server_of_transaction(self) -> Result<&'a super::postgres::PostgresStore, super::Error> {
        match self {
            Self::Postgres(server) => Ok(server),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Err(super::Error::Refused(
                "the transaction is on a PostgreSQL server, and the engine on SQLite: use `in_sqlite`"
                    .to_owned(),
            )),
        }
    }
}
