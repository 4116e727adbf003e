//! Events of sagas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The largest total size of results that a `saga.compensated` event repeats, in bytes of JSON.
pub const MAX_RESULTS_LEN: usize = 256 * 1024;

/// The phase of a step.
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

/// An operator's resolution of a failed compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Retry it, with all its retries.
    Retry,
    /// Leave it undone.
    Skip,
    /// It was undone by hand.
    Done,
}

/// An attempt by an outside worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The queue that workers lease it from.
    pub queue: Arc<str>,
    /// When the wait for a worker ends; none without a limit.
    pub queue_until: Option<Timestamp>,
    /// Only in logs of versions before `step.leased`: when the attempt times out, leased or not.
    pub until: Option<Timestamp>,
}

/// An event. Its name in the log is [`Event::name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The saga was accepted.
    SagaStarted(Arc<Started>),
    /// Every step succeeded.
    SagaSucceeded,
    /// The rollback failed and needs an operator.
    SagaFailed {
        /// The step whose compensation failed last.
        step: StepId,
        /// The error.
        error: StepError,
    },
    /// The rollback began.
    SagaCompensating {
        /// The failed step; none after a cancel or a missed deadline.
        failed_step: Option<StepId>,
        /// The error.
        error: StepError,
    },
    /// Everything that had to be undone is undone.
    SagaCompensated {
        /// The results of the compensations by step, without empty ones. Empty if they exceed
        /// [`MAX_RESULTS_LEN`] together: the steps' own events contain them.
        results: BTreeMap<StepId, Payload>,
    },
    /// The saga was paused: it starts nothing until it is resumed.
    SagaPaused {
        /// Who requested it, and why.
        note: String,
    },
    /// The saga was resumed.
    SagaResumed {
        /// Who requested it, and why.
        note: String,
    },
    /// A node adopted the saga; running attempts are interrupted.
    SagaAdopted {
        /// The node's name.
        node: String,
        /// The node's epoch, higher at every start of the node.
        epoch: i64,
    },
    /// An attempt of an action is about to run.
    StepStarted {
        /// The step.
        step: StepId,
        /// The attempt, from 1.
        attempt: u32,
        /// Set for an outside worker's attempt, which adoption does not interrupt.
        outside: Option<Outside>,
    },
    /// An outside worker has leased the attempt: its timeout begins.
    StepLeased {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// When the attempt times out.
        until: Timestamp,
    },
    /// The action succeeded.
    StepSucceeded {
        /// The step.
        step: StepId,
        /// The successful attempt.
        attempt: u32,
        /// Its result.
        result: Payload,
    },
    /// The action failed without further attempts.
    StepFailed {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// The error.
        error: StepError,
        /// Whether an attempt may have taken effect: then the step is compensated.
        in_doubt: bool,
    },
    /// The action timed out without further attempts; it may have taken effect.
    StepTimedOut {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// The error.
        error: StepError,
    },
    /// An attempt failed, and a retry follows.
    StepRetry {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// The attempt that failed.
        attempt: u32,
        /// The total number of attempts.
        max_attempts: u32,
        /// The error.
        error: StepError,
        /// When the retry is due.
        retry_at: Timestamp,
    },
    /// An attempt of a compensation is about to run.
    StepCompensating {
        /// The step.
        step: StepId,
        /// The attempt, from 1.
        attempt: u32,
        /// Set for an outside worker's attempt, which adoption does not interrupt.
        outside: Option<Outside>,
    },
    /// The step is undone.
    StepCompensated {
        /// The step.
        step: StepId,
        /// The successful attempt.
        attempt: u32,
        /// The compensation's result.
        result: Payload,
    },
    /// The compensation failed without further attempts.
    StepCompensationFailed {
        /// The step.
        step: StepId,
        /// Its last attempt.
        attempt: u32,
        /// The error.
        error: StepError,
    },
    /// An operator resolved a failed compensation.
    StepResolved {
        /// The step.
        step: StepId,
        /// The resolution.
        action: Resolution,
        /// Who, and why.
        note: String,
    },
}

/// The data of a saga's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The definition's name.
    pub definition: String,
    /// The definition's version, which the saga keeps.
    pub version: u32,
    /// The input of every step.
    pub input: Payload,
    /// The caller's correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The deadline; a saga that misses it is rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Attributes for searching.
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
    /// The event.
    pub event: Event,
}

impl Event {
    /// The names of all events.
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

    /// The adoption event of a saga whose attempts another process may have run. Stores and decisions both make it
    /// here.
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

    /// The step of the event, if it has one.
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

    /// Whether this event ends an attempt that no outside worker leased or finished in time.
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

    /// The attempt of the event, if it has one.
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

    /// Whether the event ends the saga.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::SagaSucceeded | Self::SagaCompensated { .. } | Self::SagaFailed { .. })
    }
}
