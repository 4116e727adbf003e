//! Inputs and decisions of sagas.

use std::collections::BTreeMap;

use super::event::{Phase, Recorded, Resolution, Started};
use super::state::{State, Status};
use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The time and the node's state for a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time.
    pub at: Timestamp,
    /// The node starts no attempts because it is shutting down or full. Inputs are still decided.
    pub draining: bool,
}

impl Now {
    /// This time, with a node that starts attempts.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self { at, draining: false }
    }
}

/// The data of a saga's start, besides its definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The input of every step.
    pub input: Payload,
    /// The caller's correlation id.
    pub correlation_id: Option<String>,
    /// The deadline; a saga that misses it is rolled back.
    pub deadline: Option<Timestamp>,
    /// Attributes for searching.
    pub attributes: BTreeMap<String, String>,
}

impl Start {
    pub(super) fn of(self, definition: &super::Definition) -> Started {
        Started {
            definition: definition.name().to_owned(),
            version: definition.version(),
            input: self.input,
            correlation_id: self.correlation_id,
            deadline: self.deadline,
            attributes: self.attributes,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Succeeded(Payload),
    /// With an error.
    Failed(StepError),
}

/// An input of a saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Check what is due: a retry, an outside worker's timeout, the deadline. Only this input ends anything because of
    /// time, so send
    /// it after all others.
    Wake,
    /// An attempt ended.
    Finished {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// The result.
        outcome: Outcome,
    },
    /// An outside worker leased an attempt.
    Leased {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// When, by the store's clock: the timeout begins then.
        at: Timestamp,
    },
    /// There is room for an attempt of this step.
    Admitted {
        /// The step.
        step: StepId,
    },
    /// Another node, or a new epoch of the same one, owns the saga.
    Adopted {
        /// The node's name.
        node: String,
        /// The node's epoch.
        epoch: i64,
    },
    /// Roll back.
    Cancel {
        /// Who requested it, and why.
        note: String,
    },
    /// Start no new attempts.
    Pause {
        /// Who requested it, and why.
        note: String,
    },
    /// Continue.
    Resume {
        /// Who requested it, and why.
        note: String,
    },
    /// An operator resolved a failed compensation.
    Resolve {
        /// The step.
        step: StepId,
        /// The resolution.
        action: Resolution,
        /// Who, and why.
        note: String,
    },
}

/// An effect to perform after the decision is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run this attempt.
    Run {
        /// The step's position in the definition.
        position: usize,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
    },
    /// Reserve room for an attempt of this step, then send [`Input::Admitted`]. Repeated until the attempt starts.
    Admit {
        /// The step's position in the definition.
        position: usize,
    },
    /// Notify running actions of the rollback; they may stop early.
    SignalRollback,
}

/// A decision: commit the events, then perform the effects.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The events to append, in this order; may be empty.
    pub events: Vec<Recorded>,
    /// The effects to perform after the append.
    pub effects: Vec<Effect>,
    /// The state after the events.
    pub state: State,
}

/// Why an input changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The saga has ended.
    #[error("the saga is already {0}")]
    Ended(Status),
    /// It is already rolling back.
    #[error("the saga is already being rolled back")]
    RollingBack,
    /// It is already paused.
    #[error("the saga is already paused")]
    Paused,
    /// It is not paused.
    #[error("the saga is not paused")]
    NotPaused,
    /// The rollback has not failed, so there is nothing to resolve.
    #[error("the saga is {0}: only a failed rollback can be resolved")]
    NotFailed(Status),
    /// This step's compensation has not failed.
    #[error("the compensation of step `{0}` has not failed: there is nothing to resolve")]
    NotStuck(StepId),
    /// The attempt is not the running one; its result is late.
    #[error("attempt {attempt} of step `{step}` is not in flight any more: its answer is ignored")]
    Stale {
        /// The step.
        step: StepId,
        /// The attempt of the result.
        attempt: u32,
    },
    /// The definition has no such step.
    #[error("there is no step `{0}`")]
    UnknownStep(StepId),
    /// The step no longer needs to run.
    #[error("step `{0}` is not waiting to run")]
    NotWaiting(StepId),
    /// The attempt was leased before.
    #[error("step `{0}` is not waiting for a worker")]
    NotQueued(StepId),
}
