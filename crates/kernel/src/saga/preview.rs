//! What a cancel would undo: the decisions it would lead to, made now and kept by nobody.

use super::decide::decide;
use super::definition::Definition;
use super::event::{Event, Phase};
use super::input::{Input, Now, Outcome};
use super::state::State;
use crate::id::{SagaId, StepId};
use crate::payload::Payload;

/// Decisions that follow one another at most, for each step: more than any rollback takes that comes to its end.
const DECISIONS_A_STEP: usize = 8;

/// What would become of a saga that was cancelled now, if whatever is in flight took effect and every compensation succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Steps in flight: they are awaited first, and undone too if they take effect or may have.
    pub awaited: Vec<StepId>,
    /// Steps that are undone, in this order.
    pub undone: Vec<StepId>,
    /// Steps that took effect, or would have, and have nothing to undo them: they stay as they are.
    pub kept: Vec<StepId>,
}

/// What a cancel would do; `None` for a saga that is at its end or rolled back already.
#[must_use]
pub fn preview(definition: &Definition, saga: SagaId, state: &State) -> Option<Preview> {
    let now = Now::at(state.at);
    let mut preview = Preview::default();
    let mut state = state.clone();
    if state.paused {
        // Cancelling one that is paused undoes nothing until it goes on.
        state = decide(
            definition,
            saga,
            &state,
            Input::Resume { note: String::new() },
            Now { hold: true, ..now },
        )
        .ok()?
        .state;
    }
    state = decide(definition, saga, &state, Input::Cancel { note: String::new() }, now).ok()?.state;
    for (step, of) in definition.steps().iter().zip(&state.steps) {
        if of.forward.in_flight() {
            preview.awaited.push(step.id.clone());
        }
    }
    for _ in 0..DECISIONS_A_STEP * definition.steps().len() {
        let Some(input) = next_answer(definition, &state) else { break };
        let decision = decide(definition, saga, &state, input, now).ok()?;
        preview.undone.extend(decision.events.iter().filter_map(|recorded| match &recorded.event {
            Event::StepCompensated { step, .. } => Some(step.clone()),
            _ => None,
        }));
        state = decision.state;
    }
    let took_effect = definition.steps().iter().zip(&state.steps).filter(|(_, of)| of.may_have_happened());
    let kept = took_effect.filter(|(step, _)| step.compensation.is_none()).map(|(step, _)| step.id.clone());
    preview.kept = kept.collect();
    Some(preview)
}

/// What somebody would answer next; what was interrupted is begun again first.
fn next_answer(definition: &Definition, state: &State) -> Option<Input> {
    if state.status.is_terminal() {
        return None;
    }
    let mut steps = definition.steps().iter().zip(&state.steps);
    let found = steps.find_map(|(step, of)| {
        let phase = [Phase::Do, Phase::Undo].into_iter().find(|phase| of.phase(*phase).in_flight())?;
        Some(Input::Finished {
            step: step.id.clone(),
            phase,
            attempt: of.phase(phase).attempts,
            outcome: Outcome::Succeeded(Payload::null()),
        })
    });
    Some(found.unwrap_or(Input::Wake))
}
