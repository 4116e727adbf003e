//! What can happen to a saga: the log's vocabulary.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The largest results of compensations that a `saga.compensated` event repeats, in bytes of JSON over all steps.
pub const MAX_RESULTS_LEN: usize = 256 * 1024;

/// Whether a step's action or its compensation is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The action.
    Do,
    /// The compensation.
    Undo,
}

impl Phase {
    /// `do` or `undo`, as in idempotency keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Do => "do",
            Self::Undo => "undo",
        }
    }
}

/// What a person decided about a compensation that could not be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Try it again, with all its retries.
    Retry,
    /// Leave it undone.
    Skip,
    /// It was undone by hand.
    Done,
}

/// An attempt that was left to an outside worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The queue that workers take it from.
    pub queue: Arc<str>,
    /// When the wait for a worker ends; none where it has no end.
    pub queue_until: Option<Timestamp>,
    /// Only in logs of versions before `step.leased`: without an answer by then the attempt has timed out, leased or not.
    pub until: Option<Timestamp>,
}

/// One thing that happened. Its name in the log is [`Event::name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The saga was accepted.
    SagaStarted(Arc<Started>),
    /// Every step succeeded.
    SagaSucceeded,
    /// The rollback could not be finished; a person has to look.
    SagaFailed {
        /// The step whose compensation failed last.
        step: StepId,
        /// Why.
        error: StepError,
    },
    /// The rollback began.
    SagaCompensating {
        /// The step that failed; none when it was cancelled or late.
        failed_step: Option<StepId>,
        /// Why.
        error: StepError,
    },
    /// Everything that had to be undone is undone.
    SagaCompensated {
        /// The results of the compensations by step, without those that gave none. Empty if they exceed
        /// [`MAX_RESULTS_LEN`] together: the steps' own events have them.
        results: BTreeMap<StepId, Payload>,
    },
    /// Nothing new starts until it is resumed.
    SagaPaused {
        /// Who asked, and why.
        note: String,
    },
    /// It goes on.
    SagaResumed {
        /// Who asked, and why.
        note: String,
    },
    /// A node took the saga over; what was in flight is interrupted.
    SagaAdopted {
        /// The node's name.
        node: String,
        /// The node's incarnation; every start of a node has a higher one.
        epoch: i64,
    },
    /// An attempt of an action is about to run.
    StepStarted {
        /// The step.
        step: StepId,
        /// Which attempt, from 1.
        attempt: u32,
        /// Set when an outside worker is to run it; a take-over of the saga does not interrupt it then.
        outside: Option<Outside>,
    },
    /// An outside worker has leased the attempt: its time begins.
    StepLeased {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// Without an answer by then it has timed out.
        until: Timestamp,
    },
    /// The action succeeded.
    StepSucceeded {
        /// The step.
        step: StepId,
        /// The attempt that did it.
        attempt: u32,
        /// What it gave.
        result: Payload,
    },
    /// The action failed for good.
    StepFailed {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// Why.
        error: StepError,
        /// Whether some attempt may have taken effect: then the step is compensated.
        in_doubt: bool,
    },
    /// The action timed out for good; it may have taken effect.
    StepTimedOut {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// Why.
        error: StepError,
    },
    /// An attempt failed and another one follows.
    StepRetry {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// The attempt that failed.
        attempt: u32,
        /// How many there can be.
        max_attempts: u32,
        /// Why it failed.
        error: StepError,
        /// When the next one is due.
        retry_at: Timestamp,
    },
    /// An attempt of a compensation is about to run.
    StepCompensating {
        /// The step.
        step: StepId,
        /// Which attempt, from 1.
        attempt: u32,
        /// Set when an outside worker is to run it; a take-over of the saga does not interrupt it then.
        outside: Option<Outside>,
    },
    /// The step is undone.
    StepCompensated {
        /// The step.
        step: StepId,
        /// The attempt that did it.
        attempt: u32,
        /// What the compensation gave.
        result: Payload,
    },
    /// The compensation failed for good.
    StepCompensationFailed {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// Why.
        error: StepError,
    },
    /// A person decided about a failed compensation.
    StepResolved {
        /// The step.
        step: StepId,
        /// What was decided.
        action: Resolution,
        /// Who, and why.
        note: String,
    },
}

/// What a saga was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The definition's name.
    pub definition: String,
    /// The definition's version; the saga keeps it to its end.
    pub version: u32,
    /// What every step can read.
    pub input: Payload,
    /// The caller's own id for the work this belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Rolled back if not finished by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What it can be searched by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// An event at its place in a saga's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number in the saga's log, from 1.
    pub seq: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

