//! What the engine needs of a database, as traits of one topic each, and the two databases that have it.
//!
//! A file of `sqlite` and the file of the same name in `postgres` implement the same trait. One conformance suite checks both.

mod backend;
mod commit;
pub mod diagnostics;
pub mod documents;
mod error;
mod inbox;
pub mod isolation;
mod jobs;
mod messages;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migrations;
pub mod nodes;
pub mod outbox;
mod ownership;
pub mod parked;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod product;
mod query;
pub mod retention;
mod sagas;
mod schema_name;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[doc(hidden)]
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod stretch;
#[doc(hidden)]
pub mod watched;

pub use backend::Backend;
pub use commit::{Claim, Commit, NewRow, RowUpdate, RowWrite, Verdict};
pub use diagnostics::DiagnosticsStore;
pub use documents::DocumentStore;
pub use error::{Corrupt, Error};
pub use inbox::InboxStore;
pub use jobs::JobStore;
pub use messages::MessageStore;
pub use nodes::NodeStore;
pub use outbox::OutboxStore;
pub use ownership::{OwnershipStore, Release};
pub use parked::ParkedStore;
pub use query::{
    COUNTED, Counts, Cursor, Filter, Health, InFlight, LogHead, Page, Stored, StuckStep, Summary,
    Unregistered,
};
pub use retention::RetentionStore;
pub use sagas::SagaStore;
pub use schema_name::{InvalidSchemaName, SchemaName};

/// Where commits are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// On a thread of their own: a commit blocks until the disk has it.
    OwnThread,
    /// On so many tasks, at least one: a commit awaits a server that writes several at a time, or needs no disk.
    Tasks(usize),
}

/// The contract of a store: everything that an engine keeps in it.
///
/// A decision changes a saga through [`SagaStore::commit`] alone. The other traits find work, or change what is not part of a
/// saga's log. They are sealed: Backstitch has two implementations, and tests wrap them ([`watched`]).
pub trait Store:
    Backend
    + SagaStore
    + OwnershipStore
    + NodeStore
    + InboxStore
    + DocumentStore
    + JobStore
    + MessageStore
    + OutboxStore
    + ParkedStore
    + RetentionStore
    + DiagnosticsStore
{
}

impl<T> Store for T where
    T: Backend
        + SagaStore
        + OwnershipStore
        + NodeStore
        + InboxStore
        + DocumentStore
        + JobStore
        + MessageStore
        + OutboxStore
        + ParkedStore
        + RetentionStore
        + DiagnosticsStore
{
}

mod sealed {
    /// Implemented by the stores of this crate only.
    pub trait Sealed: Send + Sync + 'static {}
}
