//! A saga's state: the fold of its events.

use std::sync::Arc;
use std::time::Duration;

use super::event::{Outside, Phase, Started};
pub use super::fold::ReplayError;
pub use super::status::{Status, StepStatus};
use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::retry::Retry;
use crate::time::Timestamp;

/// The progress of one phase of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Not started.
    #[default]
    Idle,
    /// An attempt runs on this node.
    Running,
    /// An attempt waits for an outside worker to lease it.
    Queued {
        /// When the wait ends; none without a limit.
        until: Option<Timestamp>,
    },
    /// An outside worker holds the attempt.
    Outside {
        /// When the attempt times out.
        until: Timestamp,
    },
    /// The node that ran the attempt is gone.
    Interrupted,
    /// The next attempt waits for its backoff.
    Waiting {
        /// The time.
        until: Timestamp,
    },
    /// Succeeded.
    Done,
    /// Failed.
    Failed,
    /// An operator skipped it.
    Skipped,
}

/// One phase of a step: its action, or its compensation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseState {
    /// Its progress.
    pub progress: Progress,
    /// Attempts started; only the newest one's result counts.
    pub attempts: u32,
    /// Failed attempts since the phase began or was resolved.
    pub failures: u32,
    /// Interrupted attempts since the phase began or was resolved.
    pub interruptions: u32,
    /// The error of the newest failed attempt.
    pub error: Option<StepError>,
    /// The start of the first attempt since the phase began or was resolved.
    pub began_at: Option<Timestamp>,
}

impl PhaseState {
    /// The rest of the policy's time limit for all attempts; none without a limit.
    #[must_use]
    pub fn time_left(&self, policy: &Retry, at: Timestamp) -> Option<Duration> {
        policy.within.map(|time| self.began_at.unwrap_or(at).plus(time).since(at))
    }

    /// Whether an attempt is in flight.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        matches!(self.progress, Progress::Running | Progress::Queued { .. } | Progress::Outside { .. })
    }

    /// Whether the running attempt ends with its node.
    #[must_use]
    pub fn runs_here(&self) -> bool {
        self.progress == Progress::Running
    }

    /// Whether it has begun and not ended.
    #[must_use]
    pub fn in_progress(&self) -> bool {
        self.in_flight() || matches!(self.progress, Progress::Interrupted | Progress::Waiting { .. })
    }

    pub(super) fn begin(&mut self, attempt: u32, outside: Option<&Outside>, at: Timestamp) {
        self.attempts = attempt;
        self.began_at.get_or_insert(at);
        self.progress = match outside {
            None => Progress::Running,
            Some(Outside { until: Some(until), .. }) => Progress::Outside { until: *until },
            Some(Outside { until: None, queue_until, .. }) => Progress::Queued { until: *queue_until },
        };
    }

    pub(super) fn end(&mut self, progress: Progress, error: Option<StepError>) {
        self.progress = progress;
        if error.is_some() {
            self.error = error;
        }
    }

    /// No worker could lease the attempt during the pause, so the pause extends its wait.
    pub(super) fn extend_wait(&mut self, pause: Duration) {
        if let Progress::Queued { until: Some(until) } = &mut self.progress {
            *until = until.plus(pause);
        }
    }

    pub(super) fn interrupt(&mut self) -> bool {
        let hit = self.runs_here();
        if hit {
            self.progress = Progress::Interrupted;
            self.interruptions += 1;
        }
        hit
    }
}

/// A step's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepState {
    /// Its action.
    pub forward: PhaseState,
    /// Its compensation.
    pub undo: PhaseState,
    /// Whether an attempt may have taken effect although none is known to have succeeded.
    pub in_doubt: bool,
    /// The action's result.
    pub result: Option<Payload>,
    /// The compensation's result.
    pub compensation_result: Option<Payload>,
    /// The event that ended the action: later ones are undone first.
    pub settled_seq: u64,
    /// The event of the failed compensation; zero without one.
    pub parked_seq: u64,
}

