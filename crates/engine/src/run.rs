//! A saga that was started, from the outside.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Event, Recorded, Status};
use futures::Stream;
use tokio::sync::watch;

use crate::error::Error;
use crate::live::{End, Live, Progress};
use crate::onlookers::Onlooker;
use crate::runtime::Shared;
use crate::store::{self, Corrupt, Head};
use crate::view::SagaState;

/// Events read from the store at once.
const PAGE: usize = 256;

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
    progress: Option<watch::Receiver<Progress>>,
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
    pub(crate) fn watching(shared: Arc<Shared>, id: SagaId, live: &Live, accepted: Accepted) -> Self {
        let definition = accepted.definition.clone();
        Self { shared, id, definition, progress: Some(live.watch()), accepted: Some(accepted.into()) }
    }

    pub(crate) fn of(shared: Arc<Shared>, id: SagaId, definition: Arc<str>) -> Self {
        let progress = shared.live.get(id).map(|live| live.watch());
        Self { shared, id, definition, progress, accepted: None }
    }

    /// The saga with this id, if there is one.
    pub(crate) async fn find(shared: &Arc<Shared>, id: SagaId) -> Result<Self, Error> {
        let recent = shared.live.get(id).and_then(|live| live.tail().beginning());
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
            if let Some(progress) = &mut self.progress
                && let Ok(reached) = progress.wait_for(|progress| progress.end.is_some()).await
                && let Some(End::Final(definition, state)) = &reached.end
                // A failed rollback may have been taken up again since.
                && state.status != Status::Failed
            {
                return Ok(SagaState::of(self.id, &definition.definition, state));
            }
            // It goes on elsewhere or later; look at the log until it is over, or back here.
            let state = crate::inspect::load(&self.shared, self.id).await?.ok_or(Error::NotFound(self.id))?;
            if state.status.is_terminal() {
                return Ok(state);
            }
            self.progress = self.shared.live.get(self.id).map(|live| live.watch());
            if self.progress.is_none() {
                let mut onlooker = Onlooker::of(&self.shared, self.id);
                let head = self.head().await?;
                if !head.status.is_terminal() {
                    self.watched_by(&mut onlooker, head.seq).await?;
                }
            }
        }
    }

    async fn head(&self) -> Result<Head, Error> {
        let heads = self.shared.store.heads(&[self.id]).await?;
        heads.into_iter().next().ok_or(Error::NotFound(self.id))
    }

    /// Waits until the log of a saga that goes on elsewhere, or later, goes further than this.
    async fn watched_by(&self, onlooker: &mut Onlooker, seq: u64) -> Result<(), Error> {
        tokio::select! {
            () = onlooker.beyond(seq) => Ok(()),
            () = self.shared.stopping() => Err(Error::ShuttingDown),
        }
    }

    /// The saga's events from the first one on, as they happen; ends after the one that ends the saga, or with an error
    /// when the engine is shut down before.
    pub fn events(&self) -> impl Stream<Item = Result<Recorded, Error>> + Send + use<> {
        self.events_after(0)
    }

    /// The saga's events after number `seq`: exactly those missing, none twice.
    pub fn events_after(&self, seq: u64) -> impl Stream<Item = Result<Recorded, Error>> + Send + use<> {
        let reader =
            Reader { live: None, run: self.clone(), after: seq, page: Vec::new().into_iter(), over: false };
        futures::stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            let next = reader.next().await.transpose()?;
            // Nothing comes after an error.
            let reader = next.is_ok().then_some(reader);
            Some((next, reader))
        })
    }
}

struct Reader {
    run: Run,
    /// Held on to after the saga has left: it still has the last events.
    live: Option<Arc<Live>>,
    after: u64,
    page: std::vec::IntoIter<Recorded>,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Recorded>, Error> {
        loop {
            if let Some(recorded) = self.page.next() {
                self.after = recorded.seq;
                // A failed rollback that was taken up again has more to say after its end.
                self.over = recorded.event.is_terminal();
                return Ok(Some(recorded));
            }
            let page = match self.recent() {
                Some(recent) => recent,
                None => self.run.shared.store.log(self.run.id, self.after, PAGE).await?,
            };
            if page.is_empty() {
                if self.over {
                    return Ok(None);
                }
                self.wait().await?;
            }
            self.page = page.into_iter();
        }
    }

    /// What this process has just written, if that is all there is after what was read.
    fn recent(&mut self) -> Option<Vec<Recorded>> {
        if self.live.is_none() {
            self.live = self.run.shared.live.get(self.run.id);
        }
        let live = self.live.as_ref()?;
        let ended = live.watch().borrow().end.clone();
        let recent = live.tail().after(self.after)?;
        match ended {
            // It goes on elsewhere, or may be taken up again: the log knows.
            Some(End::LetGo) if recent.is_empty() => None,
            Some(End::Final(_, state)) if recent.is_empty() && state.status == Status::Failed => None,
            _ => Some(recent),
        }
    }

    /// Waits until there may be more; a reader who begins after the end finds out that there is none.
    async fn wait(&mut self) -> Result<(), Error> {
        let shared = &self.run.shared;
        let after = self.after;
        // The one held may have left, and another have come.
        self.live = shared.live.get(self.run.id);
        if let Some(live) = &self.live {
            let mut progress = live.watch();
            let _ = progress.wait_for(|progress| progress.seq > after || progress.end.is_some()).await;
            return Ok(());
        }
        // First watch, then look: what comes in between is told.
        let mut onlooker = Onlooker::of(shared, self.run.id);
        let head = self.run.head().await?;
        if head.seq > after {
            return Ok(());
        }
        self.over = head.status.is_terminal();
        if self.over {
            return Ok(());
        }
        self.run.watched_by(&mut onlooker, after).await
    }
}
