//! Where one thing stands that a machine describes: the fold of its log.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::draft::FAILED;
use super::event::{Event, Given, Recorded, Started};
use super::machine::Machine;
use crate::performer::Performer;
use crate::time::Timestamp;

/// Why something came to its bad end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What alerts tell errors apart by; one of the machine's.
    #[serde(rename = "error_kind")]
    pub kind: String,
    /// What people read.
    pub message: String,
}

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// In which state.
    pub state: Arc<str>,
    /// How often it was begun.
    pub attempt: u32,
    /// The number of its newest event.
    pub seq: u64,
    /// The number of the event that led into its state. A state that is entered twice is two places.
    pub entry: u64,
    /// Attempts of the state's action that have failed.
    pub failures: u32,
    /// Whether an outside worker has leased the attempt that is under way.
    pub leased: bool,
    /// What was given by whoever began it: the first correlation id, the newest input.
    pub given: Given,
    /// Why it failed, if it did and somebody said why.
    pub failure: Option<Failure>,
    /// Whether it ended in its pause state, in which it stays.
    pub abandoned: bool,
    /// Since when it is in its state.
    pub entered_at: Timestamp,
    /// When something happened last.
    pub updated_at: Timestamp,
    /// When its state is due: for its action to be performed, for the time of a worker or the wait for one to end, or for its
    /// pause to expire.
    pub due_at: Option<Timestamp>,
    /// The newest of those who took its action upon them; zero while nobody did. The log does not tell.
    pub token: u64,
}

impl Instance {
    /// The fold of a log; none where the log does not begin with a start.
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

    /// What a first start makes.
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

    /// What an event makes of it.
    pub(super) fn apply(&mut self, machine: &Machine, recorded: &Recorded) {
        self.seq = recorded.seq;
        self.updated_at = recorded.at;
        match &recorded.event {
            // A log has one of these, and it is the first.
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

    /// Whether nothing follows: it is in a terminal state, or was abandoned.
    #[must_use]
    pub fn has_ended(&self, machine: &Machine) -> bool {
        self.abandoned || machine.is_terminal(&self.state)
    }

    /// The queue of the worker that performs its action, if none has leased it yet. During the wait before a retry there is
    /// nothing to lease.
    #[must_use]
    pub fn unleased_queue<'m>(&self, machine: &'m Machine) -> Option<&'m str> {
        let (queue, _) = machine.outside(&self.state)?;
        (!self.leased).then_some(queue)
    }

    /// When its pause expires, if it is in one that does.
    #[must_use]
    pub fn pause_expires_at(&self, machine: &Machine) -> Option<Timestamp> {
        let allowed = machine.pause_expires(&self.state).filter(|_| !self.abandoned);
        allowed.map(|allowed| self.entered_at.plus(allowed))
    }

    /// From when on it counts as stuck, if its state may not last for ever.
    #[must_use]
    pub fn stuck_at(&self, machine: &Machine) -> Option<Timestamp> {
        let allowed = machine.stuck_after(&self.state).filter(|_| !self.has_ended(machine));
        allowed.map(|allowed| self.entered_at.plus(allowed))
    }
}

/// When a state is due that begins at this time.
pub(super) fn due_at(machine: &Machine, state: &str, from: Timestamp) -> Option<Timestamp> {
    if let Some(allowed) = machine.pause_expires(state) {
        return Some(from.plus(allowed));
    }
    let action = machine.action(state)?;
    match action.performer.as_ref()? {
        Performer::Code | Performer::Call(_) => Some(from),
        // The time of a worker begins when it leases the attempt.
        Performer::Worker { .. } => action.queue_timeout.map(|wait| from.plus(wait)),
    }
}