impl Event {
    /// The names of all events there are.
    pub const NAMES: [&'static str; 18] = [
        "saga.started",
        "saga.succeeded",
        "saga.failed",
        "saga.compensating",
        "saga.compensated",
        "saga.paused",
        "saga.resumed",
        "saga.adopted",
        "step.started",
        "step.leased",
        "step.succeeded",
        "step.failed",
        "step.timed_out",
        "step.retry",
        "step.compensating",
        "step.compensated",
        "step.compensation_failed",
        "step.resolved",
    ];

    /// The event that says that a node goes on with a saga whose attempts another process may have run. Whether a store
    /// appends it with the change of owner or a decision emits it, it is made here.
    #[must_use]
    pub fn adopted(node: String, epoch: i64) -> Self {
        Self::SagaAdopted { node, epoch }
    }

    /// The event's name in logs, streams and the database.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SagaStarted(_) => "saga.started",
            Self::SagaSucceeded => "saga.succeeded",
            Self::SagaFailed { .. } => "saga.failed",
            Self::SagaCompensating { .. } => "saga.compensating",
            Self::SagaCompensated { .. } => "saga.compensated",
            Self::SagaPaused { .. } => "saga.paused",
            Self::SagaResumed { .. } => "saga.resumed",
            Self::SagaAdopted { .. } => "saga.adopted",
            Self::StepStarted { .. } => "step.started",
            Self::StepLeased { .. } => "step.leased",
            Self::StepSucceeded { .. } => "step.succeeded",
            Self::StepFailed { .. } => "step.failed",
            Self::StepTimedOut { .. } => "step.timed_out",
            Self::StepRetry { .. } => "step.retry",
            Self::StepCompensating { .. } => "step.compensating",
            Self::StepCompensated { .. } => "step.compensated",
            Self::StepCompensationFailed { .. } => "step.compensation_failed",
            Self::StepResolved { .. } => "step.resolved",
        }
    }

    /// The step it is about, if it is about one.
    #[must_use]
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::StepStarted { step, .. }
            | Self::StepLeased { step, .. }
            | Self::StepSucceeded { step, .. }
            | Self::StepFailed { step, .. }
            | Self::StepTimedOut { step, .. }
            | Self::StepRetry { step, .. }
            | Self::StepCompensating { step, .. }
            | Self::StepCompensated { step, .. }
            | Self::StepCompensationFailed { step, .. }
            | Self::StepResolved { step, .. }
            | Self::SagaFailed { step, .. } => Some(step),
            Self::SagaCompensating { failed_step, .. } => failed_step.as_ref(),
            Self::SagaStarted(_)
            | Self::SagaSucceeded
            | Self::SagaCompensated { .. }
            | Self::SagaPaused { .. }
            | Self::SagaResumed { .. }
            | Self::SagaAdopted { .. } => None,
        }
    }

    /// Whether this attempt was given up by this, since no outside worker had taken or answered it in time.
    #[must_use]
    pub fn gave_up_waiting_for(&self, step: &StepId, phase: Phase, attempt: u32) -> bool {
        let (of, error) = match self {
            Self::StepFailed { error, .. } | Self::StepTimedOut { error, .. } => (Phase::Do, error),
            Self::StepCompensationFailed { error, .. } => (Phase::Undo, error),
            Self::StepRetry { phase, error, .. } => (*phase, error),
            _ => return false,
        };
        (self.step(), of, self.attempt()) == (Some(step), phase, Some(attempt))
            && (*error == StepError::unanswered_by_workers() || *error == StepError::not_taken_by_workers())
    }

    /// The attempt it is about, if it is about one.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::StepStarted { attempt, .. }
            | Self::StepLeased { attempt, .. }
            | Self::StepSucceeded { attempt, .. }
            | Self::StepFailed { attempt, .. }
            | Self::StepTimedOut { attempt, .. }
            | Self::StepRetry { attempt, .. }
            | Self::StepCompensating { attempt, .. }
            | Self::StepCompensated { attempt, .. }
            | Self::StepCompensationFailed { attempt, .. } => Some(*attempt),
            Self::StepResolved { .. }
            | Self::SagaStarted(_)
            | Self::SagaSucceeded
            | Self::SagaFailed { .. }
            | Self::SagaCompensating { .. }
            | Self::SagaCompensated { .. }
            | Self::SagaPaused { .. }
            | Self::SagaResumed { .. }
            | Self::SagaAdopted { .. } => None,
        }
    }

    /// Whether the saga is at its end with it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::SagaSucceeded | Self::SagaCompensated { .. } | Self::SagaFailed { .. })
    }
}
