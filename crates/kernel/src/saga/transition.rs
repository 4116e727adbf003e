//! A decision in progress: the new state, and the events that lead to it.

use super::definition::Definition;
use super::event::{Event, Recorded};
use super::input::{Decision, Effect, Now};
use super::state::State;

pub(super) struct Transition<'a> {
    pub(super) definition: &'a Definition,
    pub(super) state: State,
    pub(super) now: Now,
    /// The steps without room, by position: they ask for room instead of starting.
    full: &'a [usize],
    events: Vec<Recorded>,
    effects: Vec<Effect>,
}

impl<'a> Transition<'a> {
    pub(super) fn from(definition: &'a Definition, state: State, now: Now, full: &'a [usize]) -> Self {
        // A log's times never decrease, whatever the clock does.
        let now = Now { at: now.at.max(state.at), ..now };
        Self { definition, state, now, full, events: Vec::new(), effects: Vec::new() }
    }

    /// Adds an event without a step.
    pub(super) fn emit(&mut self, event: Event) {
        self.record(None, event);
    }

    /// Adds an event about the step at this position.
    pub(super) fn emit_at(&mut self, position: usize, event: Event) {
        self.record(Some(position), event);
    }

    fn record(&mut self, position: Option<usize>, event: Event) {
        let recorded = Recorded { seq: self.state.seq + 1, at: self.now.at, event };
        self.state.apply(position, &recorded);
        self.events.push(recorded);
    }

    /// The saga's first event, already applied to the state.
    pub(super) fn recorded_start(&mut self, event: Event) {
        self.events.push(Recorded { seq: 1, at: self.now.at, event });
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Whether this step has no room for an attempt.
    pub(super) fn is_full(&self, position: usize) -> bool {
        self.full.contains(&position)
    }

    pub(super) fn into_decision(self) -> Decision {
        Decision { events: self.events, effects: self.effects, state: self.state }
    }
}
