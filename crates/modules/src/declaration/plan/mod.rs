//! What a definition will do: its steps in the order they run, and what is undone when one of them fails. Nothing here
//! is worked out: every plan is a saga that was played through.

mod rehearsal;
mod text;

use backstitch::kernel::saga::{Definition, Step, StepState};
use backstitch::{Retry, StepError, StepId};
use serde::Serialize;

use rehearsal::Rehearsal;

/// Rollbacks are planned for definitions of up to this many steps; for longer ones it would take long, and nobody would
/// read it.
pub const MAX_PLANNED: usize = 100;

/// What a definition will do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The steps in the order they run; those of one stage run at the same time.
    pub forward: Vec<Vec<StepId>>,
    /// What happens when a step fails, for every step; none for a definition of more than [`MAX_PLANNED`] steps.
    pub rollbacks: Vec<Rollback>,
}

/// What happens when this step fails at the latest moment, when all that does not wait for it has succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rollback {
    /// The step.
    pub step: StepId,
    /// The service said no, so it has done nothing.
    pub said_no: Unwinding,
    /// Nobody knows whether the service has done it: there was no answer in time, or the connection was lost.
    pub in_doubt: Unwinding,
}

/// What becomes of everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unwinding {
    /// The compensations in the order they run; those of one stage run at the same time.
    pub undone: Vec<Vec<StepId>>,
    /// What happened, or may have, and has no compensation.
    pub nothing_to_undo: Vec<StepId>,
    /// What never ran.
    pub never_ran: Vec<StepId>,
}

impl Plan {
    /// Plays the definition through: once without a failure, then with each step failing, in both ways.
    #[must_use]
    pub fn of(definition: &Definition) -> Self {
        let definition = &once_each(definition);
        let mut play = Rehearsal::begin(definition);
        let forward = play.play_on(None);
        let steps = definition.steps();
        let planned = if steps.len() <= MAX_PLANNED { steps } else { &[] };
        let rollbacks = planned.iter().map(|step| Rollback {
            step: step.id.clone(),
            said_no: unwinding(definition, &step.id, StepError::refused("no")),
            in_doubt: unwinding(definition, &step.id, StepError::in_doubt("nobody knows")),
        });
        Self { forward, rollbacks: rollbacks.collect() }
    }
}

/// The same definition without retries: they change when something happens, not what.
fn once_each(definition: &Definition) -> Definition {
    let mut draft = definition.draft().clone();
    for step in &mut draft.steps {
        step.retry = Retry::none();
    }
    draft.check().unwrap_or_else(|_| definition.clone())
}

fn unwinding(definition: &Definition, failing: &StepId, error: StepError) -> Unwinding {
    let mut play = Rehearsal::begin(definition);
    play.play_on(Some(failing));
    play.fail(failing, error);
    let undone = play.play_on(None);
    let everybody = definition.steps().iter().zip(&play.state().steps);
    let ids = |those: fn(&Step, &StepState) -> bool| {
        let those = everybody.clone().filter(|(step, state)| those(step, state));
        those.map(|(step, _)| step.id.clone()).collect()
    };
    Unwinding {
        undone,
        nothing_to_undo: ids(|step, state| step.compensation.is_none() && state.may_have_happened()),
        never_ran: ids(|_, state| state.forward.attempts == 0),
    }
}
