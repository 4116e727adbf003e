//! The expected outcome of a saga with scripted services.

use std::collections::BTreeMap;

use backstitch_kernel::saga::{Definition, Input, Now, Outcome, Phase, Status};
use backstitch_kernel::{ErrorKind, Payload, StepError, Timestamp};

use super::{Flight, FlightPerformer, Oracle, Prediction};

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It succeeds.
    Succeed,
    /// No effect; may be retried.
    Fail,
    /// The service refuses.
    Refuse,
    /// The connection is lost after the call was sent.
    Doubt,
    /// No response in time.
    TimeOut,
    /// The executing node or outside worker disappears.
    Crash,
}

impl Behaviour {
    /// The input for the saga.
    #[must_use]
    pub fn outcome(self) -> Option<Outcome> {
        let kind = match self {
            Self::Succeed => return Some(Outcome::Succeeded(Payload::null())),
            Self::Crash => return None,
            Self::Fail => ErrorKind::Failed,
            Self::Refuse => ErrorKind::Refused,
            Self::Doubt => ErrorKind::InDoubt,
            Self::TimeOut => ErrorKind::TimedOut,
        };
        Some(Outcome::Failed(StepError::new(kind, format!("{self:?}"))))
    }
}

/// The result of every attempt of every step, by step id; attempts beyond the lists succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Attempts of actions, in order.
    pub actions: BTreeMap<String, Vec<Behaviour>>,
    /// Attempts of compensations, in order.
    pub compensations: BTreeMap<String, Vec<Behaviour>>,
}

impl Script {
    /// The result of this attempt, counted from 1.
    #[must_use]
    pub fn behaviour(&self, step: &str, phase: Phase, attempt: u32) -> Behaviour {
        let tries = match phase {
            Phase::Do => self.actions.get(step),
            Phase::Undo => self.compensations.get(step),
        };
        let nth = usize::try_from(attempt).unwrap_or(usize::MAX).saturating_sub(1);
        tries.and_then(|tries| tries.get(nth)).copied().unwrap_or(Behaviour::Succeed)
    }
}

/// The outcome if every attempt ends before the next one that started after it. For a sequence of steps no other order
/// exists, so
/// the prediction holds for any timing.
#[must_use]
pub fn predict(definition: &Definition, script: &Script) -> Prediction {
    let mut now = Now::at(Timestamp::default());
    let mut oracle = Oracle::start(definition, None, now);
    while !oracle.status().is_terminal() {
        let is_queued = |flight: &&Flight| matches!(flight.performer, FlightPerformer::Queue(_));
        let input = if let Some(&Flight { step, phase, .. }) = oracle.flying.iter().find(is_queued) {
            // Workers lease at once.
            let attempt = oracle.steps[step].count(phase);
            Input::Leased { step: definition.steps()[step].id.clone(), phase, attempt, at: now.at }
        } else if let Some(&Flight { step, phase, performer }) = oracle.flying.first() {
            let id = definition.steps()[step].id.clone();
            let attempt = oracle.steps[step].count(phase);
            match (script.behaviour(id.as_str(), phase, attempt), performer) {
                (Behaviour::Crash | Behaviour::TimeOut, FlightPerformer::Worker(until)) => {
                    now.at = now.at.max(until);
                    Input::Wake
                }
                (behaviour, _) => match behaviour.outcome() {
                    Some(outcome) => Input::Finished { step: id, phase, attempt, outcome },
                    None => Input::Adopted { node: String::new(), epoch: 0 },
                },
            }
        } else if let Some(step) = oracle.asking_for_room().first() {
            Input::Admitted { step: definition.steps()[*step].id.clone() }
        } else {
            now.at = oracle.next_due().unwrap_or(now.at);
            Input::Wake
        };
        if !oracle.take(now, &input) {
            debug_assert_eq!(oracle.status(), Status::Failed, "{input:?}");
            break;
        }
    }
    oracle.prediction()
}
