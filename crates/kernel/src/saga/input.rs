//! What can be asked of a saga, and what it answers.

use std::collections::BTreeMap;

use super::event::{Phase, Recorded, Resolution, Started};
use super::state::{State, Status};
use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The circumstances of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time.
    pub at: Timestamp,
    /// The node starts nothing new: it is shutting down, or full. What is asked is still decided.
    pub draining: bool,
}

impl Now {
    /// This time, with the node ready to work.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self { at, draining: false }
    }
}

/// What a saga is started with, besides its definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// What every step can read.
    pub input: Payload,
    /// The caller's own id for the work this belongs to.
    pub correlation_id: Option<String>,
    /// Rolled back if not finished by then.
    pub deadline: Option<Timestamp>,
    /// What it can be searched by.
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
    /// With this result.
    Succeeded(Payload),
    /// With this error.
    Failed(StepError),
}

/// Something a saga must answer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Look what is due: a retry, the end of an outside worker's time, the deadline. Nothing else ends anything by its
    /// time, so say it after everything else that is to be said.
    Wake,
    /// An attempt ended.
    Finished {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// How.
        outcome: Outcome,
    },
    /// An outside worker has leased an attempt.
    Leased {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// When, by the store's clock: its time begins then.
        at: Timestamp,
    },
    /// There is room for one attempt of a step that asked for it.
    Admitted {
        /// The step.
        step: StepId,
    },
    /// Another node, or another life of the same one, has the saga now.
    Adopted {
        /// The node's name.
        node: String,
        /// The node's incarnation.
        epoch: i64,
    },
    /// Roll back.
    Cancel {
        /// Who asked, and why.
        note: String,
    },
    /// Start nothing new.
    Pause {
        /// Who asked, and why.
        note: String,
    },
    /// Go on.
    Resume {
        /// Who asked, and why.
        note: String,
    },
    /// A person decided about a failed compensation.
    Resolve {
        /// The step.
        step: StepId,
        /// What was decided.
        action: Resolution,
        /// Who, and why.
        note: String,
    },
}

/// Something to do once the decision is on disk, and not before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run this attempt.
    Run {
        /// Where the step stands in the definition.
        position: usize,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
    },
    /// Ask for room to run an attempt of this step, then say [`Input::Admitted`]. Repeated until the attempt starts.
    Admit {
        /// Where the step stands in the definition.
        position: usize,
    },
    /// Tell the running actions that the saga is being rolled back; they may stop early.
    SignalRollback,
}

/// What was decided: commit the events, then perform the effects.
#[derive(Clone, Debug)]
pub struct Decision {
    /// To append, in this order; empty when there is nothing to do yet.
    pub events: Vec<Recorded>,
    /// To perform after the append.
    pub effects: Vec<Effect>,
    /// The saga once the events are appended.
    pub state: State,
}

/// Why an input changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The saga is at its end.
    #[error("the saga is already {0}")]
    Ended(Status),
    /// It is rolling back already.
    #[error("the saga is already being rolled back")]
    RollingBack,
    /// It is paused already.
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
    /// The attempt is not the one in flight; its answer comes too late.
    #[error("attempt {attempt} of step `{step}` is not in flight any more: its answer is ignored")]
    Stale {
        /// The step.
        step: StepId,
        /// The attempt that answered.
        attempt: u32,
    },
    /// The definition has no such step.
    #[error("there is no step `{0}`")]
    UnknownStep(StepId),
    /// The step does not want to run any more.
    #[error("step `{0}` is not waiting to run")]
    NotWaiting(StepId),
    /// The attempt does not wait for a worker: it was leased before.
    #[error("step `{0}` is not waiting for a worker")]
    NotQueued(StepId),
}
