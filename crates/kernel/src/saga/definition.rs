//! A validated definition with its computed order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::event::Phase;
use super::state::StepState;
use crate::id::StepId;
use crate::retry::Retry;
use crate::time::Timestamp;

/// A definition that passed validation; made by [`Draft::check`].
#[derive(Clone, Debug)]
pub struct Definition {
    pub(super) draft: Draft,
    pub(super) steps: Vec<Step>,
    pub(super) index: HashMap<StepId, usize>,
    pub(super) fingerprint: u64,
}

/// A step with its position.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its id.
    pub id: StepId,
    /// The steps that must succeed before it starts.
    pub depends_on: Vec<usize>,
    /// Every step that depends on it, directly or not: all of them are undone before it.
    pub successors: Vec<usize>,
    /// The queue of an outside worker's action; none if the engine performs it.
    pub queue: Option<Arc<str>>,
    /// How long the action may wait for an outside worker; none means no limit.
    pub queue_timeout: Option<Duration>,
    /// Time limit of one attempt of the action.
    pub timeout: Duration,
    /// The retry policy of the action.
    pub retry: Retry,
    /// How it is undone; none without a compensation.
    pub compensation: Option<Compensation>,
    /// Whether the engine limits its concurrent attempts.
    pub limited: bool,
}

impl Step {
    /// Time limit of an attempt that starts at this time: its timeout, or the rest of the policy's limit for all
    /// attempts. None
    /// without a compensation.
    #[must_use]
    pub fn time_of_attempt(&self, phase: Phase, state: &StepState, at: Timestamp) -> Option<Duration> {
        let (timeout, policy) = match phase {
            Phase::Do => (self.timeout, &self.retry),
            Phase::Undo => self.compensation.as_ref().map(|undo| (undo.timeout, &undo.retry))?,
        };
        Some(state.phase(phase).time_left(policy, at).map_or(timeout, |left| left.min(timeout)))
    }

    /// The queue of an outside worker for this phase, and how long it may wait there; none if the engine performs it.
    pub(super) fn outside(&self, phase: Phase) -> Option<(&Arc<str>, Option<Duration>)> {
        match phase {
            Phase::Do => self.queue.as_ref().map(|queue| (queue, self.queue_timeout)),
            Phase::Undo => {
                let undo = self.compensation.as_ref()?;
                undo.queue.as_ref().map(|queue| (queue, undo.queue_timeout))
            }
        }
    }
}

/// A step's compensation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compensation {
    /// The queue of an outside worker; none if the engine performs it.
    pub queue: Option<Arc<str>>,
    /// How long it may wait for an outside worker; none means no limit.
    pub queue_timeout: Option<Duration>,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// The retry policy, for every kind of failure.
    pub retry: Retry,
}

impl Definition {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.draft.name
    }

    /// Its version; a saga keeps its version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.draft.version
    }

    /// The draft that it was made from.
    #[must_use]
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Its steps in declared order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The position of a step in [`Definition::steps`].
    #[must_use]
    pub fn position(&self, step: &StepId) -> Option<usize> {
        self.index.get(step).copied()
    }

    /// Whether the other compensations still run after one has run out of retries.
    #[must_use]
    pub fn continues_past_failed_compensation(&self) -> bool {
        self.draft.continue_on_compensation_failure
    }

    /// How many compensations may run at once.
    #[must_use]
    pub fn compensation_concurrency(&self) -> usize {
        self.draft.compensation_concurrency
    }

    /// A hash of everything that gives a log its meaning: steps, their order, which can be undone, and how the rollback
    /// proceeds.
    /// Timeouts and retries may change under the same version.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}
