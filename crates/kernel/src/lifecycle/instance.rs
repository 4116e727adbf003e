//! The state of an instance: the fold of its log.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::draft::FAILED;
use super::event::{Event, Given, Recorded, Started};
use super::machine::Machine;
use crate::performer::Performer;
use crate::time::Timestamp;

/// Why an instance failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the error, one of the machine's.
    #[serde(rename = "error_kind")]
    pub kind: String,
    /// The message for people.
    pub message: String,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its state.
    pub state: Arc<str>,
    /// The number of starts.
    pub attempt: u32,
    /// The number of its newest event.
    pub seq: u64,
    /// The number of the event that led into the state. Each entry into a state has its own.
    pub entry: u64,
    /// Failed attempts of the state's action.
    pub failures: u32,
    /// Whether an outside worker has leased the current attempt.
    pub leased: bool,
    /// The data of its starts: the first correlation id, the newest input.
    pub given: Given,
    /// Why it failed, if it failed with an error.
    pub failure: Option<Failure>,
    /// Whether it was abandoned in its pause state.
    pub abandoned: bool,
    /// When it entered its state.
    pub entered_at: Timestamp,
    /// The time of its newest event.
    pub updated_at: Timestamp,
    /// When its state is due: to perform its action, to end a worker's timeout or queue timeout, or to expire its
    /// pause.
    pub due_at: Option<Timestamp>,
    /// The token of the newest claim on its action; zero without one. The log does not contain it.
    pub token: u64,
}

impl Instance {
    /// The fold of a log; none if the log does not begin with a start.
    #[must_use]
    pub fn of(machine: &Machine, log: &[Recorded]) -> Option<Self> {
        let (first, more) = log.split_first()?;
        let Event::Started(started) = &first.event else { return None };
        let mut instance = Self::begun(machine, started, first.at);
        for recorded in more {
            instance.apply(machine, recorded);
        }
        Some(instance)
    }

    /// The instance after its first start.
    pub(super) fn begun(machine: &Machine, started: &Started, at: Timestamp) -> Self {
        Self {
            state: started.state.clone(),
            attempt: 1,
            seq: 1,
            entry: 1,
            failures: 0,
            leased: false,
            given: Given { correlation_id: started.correlation_id.clone(), input: started.input.clone() },
            failure: None,
            abandoned: false,
            entered_at: at,
            updated_at: at,
            due_at: due_at(machine, &started.state, at),
            token: 0,
        }
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, machine: &Machine, recorded: &Recorded) {
        self.seq = recorded.seq;
        self.updated_at = recorded.at;
        match &recorded.event {
            // A log has exactly one, its first event.
            Event::Started(_) => {}
            Event::Restarted { attempt, given } => {
                self.attempt = *attempt;
                let Given { correlation_id, input } = given;
                self.given.correlation_id =
                    self.given.correlation_id.take().or_else(|| correlation_id.clone());
                if input.is_some() {
                    self.given.input.clone_from(input);
                }
            }
            Event::Transitioned { to, .. } => self.enter(machine, to.clone(), recorded),
            Event::Failed { failure, .. } => {
                self.enter(machine, machine.named(FAILED), recorded);
                self.failure = Some(failure.clone());
            }
            Event::ActionRetry { state, attempt, retry_at, .. } => {
                self.failures = *attempt;
                self.leased = false;
                self.due_at = due_at(machine, state, *retry_at);
            }
            Event::ActionLeased { until, .. } => {
                self.leased = true;
                self.due_at = Some(*until);
            }
            Event::Abandoned { .. } => {
                self.abandoned = true;
                self.due_at = None;
            }
        }
    }

    fn enter(&mut self, machine: &Machine, state: Arc<str>, by: &Recorded) {
        self.due_at = due_at(machine, &state, by.at);
        self.state = state;
        self.entry = by.seq;
        self.entered_at = by.at;
        self.failures = 0;
        self.leased = false;
        self.failure = None;
    }

    /// Whether it has ended: in a terminal state, or abandoned.
    #[must_use]
    pub fn has_ended(&self, machine: &Machine) -> bool {
        self.abandoned || machine.is_terminal(&self.state)
    }

    /// The queue of its action while no worker has leased it. During the backoff before a retry there is none.
    #[must_use]
    pub fn unleased_queue<'m>(&self, machine: &'m Machine) -> Option<&'m str> {
        let (queue, _) = machine.outside(&self.state)?;
        (!self.leased).then_some(queue)
    }

    /// When its pause expires, if it does.
    #[must_use]
    pub fn pause_expires_at(&self, machine: &Machine) -> Option<Timestamp> {
        let allowed = machine.pause_expires(&self.state).filter(|_| !self.abandoned);
        allowed.map(|allowed| self.entered_at.plus(allowed))
    }

    /// When it begins to count as stuck, if its state has such a limit.
    #[must_use]
    pub fn stuck_at(&self, machine: &Machine) -> Option<Timestamp> {
        let allowed = machine.stuck_after(&self.state).filter(|_| !self.has_ended(machine));
        allowed.map(|allowed| self.entered_at.plus(allowed))
    }
}

/// When a state that begins at this time is due.
pub(super) fn due_at(machine: &Machine, state: &str, from: Timestamp) -> Option<Timestamp> {
    if let Some(allowed) = machine.pause_expires(state) {
        return Some(from.plus(allowed));
    }
    let action = machine.action(state)?;
    match action.performer.as_ref()? {
        Performer::Code | Performer::Call(_) => Some(from),
        // A worker's timeout begins when it leases the attempt.
        Performer::Worker { .. } => action.queue_timeout.map(|wait| from.plus(wait)),
    }
}
