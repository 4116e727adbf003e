//! A saga's state: nothing but the fold of its events.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::event::{Event, Phase, Recorded, Resolution, Started};
use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// Where a saga stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; no step has started.
    Pending,
    /// Going forward.
    Running,
    /// Every step succeeded.
    Succeeded,
    /// The rollback could not be finished.
    Failed,
    /// Rolling back.
    Compensating,
    /// Everything that had to be undone is undone.
    Compensated,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Compensating,
        Self::Compensated,
    ];

    /// Its name in the database, in answers and filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether it is an end: only a failed rollback can be taken up again, by a person.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Compensated)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a step stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    Pending,
    /// Its action is in flight or waits for its next attempt.
    Running,
    /// Its action succeeded.
    Succeeded,
    /// Its action failed and left nothing behind.
    Failed,
    /// Nobody knows whether its action took effect.
    InDoubt,
    /// Its compensation is in flight or waits for its next attempt.
    Compensating,
    /// It is undone.
    Compensated,
    /// It could not be undone.
    CompensationFailed,
    /// A person decided to leave it undone.
    Skipped,
}

/// How far one phase of a step is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Not begun.
    #[default]
    Idle,
    /// An attempt is in flight.
    Running,
    /// The node that ran the attempt went away.
    Interrupted,
    /// The next attempt is due then.
    Waiting {
        /// The time.
        until: Timestamp,
    },
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// A person decided that it need not happen.
    Skipped,
}

/// One phase of a step: its action, or its compensation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseState {
    /// How far it is.
    pub progress: Progress,
    /// Attempts started; the newest is the only one whose answer counts.
    pub attempts: u32,
    /// Attempts that failed since the phase began or was taken up again.
    pub failures: u32,
    /// Attempts that were interrupted since the phase began or was taken up again.
    pub interruptions: u32,
    /// Why the newest failed attempt failed.
    pub error: Option<StepError>,
}

impl PhaseState {
    /// Whether an attempt is in flight.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.progress == Progress::Running
    }

    /// Whether it has begun and not ended.
    #[must_use]
    pub fn in_progress(&self) -> bool {
        matches!(
            self.progress,
            Progress::Running | Progress::Interrupted | Progress::Waiting { .. }
        )
    }

    fn begin(&mut self, attempt: u32) {
        self.attempts = attempt;
        self.progress = Progress::Running;
    }

    fn end(&mut self, progress: Progress, error: Option<StepError>) {
        self.progress = progress;
        if error.is_some() {
            self.error = error;
        }
    }

    fn interrupt(&mut self) -> bool {
        let hit = self.in_flight();
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
    /// Whether some attempt may have taken effect though none is known to have succeeded.
    pub in_doubt: bool,
    /// What the action gave.
    pub result: Option<Payload>,
    /// The event that ended the action: later ends are undone first.
    pub settled_seq: u64,
}

impl StepState {
    /// The phase meant.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> &PhaseState {
        match phase {
            Phase::Do => &self.forward,
            Phase::Undo => &self.undo,
        }
    }

    fn phase_mut(&mut self, phase: Phase) -> &mut PhaseState {
        match phase {
            Phase::Do => &mut self.forward,
            Phase::Undo => &mut self.undo,
        }
    }

    /// Whether the action took effect, or may have.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self.forward.progress {
            Progress::Done => true,
            Progress::Failed => self.in_doubt,
            Progress::Idle
            | Progress::Running
            | Progress::Interrupted
            | Progress::Waiting { .. }
            | Progress::Skipped => false,
        }
    }

    /// The step in one word.
    #[must_use]
    pub fn status(&self) -> StepStatus {
        match (&self.undo.progress, &self.forward.progress) {
            (Progress::Done, _) => StepStatus::Compensated,
            (Progress::Failed, _) => StepStatus::CompensationFailed,
            (Progress::Skipped, _) | (Progress::Idle, Progress::Skipped) => StepStatus::Skipped,
            (Progress::Running | Progress::Interrupted | Progress::Waiting { .. }, _) => {
                StepStatus::Compensating
            }
            (Progress::Idle, Progress::Idle) => StepStatus::Pending,
            (Progress::Idle, Progress::Running | Progress::Interrupted | Progress::Waiting { .. }) => {
                StepStatus::Running
            }
            (Progress::Idle, Progress::Done) => StepStatus::Succeeded,
            (Progress::Idle, Progress::Failed) if self.in_doubt => StepStatus::InDoubt,
            (Progress::Idle, Progress::Failed) => StepStatus::Failed,
        }
    }
}

