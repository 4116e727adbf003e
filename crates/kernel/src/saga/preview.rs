//! Previews a cancel: makes its decisions without committing them.

use super::decide::decide;
use super::definition::Definition;
use super::event::{Event, Phase};
use super::input::{Input, Now, Outcome};
use super::state::State;
use crate::id::{SagaId, StepId};
use crate::payload::Payload;

/// An upper bound of decisions per step of a rollback.
const DECISIONS_A_STEP: usize = 8;

/// The effect of a cancel now, if every running attempt took effect and every compensation succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Running steps: they are awaited first, and undone too if they take effect or may have.
    pub awaited: Vec<StepId>,
    /// Steps that are undone, in the order in which their compensations begin.
    pub undone: Vec<StepId>,
    /// Steps that took effect, or may have, without a compensation: they stay.
    pub kept: Vec<StepId>,
}

/// The effect of a cancel; `None` for a saga that has ended or is rolling back.
#[must_use]
pub fn preview(definition: &Definition, saga: SagaId, state: &State) -> Option<Preview> {
    let now = Now::at(state.at);
    let mut play = Play { definition, saga, state: state.clone(), begun: Vec::new() };
    if state.paused {
        // A paused saga undoes nothing until it is resumed.
        play.say(Input::Resume { note: String::new() }, Now { draining: true, ..now })?;
    }
    play.say(Input::Cancel { note: String::new() }, now)?;
    let steps = || definition.steps().iter();
    let awaited = steps().zip(&play.state.steps).filter(|(_, of)| of.forward.in_flight());
    let awaited = awaited.map(|(step, _)| step.id.clone()).collect();
    for _ in 0..DECISIONS_A_STEP * definition.steps().len() {
        let Some(input) = play.next_answer() else { break };
        play.say(input, now)?;
    }
    let took_effect = steps().zip(&play.state.steps).filter(|(_, of)| of.may_have_happened());
    let kept = took_effect.filter(|(step, _)| step.compensation.is_none()).map(|(step, _)| step.id.clone());
    Some(Preview { awaited, kept: kept.collect(), undone: play.begun })
}

/// A simulated saga.
struct Play<'a> {
    definition: &'a Definition,
    saga: SagaId,
    state: State,
    /// The steps whose compensations have begun, in this order.
    begun: Vec<StepId>,
}

impl Play<'_> {
    fn say(&mut self, input: Input, now: Now) -> Option<()> {
        let decision = decide(self.definition, self.saga, &self.state, input, now).ok()?;
        self.begun.extend(decision.events.iter().filter_map(|recorded| match &recorded.event {
            Event::StepCompensating { step, attempt: 1, .. } => Some(step.clone()),
            _ => None,
        }));
        self.state = decision.state;
        Some(())
    }

    /// The next simulated result: running attempts first, then compensations in order.
    fn next_answer(&self) -> Option<Input> {
        if self.state.status.is_terminal() {
            return None;
        }
        let actions = self.definition.steps().iter().map(|step| (&step.id, Phase::Do));
        let compensations = self.begun.iter().map(|step| (step, Phase::Undo));
        let found = actions.chain(compensations).find_map(|(step, phase)| {
            let of = self.state.steps[self.definition.position(step)?].phase(phase);
            of.in_flight().then(|| Input::Finished {
                step: step.clone(),
                phase,
                attempt: of.attempts,
                outcome: Outcome::Succeeded(Payload::null()),
            })
        });
        Some(found.unwrap_or(Input::Wake))
    }
}
