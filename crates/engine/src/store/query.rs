//! What can be asked about sagas, and the answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, StepError, StepId, Timestamp};

use super::nodes::Epoch;
use crate::inbox::Received;

/// A saga with everything that is kept about it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its row.
    pub summary: Summary,
    /// Its log, whole.
    pub log: Vec<Recorded>,
    /// Messages that wait for it, oldest first.
    pub inbox: Vec<Received>,
    /// The number of the newest message it ever got.
    pub inbox_seq: u64,
}

/// A saga's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: SagaId,
    /// The definition's name.
    pub definition: Arc<str>,
    /// The definition's version.
    pub version: u32,
    /// Where it stands.
    pub status: Status,
    /// Whether it is paused.
    pub paused: bool,
    /// The step that failed.
    pub failed_step: Option<StepId>,
    /// The step whose compensation failed last, of a failed saga. Only [`Engine::list`](crate::Engine::list) fills it: the
    /// row does not have it.
    pub stuck: Option<StuckStep>,
    /// Who runs it.
    pub owner: Option<Epoch>,
    /// When it is due, if nobody owns it.
    pub wake_at: Option<Timestamp>,
    /// The caller's own id.
    pub correlation_id: Option<String>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When its status changed last.
    pub updated_at: Timestamp,
}

/// A step whose compensation could not be finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckStep {
    /// The step.
    pub step: StepId,
    /// Why its compensation failed.
    pub error: StepError,
}

/// Which sagas are meant; everything given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this status.
    pub status: Option<Status>,
    /// Of this definition.
    pub definition: Option<String>,
    /// With this correlation id.
    pub correlation_id: Option<String>,
    /// With these attributes.
    pub attributes: BTreeMap<String, String>,
    /// Failed, and stuck at this step. Only [`Engine::list`](crate::Engine::list) looks at it.
    pub stuck_step: Option<String>,
}

/// Where in the list to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Only sagas older than this one; `None` begins with the newest.
    pub before: Option<SagaId>,
    /// At most this many.
    pub limit: usize,
}

/// A part of the list. Where several conditions together find few, a part may be short, or empty, and the list go on
/// all the same: no more than some thousand sagas are looked at for one.
#[derive(Clone, Debug)]
pub struct Page {
    /// The sagas, newest first.
    pub items: Vec<Summary>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<SagaId>,
}

/// How many sagas are looked at that are not over, to know whether there are more than are counted.
pub(super) const ENOUGH: usize = 10_001;

/// How far they are counted: one more than this says that there are more.
pub const COUNTED: u64 = ENOUGH as u64 - 1;

/// How many sagas stand where. Counts go [so far](COUNTED).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many are in each status that is not a good end.
    pub active: BTreeMap<Status, u64>,
    /// Due, but of a definition that the asking node does not have.
    pub unregistered: Vec<Unregistered>,
}

/// How the sagas are doing. Counts go [so far](COUNTED).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// How many are in each status that is not a good end.
    pub active: BTreeMap<Status, u64>,
    /// Active for too long with nothing due, longest first.
    pub stuck: Vec<Summary>,
    /// Due, but of a definition that the asking node does not have.
    pub unregistered: Vec<Unregistered>,
}

/// Sagas that wait for a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unregistered {
    /// The definition's name.
    pub definition: String,
    /// The definition's version.
    pub version: u32,
    /// How many wait for it.
    pub sagas: u64,
}

/// Sagas of a definition that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The version they were started with.
    pub version: u32,
    /// How many there are.
    pub sagas: u64,
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Whose log it is.
    pub log: SagaId,
    /// The number of its newest event.
    pub seq: u64,
}
