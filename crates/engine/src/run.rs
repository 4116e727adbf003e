//! A saga that was started, from the outside.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Event, Recorded, Status};
use futures::Stream;
use tokio::sync::watch;

use crate::error::Error;
use crate::runtime::{ActiveSaga, End, Shared};
use crate::store::{self, Corrupt};
use crate::view::SagaState;
use crate::watch::SagaLog;

/// A saga to wait for, watch and steer. It goes on whether or not anybody holds this. It keeps the store open: a file can
/// be opened by another engine once the last one is dropped.
///
/// ```
/// # use backstitch::{Context, Engine, Saga, Step};
/// use futures::StreamExt;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::in_memory().await?;
/// # engine.register(Saga::builder("purchase").step(Step::new("a", |_: Context<u32>| async { Ok(()) })).build()?)?;
/// let run = engine.start("purchase", &3).await?;
/// let mut events = Box::pin(run.events());
/// let mut names = Vec::new();
/// while let Some(recorded) = events.next().await {
///     names.push(recorded?.event.name());
/// }
/// assert_eq!(names, ["saga.started", "step.started", "step.succeeded", "saga.succeeded"]);
/// assert!(run.outcome().await?.succeeded());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Run {
    shared: Arc<Shared>,
    id: SagaId,
    definition: Arc<str>,
    /// How this process came to be done with it, if it runs here.
    end: Option<watch::Receiver<Option<End>>>,
    accepted: Option<Arc<Accepted>>,
}

/// A start as it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The definition's name.
    pub definition: Arc<str>,
    /// The version that the saga keeps.
    pub version: u32,
    /// Where it stood at that moment.
    pub status: Status,
}

impl Run {
    pub(crate) fn watching(shared: Arc<Shared>, id: SagaId, active: &ActiveSaga, accepted: Accepted) -> Self {
        let definition = accepted.definition.clone();
        Self { shared, id, definition, end: Some(active.end()), accepted: Some(accepted.into()) }
    }

    pub(crate) fn of(shared: Arc<Shared>, id: SagaId, definition: Arc<str>) -> Self {
        let end = shared.active.get(id).map(|active| active.end());
        Self { shared, id, definition, end, accepted: None }
    }

    /// The saga with this id, if there is one.
    pub(crate) async fn find(shared: &Arc<Shared>, id: SagaId) -> Result<Self, Error> {
        let recent = shared.active.get(id).and_then(|active| active.log().beginning());
        let beginning = match recent {
            Some(beginning) => Some(beginning),
            None => shared.store.log(id, 0, 1).await?.into_iter().next(),
        };
        match beginning.map(|beginning| beginning.event) {
            Some(Event::SagaStarted(started)) => {
                Ok(Self::of(shared.clone(), id, started.definition.as_str().into()))
            }
            Some(other) => {
                let why = format!("it begins with {}", other.name());
                Err(store::Error::from(Corrupt::of("saga_events", "data", id, &why)).into())
            }
            None => Err(Error::NotFound(id)),
        }
    }

    /// The saga's id.
    #[must_use]
    pub fn id(&self) -> SagaId {
        self.id
    }

    /// The name of its definition.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// What has just been started, without a look into the store; `None` for a saga that was there before.
    #[must_use]
    pub fn accepted(&self) -> Option<&Accepted> {
        self.accepted.as_deref()
    }

    /// Waits until the saga is at its end: succeeded, compensated, or failed for a person to look at.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn outcome(mut self) -> Result<SagaState, Error> {
        loop {
            if let Some(end) = &mut self.end
                && let Ok(end) = end.wait_for(Option::is_some).await
                && let Some(End::Final(definition, state)) = &*end
                // A failed rollback may have been taken up again since.
                && state.status != Status::Failed
            {
                return Ok(SagaState::of(self.id, &definition.definition, state));
            }
            // It goes on elsewhere or later. Watched before it is read, so that nothing is missed in between.
            let watcher = self.shared.watchers.watch(self.id);
            let state = crate::inspect::load(&self.shared, self.id).await?.ok_or(Error::NotFound(self.id))?;
            if state.status.is_terminal() {
                return Ok(state);
            }
            self.end = self.shared.active.get(self.id).map(|active| active.end());
            if self.end.is_none() {
                watcher.beyond(state.seq).await?;
            }
        }
    }

    /// The saga's newest event.
    ///
    /// # Errors
    /// When the store cannot be read, or the saga has been removed.
    pub async fn newest_event(&self) -> Result<Recorded, Error> {
        let (store, gone) = (&self.shared.store, || Error::NotFound(self.id));
        let heads = store.heads(&[self.id]).await?;
        let newest = heads.first().ok_or_else(gone)?.seq;
        store.log(self.id, newest - 1, 1).await?.into_iter().next().ok_or_else(gone)
    }

    /// The saga's events from the first one on, as they happen; ends after the one that ends the saga, or with an error
    /// when the engine is shut down before.
    pub fn events(&self) -> impl Stream<Item = Result<Recorded, Error>> + Send + use<> {
        self.events_after(0)
    }

    /// The saga's events after number `seq`: exactly those missing, none twice.
    pub fn events_after(&self, seq: u64) -> impl Stream<Item = Result<Recorded, Error>> + Send + use<> {
        let log = SagaLog { shared: self.shared.clone(), saga: self.id };
        self.shared.watchers.follow(self.id, log, seq)
    }
}