/// Why a saga is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The step that failed; none when it was cancelled or late.
    pub failed_step: Option<StepId>,
    /// Why.
    pub error: StepError,
}

/// A saga's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Where it stands.
    pub status: Status,
    /// Nothing new starts.
    pub paused: bool,
    /// The number of its newest event.
    pub seq: u64,
    /// The time of its newest event.
    pub at: Timestamp,
    /// What it was started with.
    pub started: Arc<Started>,
    /// Its steps, in the order of the definition.
    pub steps: Vec<StepState>,
    /// Why it is rolled back.
    pub cause: Option<Arc<Cause>>,
}

/// A log that does not fit its definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The log is empty or does not begin with `saga.started`.
    #[error("the log does not begin with saga.started")]
    NoStart,
    /// A second beginning.
    #[error("event {0} is a second saga.started")]
    SecondStart(u64),
    /// A number is missing or doubled.
    #[error("event {found} stands where {expected} should")]
    Gap {
        /// The number that should follow.
        expected: u64,
        /// The number that does.
        found: u64,
    },
    /// The log names a step the definition does not have.
    #[error("event {seq} names the step `{step}`, which the definition does not have")]
    UnknownStep {
        /// The event.
        seq: u64,
        /// The step.
        step: StepId,
    },
}

impl State {
    /// The state of a saga with this log.
    ///
    /// # Errors
    /// When the log has gaps or does not fit the definition.
    pub fn fold(definition: &Definition, log: &[Recorded]) -> Result<Self, Misfit> {
        let mut log = log.iter();
        let mut state = match log.next() {
            Some(Recorded {
                seq: 1,
                at,
                event: Event::SagaStarted(started),
            }) => Self::begin(definition, started.clone(), *at),
            _ => return Err(Misfit::NoStart),
        };
        for recorded in log {
            state.append(definition, recorded)?;
        }
        Ok(state)
    }

    /// Takes in the next event of the log.
    ///
    /// # Errors
    /// When it is not the next one or does not fit the definition.
    pub fn append(&mut self, definition: &Definition, recorded: &Recorded) -> Result<(), Misfit> {
        if recorded.seq != self.seq + 1 {
            return Err(Misfit::Gap {
                expected: self.seq + 1,
                found: recorded.seq,
            });
        }
        let position = match recorded.event.step() {
            None => None,
            Some(step) => Some(definition.position(step).ok_or_else(|| Misfit::UnknownStep {
                seq: recorded.seq,
                step: step.clone(),
            })?),
        };
        if matches!(recorded.event, Event::SagaStarted(_)) {
            return Err(Misfit::SecondStart(recorded.seq));
        }
        self.apply(position, recorded);
        Ok(())
    }

    pub(super) fn begin(definition: &Definition, started: Arc<Started>, at: Timestamp) -> Self {
        Self {
            status: Status::Pending,
            paused: false,
            seq: 1,
            at,
            started,
            steps: vec![StepState::default(); definition.steps().len()],
            cause: None,
        }
    }

