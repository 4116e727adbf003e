//! A checked definition: what a saga of this kind does, with the order of things worked out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::draft::Draft;
use super::event::Phase;
use super::state::StepState;
use crate::id::StepId;
use crate::retry::Retry;
use crate::time::Timestamp;

/// A definition that passed its check; made by [`Draft::check`].
#[derive(Clone, Debug)]
pub struct Definition {
    pub(super) draft: Draft,
    pub(super) steps: Vec<Step>,
    pub(super) index: HashMap<StepId, usize>,
    pub(super) fingerprint: u64,
}

/// A step with its place among the others.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its id.
    pub id: StepId,
    /// The steps that must have succeeded before it starts.
    pub depends_on: Vec<usize>,
    /// Every step that comes after it, directly or not: all of them are undone before it is.
    pub successors: Vec<usize>,
    /// The queue that an outside worker takes the action from; none when it is performed here.
    pub queue: Option<Arc<str>>,
    /// How long the action may wait for an outside worker; none where that has no end.
    pub queue_timeout: Option<Duration>,
    /// How long one attempt of the action may take.
    pub timeout: Duration,
    /// How often the action is tried again.
    pub retry: Retry,
    /// How it is undone; none when it has nothing to undo.
    pub compensation: Option<Compensation>,
    /// Whether the engine runs only so many of it at a time.
    pub limited: bool,
}

impl Step {
    /// How long the attempt may take that starts at this time: its timeout, or what is left of the policy's time for
    /// all attempts. None where there is nothing to undo.
    #[must_use]
    pub fn time_of_attempt(&self, phase: Phase, state: &StepState, at: Timestamp) -> Option<Duration> {
        let (timeout, policy) = match phase {
            Phase::Do => (self.timeout, &self.retry),
            Phase::Undo => self.compensation.as_ref().map(|undo| (undo.timeout, &undo.retry))?,
        };
        Some(state.phase(phase).time_left(policy, at).map_or(timeout, |left| left.min(timeout)))
    }

    /// The queue that an outside worker takes this phase from, and how long it may wait there; none when it is performed
    /// here.
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

/// How a step is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compensation {
    /// The queue that an outside worker takes it from; none when it is performed here.
    pub queue: Option<Arc<str>>,
    /// How long it may wait for an outside worker; none where that has no end.
    pub queue_timeout: Option<Duration>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often it is tried again, on every kind of failure.
    pub retry: Retry,
}

impl Definition {
    /// The name it is started by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.draft.name
    }

    /// Its version; sagas keep theirs to the end.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.draft.version
    }

    /// What it was checked from.
    #[must_use]
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Its steps, in the order they were declared.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Where a step stands among [`Definition::steps`].
    #[must_use]
    pub fn position(&self, step: &StepId) -> Option<usize> {
        self.index.get(step).copied()
    }

    /// Whether the other compensations still run after one failed for good.
    #[must_use]
    pub fn continues_past_failed_compensation(&self) -> bool {
        self.draft.continue_on_compensation_failure
    }

    /// How many compensations may be in progress at once.
    #[must_use]
    pub fn compensation_concurrency(&self) -> usize {
        self.draft.compensation_concurrency
    }

    /// A number that changes with everything that gives a log its meaning: steps, their order, what can be
    /// undone and how the rollback goes. Times and retries may change under the same version.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}
