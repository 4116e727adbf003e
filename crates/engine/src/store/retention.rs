//! What has been over for so long that it may go.

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{Payload, SagaId, Timestamp};

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
