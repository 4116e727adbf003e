//! Reading sagas back.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Definition, Draft, State};

use crate::error::Error;
use crate::registry::Registered;
use crate::runtime::Shared;
use crate::store::{self, Corrupt, Stored};
use crate::view::SagaState;

/// A saga as it stands, whether or not its definition is registered here.
pub(crate) async fn load(shared: &Shared, saga: SagaId) -> Result<Option<SagaState>, Error> {
    let Some(stored) = shared.store.load(&[saga]).await?.into_iter().next() else {
        return Ok(None);
    };
    read(shared, &stored).await.map(Some)
}

async fn read(shared: &Shared, stored: &Stored) -> Result<SagaState, Error> {
    let row = &stored.summary;
    let registered = registered_alike(shared, &row.definition, row.version).await?;
    let kept;
    let definition = if let Some(registered) = &registered {
        &registered.definition
    } else {
        kept = kept_definition(shared, stored).await?;
        &kept
    };
    let state = State::fold(definition, &stored.log).map_err(|misfit| corrupt(stored, &misfit))?;
    Ok(SagaState::of(row.id, definition, &state))
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
    let kept = shared.store.definition(&row.definition, Some(row.version)).await?;
    let kept = kept.ok_or_else(|| corrupt(stored, &"its definition is not kept"))?;
    let draft: Draft = kept.body.decode().map_err(|why| corrupt(stored, &why))?;
    draft.check().map_err(|problems| corrupt(stored, &problems))
}

fn corrupt(stored: &Stored, why: &impl ToString) -> Error {
    store::Error::from(Corrupt::of("saga_events", "data", stored.summary.id, why)).into()
}
