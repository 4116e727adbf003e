//! A saga with what its definition says about it: for whoever wants to see how it hangs together.

use backstitch_kernel::saga::{Definition, Performer, Preview, preview};
use backstitch_kernel::{SagaId, StepId, Timestamp};

use crate::error::Error;
use crate::inspect;
use crate::runtime::Shared;
use crate::view::SagaState;

/// A saga as it stands, how its steps depend on each other, and what a cancel would undo.
#[derive(Clone, Debug)]
pub struct Insight {
    /// As it stands.
    pub saga: SagaState,
    /// The number of its newest event.
    pub seq: u64,
    /// What the definition calls itself, if it says.
    pub title: Option<String>,
    /// Its steps as they are declared, in the order of [`SagaState::steps`].
    pub steps: Vec<StepPlan>,
    /// What a cancel would undo now; none where there is nothing to cancel.
    pub rollback: Option<Preview>,
    /// When the next attempt is due that waits for its time.
    pub next_attempt: Option<Timestamp>,
}

/// A step as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Its id.
    pub id: StepId,
    /// What it calls itself, if it says.
    pub title: Option<String>,
    /// The places of those that must have succeeded before it, in the order of the definition.
    pub depends_on: Vec<usize>,
    /// Whether it can be undone.
    pub undoable: bool,
    /// Who performs it, in a word or two.
    pub performer: String,
}

impl StepPlan {
    fn all_of(definition: &Definition) -> Vec<Self> {
        let drafts = &definition.draft().steps;
        let steps = definition.steps().iter().zip(drafts);
        steps
            .map(|(step, draft)| Self {
                id: step.id.clone(),
                title: draft.title.clone(),
                depends_on: step.depends_on.clone(),
                undoable: step.compensation.is_some(),
                performer: match &draft.action {
                    Performer::Code => "code".to_owned(),
                    Performer::Call(_) => "HTTP call".to_owned(),
                    Performer::Worker { queue } => format!("worker of {queue}"),
                },
            })
            .collect()
    }
}

pub(crate) async fn load(shared: &Shared, saga: SagaId) -> Result<Option<Insight>, Error> {
    let Some((found, state)) = inspect::state(shared, saga).await? else { return Ok(None) };
    let definition = found.as_ref();
    Ok(Some(Insight {
        saga: SagaState::of(saga, definition, &state),
        seq: state.seq,
        title: definition.draft().title.clone(),
        steps: StepPlan::all_of(definition),
        rollback: preview(definition, saga, &state),
        next_attempt: state.next_attempt(),
    }))
}
