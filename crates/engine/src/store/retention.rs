//! What has been over for so long that it may go.

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{Payload, SagaId, Timestamp};

use super::Corrupt;

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
