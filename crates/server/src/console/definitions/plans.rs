//! What a definition will do: its steps as a drawing, and what is undone from each of them.

use backstitch::kernel::saga::{Definition, Performer};
use backstitch_modules::declaration::{Plan, Unwinding};

use crate::console::drawing::{Drawing, Spot};
use crate::console::parts::Mood;
use crate::problem::Problem;

const TOLD: &str = "Steps and what they depend on; the table below says the same in words";

/// The steps and what depends on what; nothing where there are too many to be seen.
pub(super) fn drawn(definition: &Definition) -> Option<Drawing> {
    let steps = || definition.steps().iter().enumerate();
    let spots = steps().zip(&definition.draft().steps).map(|((_, step), draft)| {
        let word = match &draft.action {
            Performer::Code => "code".to_owned(),
            Performer::Call(_) => "HTTP call".to_owned(),
            Performer::Worker { queue } => format!("worker of {queue}"),
        };
        let shape = if step.compensation.is_some() { "↶" } else { "·" };
        Spot { name: step.id.to_string(), word, shape, mood: Mood::Quiet, place: None }
    });
    let edges = steps().flat_map(|(to, step)| step.depends_on.iter().map(move |&from| (from, to)));
    Drawing::of(TOLD, spots.collect(), &edges.collect::<Vec<_>>())
}

/// What happens when a step fails, in words.
pub(super) struct Rollback {
    pub(super) step: String,
    pub(super) said_no: String,
    pub(super) in_doubt: String,
}

/// The steps in the order they run, and every rollback.
pub(super) async fn planned(definition: Definition) -> Result<(Vec<String>, Vec<Rollback>), Problem> {
    // Played through step by step, which takes a moment for long ones.
    let plan = tokio::task::spawn_blocking(move || Plan::of(&definition)).await;
    let plan = plan.map_err(|_| Problem::internal())?;
    let forward = plan
        .forward
        .iter()
        .map(|stage| stage.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "));
    let rollbacks = plan.rollbacks.iter().map(|rollback| Rollback {
        step: rollback.step.to_string(),
        said_no: Unwinding::to_string(&rollback.said_no),
        in_doubt: Unwinding::to_string(&rollback.in_doubt),
    });
    Ok((forward.collect(), rollbacks.collect()))
}
