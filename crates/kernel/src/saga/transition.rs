//! A decision in the making: the state as it will be, and the events that lead there.

use super::definition::Definition;
use super::event::{Event, Recorded};
use super::input::{Decision, Effect, Now};
use super::state::State;

pub(super) struct Transition<'a> {
    pub(super) definition: &'a Definition,
    pub(super) state: State,
    pub(super) now: Now,
    /// Positions of steps for which there is no room: they ask for it instead of starting.
    full: &'a [usize],
    events: Vec<Recorded>,
    effects: Vec<Effect>,
}

impl<'a> Transition<'a> {
    pub(super) fn from(definition: &'a Definition, state: State, now: Now, full: &'a [usize]) -> Self {
        // A log's times never go backwards, whatever the clock does.
        let now = Now { at: now.at.max(state.at), ..now };
        Self { definition, state, now, full, events: Vec::new(), effects: Vec::new() }
    }

    /// Takes up an event that is not about a step.
    pub(super) fn emit(&mut self, event: Event) {
        self.record(None, event);
    }

    /// Takes up an event about the step that stands here.
    pub(super) fn emit_at(&mut self, position: usize, event: Event) {
        self.record(Some(position), event);
    }

    fn record(&mut self, position: Option<usize>, event: Event) {
        let recorded = Recorded { seq: self.state.seq + 1, at: self.now.at, event };
        self.state.apply(position, &recorded);
        self.events.push(recorded);
    }

    /// The saga's first event: the state already holds it.
    pub(super) fn recorded_start(&mut self, event: Event) {
        self.events.push(Recorded { seq: 1, at: self.now.at, event });
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Whether there is no room for an attempt of this step.
    pub(super) fn is_full(&self, position: usize) -> bool {
        self.full.contains(&position)
    }

    pub(super) fn into_decision(self) -> Decision {
        Decision { events: self.events, effects: self.effects, state: self.state }
    }
}
