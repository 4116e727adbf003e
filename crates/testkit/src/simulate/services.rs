//! The outside: services that keep to idempotency keys, and a ledger of what they were asked and did.

use std::collections::BTreeMap;

use backstitch_kernel::StepId;
use backstitch_kernel::saga::Phase;

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// The step.
    pub step: StepId,
    /// Action or compensation.
    pub phase: Phase,
    /// Which attempt.
    pub attempt: u32,
}

/// What the services know of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// How often the action took effect; more than once is a service that forgot its key.
    applied: u32,
    /// Whether it was undone. A service that was asked to undo refuses the action from then on, even if the
    /// action never reached it before.
    undone: bool,
}

/// Every call, and what is left of its effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    made: Vec<Made>,
    entries: BTreeMap<StepId, Entry>,
}

impl Ledger {
    /// Notes a call.
    pub(super) fn call(&mut self, made: Made) {
        self.made.push(made);
    }

    /// A call takes effect.
    pub(super) fn take_effect(&mut self, step: &StepId, phase: Phase) {
        let entry = self.entries.entry(step.clone()).or_default();
        match phase {
            Phase::Undo => entry.undone = true,
            Phase::Do if entry.undone || entry.applied > 0 => {}
            Phase::Do => entry.applied = 1,
        }
    }

    /// Every call in the order it was made.
    #[must_use]
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// Whether the step's action has an effect that is not undone.
    #[must_use]
    pub fn stands(&self, step: &StepId) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.applied > 0 && !entry.undone)
    }

    /// Whether the step was undone, be it that it never was done.
    #[must_use]
    pub fn undone(&self, step: &StepId) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.undone)
    }
}
