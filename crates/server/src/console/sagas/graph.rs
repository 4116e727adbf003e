//! The steps of a saga and what depends on what, drawn.

use backstitch::Insight;

use crate::console::drawing::{Drawing, Spot};
use crate::console::parts::step_look;

const TOLD: &str = "Steps and what they depend on; the table below says the same in words";

/// Nothing where there are too many steps to be seen.
pub(super) fn drawn(insight: &Insight) -> Option<Drawing> {
    let spots = insight.saga.steps.iter().map(|step| {
        let (word, shape, mood) = step_look(step.status);
        Spot { name: step.id.to_string(), word: word.to_owned(), shape, mood, place: None }
    });
    let steps = insight.steps.iter().enumerate();
    let edges = steps.flat_map(|(to, step)| step.depends_on.iter().map(move |&from| (from, to)));
    Drawing::of(TOLD, spots.collect(), &edges.collect::<Vec<_>>())
}
