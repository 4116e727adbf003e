//! Folds events into state: the only place where a saga's state changes.

use std::sync::Arc;
use std::time::Duration;

use super::definition::Definition;
use super::event::{Event, Phase, Recorded, Resolution, Started};
use super::state::{Cause, Progress, State, StepState};
use super::status::Status;
use crate::id::StepId;
use crate::time::Timestamp;

/// A log that does not fit its definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The log is empty or does not begin with `saga.started`.
    #[error("the log does not begin with saga.started")]
    NoStart,
    /// A second `saga.started`.
    #[error("event {0} is a second saga.started")]
    SecondStart(u64),
    /// A number is missing or repeated.
    #[error("event {found} found where {expected} was expected")]
    Gap {
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The log names a step that the definition lacks.
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
    pub fn fold(definition: &Definition, log: &[Recorded]) -> Result<Self, ReplayError> {
        let mut log = log.iter();
        let mut state = match log.next() {
            Some(Recorded { seq: 1, at, event: Event::SagaStarted(started) }) => {
                Self::begin(definition, started.clone(), *at)
            }
            _ => return Err(ReplayError::NoStart),
        };
        for recorded in log {
            state.append(definition, recorded)?;
        }
        Ok(state)
    }

    /// Applies the next event of the log.
    ///
    /// # Errors
    /// When it is not the next one or does not match the definition.
    pub fn append(&mut self, definition: &Definition, recorded: &Recorded) -> Result<(), ReplayError> {
        if recorded.seq != self.seq + 1 {
            return Err(ReplayError::Gap { expected: self.seq + 1, found: recorded.seq });
        }
        let position = match recorded.event.step() {
            None => None,
            Some(step) => Some(
                definition
                    .position(step)
                    .ok_or_else(|| ReplayError::UnknownStep { seq: recorded.seq, step: step.clone() })?,
            ),
        };
        if matches!(recorded.event, Event::SagaStarted(_)) {
            return Err(ReplayError::SecondStart(recorded.seq));
        }
        self.apply(position, recorded);
        Ok(())
    }

    pub(super) fn begin(definition: &Definition, started: Arc<Started>, at: Timestamp) -> Self {
        Self {
            status: Status::Pending,
            paused: false,
            paused_at: None,
            seq: 1,
            created_at: at,
            at,
            started,
            steps: vec![StepState::default(); definition.steps().len()],
            cause: None,
        }
    }

    /// `position` is the position of the event's step, found by the caller.
    pub(super) fn apply(&mut self, position: Option<usize>, recorded: &Recorded) {
        self.seq = recorded.seq;
        self.at = recorded.at;
        match &recorded.event {
            Event::SagaStarted(_) => {}
            Event::SagaSucceeded => self.status = Status::Succeeded,
            Event::SagaFailed { .. } => self.status = Status::Failed,
            Event::SagaCompensated { .. } => self.status = Status::Compensated,
            Event::SagaCompensating { failed_step, error } => {
                self.status = Status::Compensating;
                self.cause = Some(Arc::new(Cause { failed_step: failed_step.clone(), error: error.clone() }));
            }
            Event::SagaPaused { .. } => {
                self.paused = true;
                self.paused_at = Some(recorded.at);
            }
            Event::SagaResumed { .. } => {
                self.paused = false;
                let pause = self.paused_at.take().map_or(Duration::ZERO, |since| recorded.at.since(since));
                for step in &mut self.steps {
                    step.forward.extend_wait(pause);
                    step.undo.extend_wait(pause);
                }
            }
            Event::SagaAdopted { .. } => {
                for step in &mut self.steps {
                    step.in_doubt |= step.forward.interrupt();
                    step.undo.interrupt();
                }
            }
            Event::StepResolved { .. }
            | Event::StepStarted { .. }
            | Event::StepLeased { .. }
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
            Event::StepStarted { attempt, outside, .. } => {
                self.status = Status::Running;
                step.forward.begin(*attempt, outside.as_ref(), recorded.at);
            }
            Event::StepLeased { phase, until, .. } => {
                step.phase_mut(*phase).progress = Progress::Outside { until: *until };
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
            Event::StepRetry { phase, error, retry_at, .. } => {
                if *phase == Phase::Do {
                    step.in_doubt |= error.kind.leaves_doubt();
                }
                let phase = step.phase_mut(*phase);
                phase.failures += 1;
                phase.end(Progress::Waiting { until: *retry_at }, Some(error.clone()));
            }
            Event::StepCompensating { attempt, outside, .. } => {
                step.undo.begin(*attempt, outside.as_ref(), recorded.at);
            }
            Event::StepCompensated { result, .. } => {
                step.undo.end(Progress::Done, None);
                step.compensation_result = Some(result.clone());
            }
            Event::StepCompensationFailed { error, .. } => {
                step.undo.end(Progress::Failed, Some(error.clone()));
                step.parked_seq = recorded.seq;
            }
            Event::StepResolved { action, .. } => {
                self.status = Status::Compensating;
                step.undo.failures = 0;
                step.undo.interruptions = 0;
                step.undo.began_at = None;
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
            | Event::SagaCompensated { .. }
            | Event::SagaPaused { .. }
            | Event::SagaResumed { .. }
            | Event::SagaAdopted { .. } => {}
        }
    }
}