    /// `position` is where the event's step stands; the caller has looked it up.
    pub(super) fn apply(&mut self, position: Option<usize>, recorded: &Recorded) {
        self.seq = recorded.seq;
        self.at = recorded.at;
        match &recorded.event {
            Event::SagaStarted(_) => {}
            Event::SagaSucceeded => self.status = Status::Succeeded,
            Event::SagaFailed { .. } => self.status = Status::Failed,
            Event::SagaCompensated => self.status = Status::Compensated,
            Event::SagaCompensating { failed_step, error } => {
                self.status = Status::Compensating;
                self.cause = Some(Arc::new(Cause {
                    failed_step: failed_step.clone(),
                    error: error.clone(),
                }));
            }
            Event::SagaPaused { .. } => self.paused = true,
            Event::SagaResumed { .. } => self.paused = false,
            Event::SagaAdopted { .. } => {
                for step in &mut self.steps {
                    step.in_doubt |= step.forward.interrupt();
                    step.undo.interrupt();
                }
            }
            Event::StepResolved { .. }
            | Event::StepStarted { .. }
            | Event::StepSucceeded { .. }
            | Event::StepFailed { .. }
            | Event::StepTimedOut { .. }
            | Event::StepRetry { .. }
            | Event::StepCompensating { .. }
            | Event::StepCompensated { .. }
            | Event::StepCompensationFailed { .. } => {
                if let Some(position) = position {
                    self.apply_to_step(position, recorded);
                }
            }
        }
    }

    fn apply_to_step(&mut self, position: usize, recorded: &Recorded) {
        let step = &mut self.steps[position];
        match &recorded.event {
            Event::StepStarted { attempt, .. } => {
                self.status = Status::Running;
                step.forward.begin(*attempt);
            }
            Event::StepSucceeded { result, .. } => {
                step.forward.end(Progress::Done, None);
                step.in_doubt = false;
                step.result = Some(result.clone());
                step.settled_seq = recorded.seq;
            }
            Event::StepFailed { error, in_doubt, .. } => {
                step.forward.end(Progress::Failed, Some(error.clone()));
                step.in_doubt = *in_doubt;
                step.settled_seq = recorded.seq;
            }
            Event::StepTimedOut { error, .. } => {
                step.forward.end(Progress::Failed, Some(error.clone()));
                step.in_doubt = true;
                step.settled_seq = recorded.seq;
            }
            Event::StepRetry {
                phase,
                error,
                retry_at,
                ..
            } => {
                if *phase == Phase::Do {
                    step.in_doubt |= error.kind.leaves_doubt();
                }
                let phase = step.phase_mut(*phase);
                phase.failures += 1;
                phase.end(Progress::Waiting { until: *retry_at }, Some(error.clone()));
            }
            Event::StepCompensating { attempt, .. } => step.undo.begin(*attempt),
            Event::StepCompensated { .. } => step.undo.end(Progress::Done, None),
            Event::StepCompensationFailed { error, .. } => {
                step.undo.end(Progress::Failed, Some(error.clone()));
            }
            Event::StepResolved { action, .. } => {
                self.status = Status::Compensating;
                step.undo.failures = 0;
                step.undo.interruptions = 0;
                step.undo.progress = match action {
                    Resolution::Retry => Progress::Idle,
                    Resolution::Skip => Progress::Skipped,
                    Resolution::Done => Progress::Done,
                };
            }
            Event::SagaStarted(_)
            | Event::SagaSucceeded
            | Event::SagaFailed { .. }
            | Event::SagaCompensating { .. }
            | Event::SagaCompensated
            | Event::SagaPaused { .. }
            | Event::SagaResumed { .. }
            | Event::SagaAdopted { .. } => {}
        }
    }

    /// Whether an attempt of any step is in flight.
    #[must_use]
    pub fn anything_in_flight(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.forward.in_flight() || step.undo.in_flight())
    }

    /// When the saga has to be looked at again though nothing happens: a retry, or the deadline.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return None;
        }
        let going_forward = self.status != Status::Compensating;
        let deadline = self.started.deadline.filter(|_| going_forward);
        let retries = self.steps.iter().filter(|_| !self.paused).filter_map(|step| {
            let phase = if going_forward { &step.forward } else { &step.undo };
            match phase.progress {
                Progress::Waiting { until } => Some(until),
                Progress::Idle
                | Progress::Running
                | Progress::Interrupted
                | Progress::Done
                | Progress::Failed
                | Progress::Skipped => None,
            }
        });
        retries.chain(deadline).min()
    }
}
