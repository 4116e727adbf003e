//! Simulated services that respect idempotency keys, and a ledger of their calls.

use std::collections::BTreeMap;

use backstitch_kernel::StepId;
use backstitch_kernel::saga::Phase;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Made {
    /// The step.
    pub step: StepId,
    /// Action or compensation.
    pub phase: Phase,
    /// The attempt.
    pub attempt: u32,
}

/// The services' state of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// How often the action took effect; more than once means that the key was ignored.
    applied: u32,
    /// Whether it was undone. A service that was asked to undo refuses later actions, even if none arrived before.
    undone: bool,
}

/// Every call, and the remaining effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    made: Vec<Made>,
    entries: BTreeMap<StepId, Entry>,
}

impl Ledger {
    /// Records a call.
    pub(super) fn call(&mut self, made: Made) {
        self.made.push(made);
    }

    /// Applies a call's effect.
    pub(super) fn take_effect(&mut self, step: &StepId, phase: Phase) {
        let entry = self.entries.entry(step.clone()).or_default();
        match phase {
            Phase::Undo => entry.undone = true,
            Phase::Do if entry.undone || entry.applied > 0 => {}
            Phase::Do => entry.applied = 1,
        }
    }

    /// Every call in order.
    #[must_use]
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// Whether the step's action has an effect that is not undone.
    #[must_use]
    pub fn stands(&self, step: &StepId) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.applied > 0 && !entry.undone)
    }

    /// Whether the step was undone, with or without its action.
    #[must_use]
    pub fn undone(&self, step: &StepId) -> bool {
        self.entries.get(step).is_some_and(|entry| entry.undone)
    }
}