impl StepState {
    /// The state of a phase.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> &PhaseState {
        match phase {
            Phase::Do => &self.forward,
            Phase::Undo => &self.undo,
        }
    }

    pub(super) fn phase_mut(&mut self, phase: Phase) -> &mut PhaseState {
        match phase {
            Phase::Do => &mut self.forward,
            Phase::Undo => &mut self.undo,
        }
    }

    /// Whether the ended action took effect or may have.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self.forward.progress {
            Progress::Done => true,
            Progress::Failed => self.in_doubt,
            Progress::Idle
            | Progress::Running
            | Progress::Queued { .. }
            | Progress::Outside { .. }
            | Progress::Interrupted
            | Progress::Waiting { .. }
            | Progress::Skipped => false,
        }
    }

    /// The status of the step.
    #[must_use]
    pub fn status(&self) -> StepStatus {
        match (&self.undo.progress, &self.forward.progress) {
            (Progress::Done, _) => StepStatus::Compensated,
            (Progress::Failed, _) => StepStatus::CompensationFailed,
            (Progress::Skipped, _) | (Progress::Idle, Progress::Skipped) => StepStatus::Skipped,
            (
                Progress::Running
                | Progress::Queued { .. }
                | Progress::Outside { .. }
                | Progress::Interrupted
                | Progress::Waiting { .. },
                _,
            ) => StepStatus::Compensating,
            (Progress::Idle, Progress::Idle) => StepStatus::Pending,
            (Progress::Idle, Progress::Queued { .. }) => StepStatus::Waiting,
            (
                Progress::Idle,
                Progress::Running
                | Progress::Outside { .. }
                | Progress::Interrupted
                | Progress::Waiting { .. },
            ) => StepStatus::Running,
            (Progress::Idle, Progress::Done) => StepStatus::Succeeded,
            (Progress::Idle, Progress::Failed) if self.in_doubt => StepStatus::InDoubt,
            (Progress::Idle, Progress::Failed) => StepStatus::Failed,
        }
    }
}

/// Why a saga is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The failed step; none after a cancel or a missed deadline.
    pub failed_step: Option<StepId>,
    /// The error.
    pub error: StepError,
}

/// A saga's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its status.
    pub status: Status,
    /// No new attempts start, and no wait for a worker ends.
    pub paused: bool,
    /// When it was paused, while it is.
    pub paused_at: Option<Timestamp>,
    /// The number of its newest event.
    pub seq: u64,
    /// The time of its first event.
    pub created_at: Timestamp,
    /// The time of its newest event.
    pub at: Timestamp,
    /// The data of its start.
    pub started: Arc<Started>,
    /// Its steps in the order of the definition.
    pub steps: Vec<StepState>,
    /// Why it is rolling back.
    pub cause: Option<Arc<Cause>>,
}

impl State {
    /// Whether a running attempt of any step ends with this node.
    #[must_use]
    pub fn anything_runs_here(&self) -> bool {
        self.steps.iter().any(|step| step.forward.runs_here() || step.undo.runs_here())
    }

    /// Whether an attempt of any step is left to an outside worker.
    #[must_use]
    pub fn anything_is_outside(&self) -> bool {
        let phases = self.steps.iter().flat_map(|step| [&step.forward, &step.undo]);
        phases.into_iter().any(|phase| phase.in_flight() && !phase.runs_here())
    }

    /// Whether an attempt of any step waits for an outside worker to lease it.
    #[must_use]
    pub fn anything_is_queued(&self) -> bool {
        let mut phases = self.steps.iter().flat_map(|step| [&step.forward, &step.undo]);
        phases.any(|phase| matches!(phase.progress, Progress::Queued { .. }))
    }

    /// When the saga is due without further input: a retry, an outside worker's timeout, or the deadline.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.next_attempt().into_iter().chain(self.deadline()).min()
    }

    /// When the next retry is due, or an outside worker's timeout passes.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Timestamp> {
        self.next_attempt_besides(&[])
    }

    /// The same without the steps at these positions.
    #[must_use]
    pub fn next_attempt_besides(&self, positions: &[usize]) -> Option<Timestamp> {
        self.next_retry_besides(positions).into_iter().chain(self.next_timeout()).min()
    }

    /// Its deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let holds = !self.status.is_terminal() && self.status != Status::Compensating;
        self.started.deadline.filter(|_| holds)
    }

    /// When an outside worker's timeout or queue timeout passes.
    fn next_timeout(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return None;
        }
        let phases = self.steps.iter().flat_map(|step| [&step.forward, &step.undo]);
        let ends = phases.filter_map(|phase| match phase.progress {
            Progress::Outside { until } => Some(until),
            Progress::Queued { until } => until.filter(|_| !self.paused),
            Progress::Idle
            | Progress::Running
            | Progress::Interrupted
            | Progress::Waiting { .. }
            | Progress::Done
            | Progress::Failed
            | Progress::Skipped => None,
        });
        ends.min()
    }

    fn next_retry_besides(&self, positions: &[usize]) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return None;
        }
        let going_forward = self.status != Status::Compensating;
        let steps = self.steps.iter().enumerate().filter(|(at, _)| !self.paused && !positions.contains(at));
        let retries = steps.filter_map(|(_, step)| {
            let phase = if going_forward { &step.forward } else { &step.undo };
            match phase.progress {
                Progress::Waiting { until } => Some(until),
                Progress::Idle
                | Progress::Running
                | Progress::Queued { .. }
                | Progress::Outside { .. }
                | Progress::Interrupted
                | Progress::Done
                | Progress::Failed
                | Progress::Skipped => None,
            }
        });
        retries.min()
    }
}
