//! Reading sagas back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backstitch_kernel::saga::{Definition, Draft, State};
use backstitch_kernel::{SagaId, Timestamp};

use crate::error::Error;
use crate::registry::Registered;
use crate::runtime::Shared;
use crate::store::documents::SAGA;
use crate::store::{self, Corrupt, Stored, Summary};
use crate::view::SagaState;

/// A saga as it stands, whether or not its definition is registered here.
pub(crate) async fn load(shared: &Shared, saga: SagaId) -> Result<Option<SagaState>, Error> {
    let Some(stored) = shared.store.load(&[saga]).await?.into_iter().next() else {
        return Ok(None);
    };
    read(shared, &stored).await.map(Some)
}

/// Up to `limit` sagas that have been active since before this time with nothing due, longest first. What those wait for
/// that this process has is known here; a short wait, or the time of an attempt, is not in the row, which would be written
/// for it twice. What it has and cannot drive waits for nothing, however often it was taken up meanwhile. What another
/// process has that lives is told there.
pub(crate) async fn stuck(shared: &Shared, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
    let mut still = shared.active.still(since, shared.options.clock.now(), limit);
    still.extend(shared.run_queue.since(since, limit));
    let still: HashMap<SagaId, Timestamp> = still.into_iter().map(|(from, saga)| (saga, from)).collect();
    let stalled = shared.stalled.first(limit).into_iter().filter(|stalled| stalled.since <= since);
    let stalled: HashMap<SagaId, Timestamp> = stalled.map(|it| (it.saga, it.since)).collect();
    let ours: HashSet<SagaId> = still.keys().chain(stalled.keys()).copied().collect();
    let rows = rows(shared, &Vec::from_iter(ours)).await?;
    let rows = rows.into_iter().filter(|row| !row.status.is_terminal() && !row.paused);
    let ours = rows.filter_map(|row| {
        let still = still.get(&row.id).filter(|_| row.updated_at <= since);
        Some((*still.into_iter().chain(stalled.get(&row.id)).min()?, row))
    });
    let mut stuck: Vec<(Timestamp, Summary)> = ours.collect();
    stuck.extend(shared.store.stuck(since, limit).await?.into_iter().map(|row| (row.updated_at, row)));
    stuck.sort_by_key(|(from, row)| (*from, row.id));
    let mut told = HashSet::new();
    stuck.retain(|(_, row)| told.insert(row.id));
    stuck.truncate(limit);
    Ok(stuck.into_iter().map(|(_, row)| row).collect())
}

/// The rows of these sagas that can be read. One that cannot is one that cannot be driven: that is told with its reason.
async fn rows(shared: &Shared, sagas: &[SagaId]) -> Result<Vec<Summary>, store::Error> {
    let together = shared.store.rows(sagas).await;
    if !matches!(together, Err(store::Error::Corrupt(_))) {
        return together;
    }
    let mut found = Vec::new();
    for saga in sagas {
        match shared.store.rows(&[*saga]).await {
            Ok(row) => found.extend(row),
            Err(store::Error::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn read(shared: &Shared, stored: &Stored) -> Result<SagaState, Error> {
    let (definition, state) = folded(shared, stored).await?;
    Ok(SagaState::of(stored.summary.id, definition.as_ref(), &state))
}

/// A saga's definition and state; none when there is no such saga.
pub(crate) async fn state(shared: &Shared, saga: SagaId) -> Result<Option<(Found, State)>, Error> {
    let Some(stored) = shared.store.load(&[saga]).await?.into_iter().next() else { return Ok(None) };
    folded(shared, &stored).await.map(Some)
}

/// A definition, from here or from the store.
pub(crate) enum Found {
    Registered(Arc<Registered>),
    Kept(Definition),
}

impl AsRef<Definition> for Found {
    fn as_ref(&self) -> &Definition {
        match self {
            Self::Registered(registered) => &registered.definition,
            Self::Kept(kept) => kept,
        }
    }
}

async fn folded(shared: &Shared, stored: &Stored) -> Result<(Found, State), Error> {
    let row = &stored.summary;
    let definition = match registered_alike(shared, &row.definition, row.version).await? {
        Some(registered) => Found::Registered(registered),
        None => Found::Kept(kept_definition(shared, stored).await?),
    };
    let state = State::fold(definition.as_ref(), &stored.log).map_err(|misfit| corrupt(stored, &misfit))?;
    Ok((definition, state))
}

/// What is registered here under this version, if it is what the store keeps under it.
async fn registered_alike(
    shared: &Shared,
    name: &str,
    version: u32,
) -> Result<Option<Arc<Registered>>, Error> {
    let Some(registered) = shared.registry.version(name, version) else { return Ok(None) };
    match registered.keep(&*shared.store).await {
        Ok(()) => Ok(Some(registered)),
        Err(Error::VersionTaken { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn kept_definition(shared: &Shared, stored: &Stored) -> Result<Definition, Error> {
    let row = &stored.summary;
    let kept = shared.store.document_version(SAGA, &row.definition, Some(row.version)).await?;
    let kept = kept.ok_or_else(|| corrupt(stored, &"its definition is not kept"))?;
    let draft: Draft = kept.body.decode().map_err(|why| corrupt(stored, &why))?;
    draft.check().map_err(|problems| corrupt(stored, &problems))
}

fn corrupt(stored: &Stored, why: &impl ToString) -> Error {
    store::Error::from(Corrupt::of("saga_events", "data", stored.summary.id, why)).into()
}
