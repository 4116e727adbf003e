//! One decision as the store sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, StepId, Timestamp};

use super::nodes::Epoch;
use super::outbox::NewMessage;
use super::product::ProductRow;
use crate::jobs::NewJob;

/// Everything one decision changes. It is written whole or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The saga.
    pub saga: SagaId,
    /// To append, at least one. The number of the first is the fence: whoever appends it first has decided.
    pub events: Vec<Recorded>,
    /// What changes in the saga's row, if anything it shows does.
    pub row: Option<RowWrite>,
    /// Messages of the saga's inbox up to this number are consumed by this decision.
    pub consume_inbox_through: Option<u64>,
    /// Work for others that follows from it.
    pub jobs: Vec<NewJob>,
    /// Subjects of the saga's jobs whose attempts end with it: those that no worker has leased are withdrawn.
    pub withdrawn_jobs: Vec<String>,
    /// Messages to the world that follow from it.
    pub messages: Vec<NewMessage>,
    /// Rows of the product that asked for it.
    pub rows: Vec<ProductRow>,
    /// The idempotency key this decision answers to; only a start has one.
    pub claim: Option<Claim>,
}

/// A write to the saga's row.
#[derive(Clone, Debug)]
pub enum RowWrite {
    /// The saga is new.
    Insert(NewRow),
    /// It shows something else now.
    Update(RowUpdate),
}

/// The row of a new saga.
#[derive(Clone, Debug)]
pub struct NewRow {
    /// The definition's name.
    pub definition: Arc<str>,
    /// The definition's version.
    pub version: u32,
    /// Where it stands.
    pub status: Status,
    /// Who runs it; nobody yet when it was started in somebody's transaction.
    pub owner: Option<Epoch>,
    /// When it is due, if nobody owns it.
    pub wake_at: Option<Timestamp>,
    /// The step that failed; a saga can be over as soon as it began.
    pub failed_step: Option<StepId>,
    /// The caller's own id.
    pub correlation_id: Option<String>,
    /// What it can be searched by.
    pub attributes: BTreeMap<String, String>,
    /// When it was started.
    pub created_at: Timestamp,
}

/// The changing part of a row.
#[derive(Clone, Debug)]
pub struct RowUpdate {
    /// Where it stands.
    pub status: Status,
    /// Whether it is paused.
    pub paused: bool,
    /// The step that failed.
    pub failed_step: Option<StepId>,
    /// Who runs it from now on.
    pub owner: Option<Epoch>,
    /// When it is due, if nobody owns it.
    pub wake_at: Option<Timestamp>,
    /// When this was decided.
    pub updated_at: Timestamp,
    /// Write only if the inbox holds nothing beyond this number: set when the saga ends or is let go, so that no
    /// message is lost between two owners, and when time may end what an answer in the inbox ends otherwise.
    pub inbox_seen: Option<u64>,
}

/// A key that makes a repeated start the same start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What the key belongs to, such as `saga/deploy-feature`.
    pub scope: String,
    /// The caller's key.
    pub key: String,
    /// Tells the same request from another one.
    pub digest: Digest,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is on disk.
    Applied,
    /// Somebody else has appended that number: this owner is not the owner any more.
    Fenced,
    /// A message came in meanwhile and must be answered first.
    InboxChanged,
    /// The key was used for the same request before: this is what it started.
    Replay(SagaId),
    /// The key was used for another request.
    Conflict {
        /// The saga it started.
        saga: SagaId,
        /// The digest of that request.
        digest: Digest,
        /// When that was.
        at: Timestamp,
    },
    /// The key is held by a transaction that is still open: nothing was written, and trying again can help.
    KeyHeld(String),
    /// A constraint or trigger rejects a row of it; nothing of it was written. It can be written once nothing is in its way.
    Rejected(String),
    /// The database cannot hold it, and trying again will not change that; nothing of it was written.
    Refused(String),
}
