//! Retention: sagas, messages and keys that are old enough to be removed.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::Status;
use backstitch_kernel::{Payload, SagaId, Timestamp};

use super::sealed::Sealed;
use super::{Corrupt, Error, outbox};

/// What retention removes.
#[async_trait]
pub trait RetentionStore: Sealed {
    /// Acquires or renews the lease to run retention. `false`: another process holds it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take_turn(&self, _holder: &str, _lease: Duration) -> Result<bool, Error> {
        Ok(true)
    }

    /// Looks at up to `limit` sagas after this one that are in this final status, from the oldest on, and returns those that
    /// have been for longer than `age` and have no open job. Reads along an index; the store's clock decides.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error>;

    /// The size of the log of each of these sagas, or of other owners of logs in the same table.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error>;

    /// The idempotency keys that these sagas were started under.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error>;

    /// Removes those of these sagas that still have been in this final status for longer than `age` and have no open job,
    /// each with its log, attributes, jobs and key, in one transaction.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error>;

    /// Looks at up to `limit` messages after this one that are settled with this status, of all topics `besides` one, from the
    /// oldest on, and returns those that have been for longer than `age`. A message that an unfinished message refers to is
    /// not among them, nor one that refers to a message that is kept. Reads along an index; the store's clock decides.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_messages(
        &self,
        status: outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error>;

    /// Removes those of these messages that are settled and that no unfinished message refers to; returns how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error>;

    /// Looks at up to `limit` keys of messages after this one that were first used longer than `age` ago, and returns those
    /// that have no message any more. Reads along an index, from the oldest on.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error>;

    /// Removes those of these keys that were not used again; returns how many.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error>;

    /// Returns up to this many free pages to the file system, where the database leaves that to this process.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn shrink(&self, _pages: u32) -> Result<Shrunk, Error> {
        Ok(Shrunk::default())
    }
}

/// A look at sagas that ended, from the oldest on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldSagas {
    /// Those among them that may go.
    pub old: Vec<SagaId>,
    /// Where the next look begins; `None` where nobody behind is old enough.
    pub next: Option<SagaId>,
}

/// How much is to be removed with something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// Rows.
    pub rows: u64,
    /// What they hold, in bytes.
    pub bytes: u64,
}

/// A look at messages that were settled, from the oldest on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldMessages {
    /// Those among them that may go.
    pub old: Vec<OldMessage>,
    /// Where the next look begins; `None` where nothing behind is old enough.
    pub next: Option<i64>,
}

/// A message that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldMessage {
    /// Its number.
    pub id: i64,
    /// How long its payload is.
    pub bytes: u64,
}

/// What went with a batch of sagas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Sagas.
    pub sagas: u64,
    /// The events of their logs.
    pub events: u64,
    /// The keys they were started under.
    pub keys: u64,
    /// Their jobs.
    pub jobs: u64,
}

/// A look at keys of messages, from the oldest on.
#[derive(Debug, Default)]
pub struct OldKeys {
    /// Those among them whose messages are gone.
    pub old: Vec<OldKey>,
    /// Where the next look begins; `None` where nothing behind is old enough.
    pub next: Option<KeyName>,
}

/// A key that may go.
#[derive(Debug)]
pub struct OldKey {
    /// Which.
    pub name: KeyName,
    /// Its row, if it can be read.
    pub kept: Result<Key, Corrupt>,
}

/// What tells a row of the ledger from all others, those of the same key before and after it too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName {
    /// When it was first used.
    pub at: Timestamp,
    /// Whose keys it is among.
    pub scope: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Display for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of {}", self.key, self.scope)
    }
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose keys it is among.
    pub scope: String,
    /// The key.
    pub key: String,
    /// What tells its request from another one.
    pub digest: Digest,
    /// What became of the request.
    pub state: String,
    /// What was answered to it.
    pub result: Option<Payload>,
    /// When it was first used.
    pub at: Timestamp,
    /// The saga that it started; keys of messages have none.
    pub saga: Option<SagaId>,
}

/// How much smaller a file has become, and whether there is more to give back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Pages given back.
    pub pages: u64,
    /// There are more.
    pub more: bool,
}
