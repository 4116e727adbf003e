//! Taking up a failed rollback again, as a person decided.

use std::sync::Arc;

use backstitch_kernel::saga::state::Misfit;
use backstitch_kernel::saga::{Decision, Definition, Input, Now, Resolution, State, decide};
use backstitch_kernel::{SagaId, StepId};

use crate::error::Error;
use crate::runtime::{Circumstances, Launch, Seat, Shared, plan};
use crate::start::check_note;
use crate::store::{self, Verdict};

pub(crate) async fn resolve(
    shared: &Arc<Shared>,
    saga: SagaId,
    seen: Option<u64>,
    step: &str,
    action: Resolution,
    note: &str,
) -> Result<(), Error> {
    check_note(note)?;
    if note.trim().is_empty() {
        return Err(Error::NoteMissing);
    }
    let stored = shared.store.load(&[saga]).await?.into_iter().next().ok_or(Error::NotFound(saga))?;
    let row = &stored.summary;
    let definition = shared
        .registry
        .version(&row.definition, row.version)
        .ok_or_else(|| Error::UnknownDefinition(format!("{} version {}", row.definition, row.version)))?;
    definition.keep(&*shared.store).await?;
    let state = State::fold(&definition.definition, &stored.log).map_err(|misfit| refused(&misfit))?;
    // What is appended follows what was folded, so that nothing comes between this and the decision.
    if seen.is_some_and(|seen| seen != state.seq) {
        return Err(Error::Raced(saga));
    }
    let now = Now { at: shared.options.clock.now(), hold: shared.is_stopping() };
    let input = Input::Resolve { step: StepId::from(step), action, note: note.to_owned() };
    let decided = decide(&definition.definition, saga, &state, input, now);
    let decision = decided.map_err(|why| Error::Rejected { saga, why })?;
    let mut decision = by_itself(&definition.definition, &state, decision)?;
    let epoch = shared.epoch();
    let on = Circumstances {
        saga,
        definition: &definition,
        announced: &shared.options.announced,
        before: Some(&state),
        epoch,
        inbox_seen: stored.inbox_seq,
        inbox_answered: (!stored.inbox.is_empty()).then_some(stored.inbox_seq),
        inbox_waiting: false,
        after_all_mail: false,
        release_after: shared.options.release_after,
        busy: now.hold,
    };
    let planned = plan(&on, &mut decision, Vec::new(), None);
    // A full engine still accepts: the saga then waits for its turn.
    let slot = shared.slots.clone().try_acquire_owned().ok();
    let seat = Seat::take(shared, saga).ok_or(Error::Raced(saga))?;
    let inbox_seen = stored.inbox_seq;
    let launch =
        Launch { seat, definition, decision, planned, epoch, inbox_seen, slot, reserved: Vec::new() };
    match launch.commit(shared).await? {
        Verdict::Applied => Ok(()),
        _ => Err(Error::Raced(saga)),
    }
}

/// The row of a failed rollback may change to `compensating` and to nothing else, so the resolution is written by
/// itself; what follows from it, be it the end, is the next decision.
fn by_itself(definition: &Definition, state: &State, mut decision: Decision) -> Result<Decision, Error> {
    decision.events.truncate(1);
    decision.effects.clear();
    decision.state = state.clone();
    for recorded in &decision.events {
        decision.state.append(definition, recorded).map_err(|misfit| refused(&misfit))?;
    }
    Ok(decision)
}

fn refused(misfit: &Misfit) -> store::Error {
    store::Error::Refused(format!("the log does not fit the definition: {misfit}"))
}
