//! The engine: the one thing a program holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, Resolution};
use futures::{Stream, StreamExt};
use serde::Serialize;

use crate::clock::{Clock, Ids, NeverBack};
use crate::definitions;
use crate::error::Error;
use crate::event_handlers::{self, EventSubscription};
use crate::inbox::{Message, Posted};
use crate::insight::{self, Insight};
use crate::inspect;
use crate::options::Options;
use crate::outbox::{Announced, NoSuchEvent, Routes};
use crate::retention::{Area, Report};
use crate::run::Run;
use crate::runtime::executor;
use crate::runtime::{FullLimit, Shared, StalledSaga};
use crate::saga::Saga;
use crate::start::{Starting, check_note};
use crate::store::nodes::Known;
use crate::store::outbox::Ages;
use crate::store::parked::{ParkedFilter, ParkedItem};
use crate::store::product::Database;
use crate::store::{self, Counts, Cursor, Filter, Health, Page, Store, Summary};
use crate::stuck_steps;
use crate::view::SagaState;
use crate::watch::{EventReaders, Gap, LogEvent, SagaEvent, Watchers};

/// Sagas active for longer than this with nothing due are called stuck, unless another threshold is given.
pub const STUCK_AFTER: Duration = Duration::from_secs(600);
/// How long after a write that failed another one is tried to find out whether that is over.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Stuck sagas listed at most.
const STUCK_LISTED: usize = 100;

/// Runs sagas. Cloning gives another handle to the same engine; when the last one is dropped the engine stops,
/// and what was under way is taken up again by the next one that opens the store.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Decisions written.
    pub decisions: u64,
    /// Transactions they were written in.
    pub transactions: u64,
    /// Answers that came after their attempt had been given up, and were ignored.
    pub stale_answers: u64,
    /// Decisions refused because somebody else had the saga by then.
    pub fenced: u64,
}

struct Inner {
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Engine {
    /// Opens the store at this address: `sqlite:PATH` or `postgres://…`.
    ///
    /// # Errors
    /// When there is no such store, or it cannot be opened.
    pub async fn open(address: &str) -> Result<Self, Error> {
        Self::open_with(address, Options::default()).await
    }

    /// The same with settings.
    ///
    /// # Errors
    /// When there is no such store, or it cannot be opened.
    pub async fn open_with(address: &str, mut options: Options) -> Result<Self, Error> {
        let clock = NeverBack::over(options.clock);
        options.clock = clock.clone();
        let store = open_store(address, &options).await?;
        Self::run_on(store, options, clock).await
    }

    /// An engine on a `SQLite` database in memory: fast, and gone with the process.
    ///
    /// # Errors
    /// When there is not enough memory.
    #[cfg(feature = "sqlite")]
    pub async fn in_memory() -> Result<Self, Error> {
        Self::in_memory_with(Options::default()).await
    }

    /// The same with settings.
    ///
    /// # Errors
    /// When the options are wrong, or the tables of a product cannot be made.
    #[cfg(feature = "sqlite")]
    pub async fn in_memory_with(mut options: Options) -> Result<Self, Error> {
        let clock = NeverBack::over(options.clock);
        options.clock = clock.clone();
        let store = store::sqlite::SqliteStore::in_memory_with(clock.clone(), &options.products)?;
        Self::run_on(Arc::new(store), options, clock).await
    }

    /// An engine on a store that is open already.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn on_store(store: Arc<dyn Store>, mut options: Options) -> Result<Self, Error> {
        let clock = NeverBack::over(options.clock);
        options.clock = clock.clone();
        Self::run_on(store, options, clock).await
    }

    async fn run_on(store: Arc<dyn Store>, options: Options, clock: Arc<NeverBack>) -> Result<Self, Error> {
        options.check()?;
        let shared = Shared::start(store, options, clock).await?;
        let engine = Self { inner: Arc::new(Inner { shared }) };
        definitions::follow(engine.shared()).await?;
        Ok(engine)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The database behind this engine, for products that keep tables of their own there
    /// ([`Options::products`](crate::Options::products)).
    #[must_use]
    pub fn database(&self) -> Database<'_> {
        self.shared().store.database()
    }

    /// The store behind this engine. Whatever the engine itself holds, such as its sink, keeps a weak reference only:
    /// the store is let go with the last handle to the engine.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared().store
    }

    /// How far the machine's clock is from that of the store; nothing where the store has none of its own. Deadlines and
    /// timers go by the store's clock either way.
    #[must_use]
    pub fn clock_skew(&self) -> Duration {
        self.shared().clock.skew()
    }

    /// The clock that this engine goes by, for products that write times beside its own. On a store that has a clock of
    /// its own it shows the time of that clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared().options.clock
    }

    /// Where this engine's ids come from, for products that need some too.
    #[must_use]
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.shared().options.ids
    }

    /// Where messages of each topic go, for products that write some with rows of their own.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.shared().options.routes
    }

    /// What this process is called, for products whose nodes know of each other.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.shared().node().name
    }

    /// Makes a saga known to this engine. Sagas of it that nobody runs are taken up at once.
    ///
    /// What the saga and its steps do not say is as [`Options::defaults`] says.
    ///
    /// # Errors
    /// When this name and version is registered already.
    pub fn register(&self, saga: Saga) -> Result<(), Error> {
        let saga = saga.with_defaults(&self.shared().options.defaults)?;
        self.shared().registry.add(saga)?;
        self.shared().adoption.wake();
        Ok(())
    }

    /// Starts a saga of the newest registered version, or of the active one if it is declared. Once this is awaited, the
    /// saga is on disk.
    pub fn start<T: Serialize + ?Sized>(&self, definition: &str, input: &T) -> Starting {
        Starting::new(self.shared().clone(), definition, input)
    }

    /// Looks at once for sagas that are due and nobody's, such as those started in a transaction that has just been
    /// committed. Without it they are found within the tick.
    pub fn look_for_work(&self) {
        self.shared().adoption.wake();
    }

    /// A saga that was started before, here or elsewhere.
    ///
    /// # Errors
    /// When there is none of this id, or the store cannot be read.
    pub async fn find(&self, saga: SagaId) -> Result<Run, Error> {
        Run::find(self.shared(), saga).await
    }

    /// Everything about a saga as it stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(&self, saga: SagaId) -> Result<Option<SagaState>, Error> {
        inspect::load(self.shared(), saga).await
    }

    /// The same with how its steps depend on each other, and what a cancel would undo now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn insight(&self, saga: SagaId) -> Result<Option<Insight>, Error> {
        insight::load(self.shared(), saga).await
    }

    /// Up to `limit` events of a saga after number `after`, as they stand in its log.
    ///
    /// # Errors
    /// When there is no such saga, or the store cannot be read.
    pub async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        let page = self.shared().store.log(saga, after, limit).await?;
        if page.is_empty() {
            self.find(saga).await?;
        }
        Ok(page)
    }

    /// Sagas that match, newest first, a page at a time.
    ///
    /// ```
    /// use backstitch::{Cursor, Engine, Filter, Status};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), backstitch::Error> {
    /// # let engine = Engine::in_memory().await?;
    /// let failed = Filter { status: Some(Status::Failed), ..Filter::default() };
    /// let page = engine.list(&failed, &Cursor { before: None, limit: 50 }).await?;
    /// assert!(page.items.is_empty() && page.next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        Ok(stuck_steps::list(&*self.shared().store, filter, cursor).await?)
    }

    /// How the sagas are doing: what is active, what has been stuck for longer than `stuck_after`
    /// ([`STUCK_AFTER`] is a good choice), and what waits for a definition that is not registered here.
    ///
    /// ```
    /// use backstitch::{Engine, STUCK_AFTER};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), backstitch::Error> {
    /// # let engine = Engine::in_memory().await?;
    /// let health = engine.health(STUCK_AFTER).await?;
    /// assert!(health.stuck.is_empty() && health.unregistered.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn health(&self, stuck_after: Duration) -> Result<Health, Error> {
        let known = self.runnable().await;
        let Counts { active, unregistered } = self.shared().store.counts(&known).await?;
        Ok(Health { active, stuck: self.stuck(stuck_after).await?, unregistered })
    }

    /// The sagas that have been stuck for longer than this, longest first and at most a hundred: active with nothing due,
    /// neither a time nor a next try nor the end of an attempt's time, or [not to be driven](Self::stalled). Of several
    /// processes on one store each tells of its own and of those that nobody has who lives. No log is read for it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stuck(&self, stuck_after: Duration) -> Result<Vec<Summary>, Error> {
        inspect::stuck(self.shared(), self.clock().now().minus(stuck_after), STUCK_LISTED).await
    }

    /// The sagas that this process owns and cannot drive, each with its reason, longest first and at most a hundred: their log
    /// cannot be read or does not fit the definition, for one. They are tried again every few seconds.
    #[must_use]
    pub fn stalled(&self) -> Vec<StalledSaga> {
        self.shared().stalled.first(STUCK_LISTED)
    }

    /// The hosts and steps for whose room attempts wait in this process, and the slots if sagas wait for one.
    #[must_use]
    pub fn full_limits(&self) -> Vec<FullLimit> {
        self.shared().full_limits()
    }

    /// The definitions whose sagas this engine can run.
    pub async fn runnable(&self) -> Vec<Known> {
        let shared = self.shared();
        shared.registry.runnable(&*shared.store).await.known
    }

    /// How long messages have waited that are not out yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn outbox_ages(&self) -> Result<Ages, Error> {
        Ok(self.shared().store.outbox_ages().await?)
    }

    /// Whether the store answers within a few seconds; with `commits`, whether a small commit is durable by then. A store
    /// that is a part of this process always answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn probe(&self, commits: bool) -> Result<(), Error> {
        Ok(self.shared().store.probe(commits).await?)
    }

    /// Whether decisions can be written, as far as is known without writing any. Where the last one could not be, a write
    /// that leaves nothing behind is tried, every two seconds at most.
    ///
    /// # Errors
    /// Why nothing can be written: the disk is full, for one.
    pub async fn writable(&self) -> Result<(), Error> {
        let shared = self.shared();
        shared.store.check_identity()?;
        if let Some(error) = shared.liveness.refusal() {
            return Err(error.into());
        }
        let written = shared.committer.written();
        let Some(failure) = written.failure() else { return Ok(()) };
        if failure.at.elapsed() < TRIED_AGAIN_AFTER {
            return Err(failure.error.into());
        }
        match shared.store.try_writing(shared.epoch()).await {
            Ok(true) => {
                written.worked();
                Ok(())
            }
            // Nobody knows this process any more, so nothing was written.
            Ok(false) => Err(failure.error.into()),
            Err(error) => {
                let error = Arc::new(error);
                written.failed(error.clone());
                Err(error.into())
            }
        }
    }

    /// Everything that happens in this process, as it happens, with the record of its saga. A reader that falls behind gets
    /// what it missed from the log, in order and none of it twice.
    pub fn events(&self) -> impl Stream<Item = Arc<SagaEvent>> + Send + use<> {
        self.events_and_gaps().filter_map(|event| {
            let event = event.inspect_err(|gap| {
                tracing::warn!(missed = gap.missed, "events are gone before their reader came to them");
            });
            std::future::ready(event.ok())
        })
    }

    /// The same for a reader that wants to know of events that it cannot get any more.
    pub fn events_and_gaps(&self) -> impl Stream<Item = Result<Arc<SagaEvent>, Gap>> + Send + use<> {
        let reader = EventReaders::reader(self.shared(), Announced::all(), false);
        futures::stream::unfold(reader, |mut reader| async move {
            let next = reader.next().await?;
            Some((next, reader))
        })
    }

    /// Readers of logs that a product keeps in this engine's store. The engine polls for what other nodes append to them.
    #[must_use]
    pub fn watchers<E: LogEvent>(&self) -> Arc<Watchers<E>> {
        self.shared().polls.add()
    }

    /// Calls a handler for every event of this name that happens in this process from now on: a name as in
    /// [`Event::name`](crate::Event::name), or its beginning and a `*`. It gets the event with the
    /// [record](SagaEvent::record) of its saga.
    ///
    /// Calls of one handler follow each other in the order of the events; a handler that is slow misses nothing and holds up
    /// neither sagas nor other handlers. One that panics, or takes longer than a minute, is called again for the next event.
    /// [`Engine::shutdown`] waits for handlers as it does for sagas. Where something must follow from an event even though
    /// the process dies, use [`Builder::on_success`](crate::Builder::on_success), a step, or [`Options::announced`].
    ///
    /// ```
    /// use backstitch::{Context, Engine, Saga, Step};
    /// # use std::sync::{Arc, Mutex};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::in_memory().await?;
    /// # engine.register(Saga::builder("purchase").step(Step::new("a", |_: Context<u32>| async { Ok(()) })).build()?)?;
    /// # let seen = Arc::new(Mutex::new(Vec::new()));
    /// # let noted = seen.clone();
    /// let handler = engine.on("saga.*", move |event| {
    /// #   noted.lock().unwrap().push(event.recorded.event.name());
    ///     println!("{} is {} since {}", event.saga, event.record().status, event.recorded.event.name());
    ///     async {}
    /// })?;
    /// engine.start("purchase", &3).await?.outcome().await?;
    /// # while seen.lock().unwrap().len() < 2 { tokio::task::yield_now().await; }
    /// handler.unsubscribe();
    /// assert!(engine.on("saga.done", |_| async {}).is_err()); // there is no such event
    /// # assert_eq!(*seen.lock().unwrap(), ["saga.started", "saga.succeeded"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When no event has such a name.
    pub fn on<F, Fut>(&self, name: &str, handler: F) -> Result<EventSubscription, NoSuchEvent>
    where
        F: Fn(Arc<SagaEvent>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Ok(event_handlers::subscribe(self.shared(), Announced::matching([name])?, handler))
    }

    /// Asks a saga to roll back. `Ok` means that the request is on disk and will be answered; a saga that had
    /// already finished by then stays finished.
    ///
    /// # Errors
    /// When there is no such saga, or it is at its end.
    pub async fn cancel(&self, saga: SagaId, note: &str) -> Result<(), Error> {
        check_note(note)?;
        self.post(saga, Message::Cancel { note: note.to_owned() }).await
    }

    /// Asks a saga to start nothing new until it is resumed. What is in flight finishes; deadlines run on.
    ///
    /// # Errors
    /// When there is no such saga, or it is at its end.
    pub async fn pause(&self, saga: SagaId, note: &str) -> Result<(), Error> {
        check_note(note)?;
        self.post(saga, Message::Pause { note: note.to_owned() }).await
    }

    /// Lets a paused saga go on.
    ///
    /// # Errors
    /// When there is no such saga, or it is at its end.
    pub async fn resume(&self, saga: SagaId, note: &str) -> Result<(), Error> {
        check_note(note)?;
        self.post(saga, Message::Resume { note: note.to_owned() }).await
    }

    async fn post(&self, saga: SagaId, message: Message) -> Result<(), Error> {
        let shared = self.shared();
        match shared.store.post(saga, &message, shared.options.clock.now()).await? {
            Posted::Accepted => {}
            Posted::Unknown => return Err(Error::NotFound(saga)),
            Posted::Ended(status) => return Err(Error::Ended { saga, status }),
        }
        shared.inbox_changed(saga);
        Ok(())
    }

    /// Decides about a compensation that could not be finished: try it again, leave it undone, or take it as done
    /// by hand. The saga then goes on rolling back; one that is paused does so once it is resumed. Needs its
    /// definition registered here.
    ///
    /// # Errors
    /// When there is no such saga, its rollback has not failed, or that step is not the one that is stuck.
    pub async fn resolve(
        &self,
        saga: SagaId,
        step: &str,
        action: Resolution,
        note: &str,
    ) -> Result<(), Error> {
        executor::resolve(self.shared(), saga, None, step, action, note).await
    }

    /// The same for whoever has seen the saga up to the event with this number: if anything has happened to it since,
    /// nothing is done.
    ///
    /// # Errors
    /// Like [`Engine::resolve`], and [`Error::Raced`] when it has moved on.
    pub async fn resolve_as_seen(
        &self,
        saga: SagaId,
        seq: u64,
        step: &str,
        action: Resolution,
        note: &str,
    ) -> Result<(), Error> {
        executor::resolve(self.shared(), saga, Some(seq), step, action, note).await
    }

    /// What this process has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        Stats {
            decisions: shared.committer.applied(),
            transactions: shared.committer.written().groups(),
            stale_answers: shared.counters.stale_answers.load(Ordering::Relaxed),
            fenced: shared.counters.fenced.load(Ordering::Relaxed),
        }
    }

    /// Removes what is old enough in these areas of a product, too.
    pub fn prune_with(&self, areas: impl IntoIterator<Item = Area>) {
        self.shared().areas.add(areas);
    }

    /// Has those of these items that are parked tried again by their next batch. This node looks for them within a second;
    /// other nodes, and retention that another node runs, at their usual intervals. Answers with the items; none if what is
    /// named is not parked.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        let shared = self.shared();
        let retried = shared.store.retry_parked(filter).await?;
        shared.areas.look_again();
        shared.adoption.wake();
        Ok(retried)
    }

    /// What this process has removed because it was over for long enough.
    #[must_use]
    pub fn removed(&self) -> Report {
        self.shared().areas.report()
    }

    /// Sagas that this process has under way.
    #[must_use]
    pub fn active(&self) -> usize {
        self.shared().active.count()
    }

    /// Stops: nothing new starts, what is in flight gets the grace period to finish, and the rest is handed to
    /// whoever opens the store next. Nothing is lost. The store is let go with the last handle to this engine.
    ///
    /// A store that never answers holds this up for the grace period and some seconds, no longer.
    ///
    /// # Errors
    /// When the store cannot be written or does not answer; the sagas are then taken up once the lease is over.
    pub async fn shutdown(self) -> Result<(), Error> {
        let shared = self.shared();
        shared.drain();
        let over = tokio::time::Instant::now() + shared.options.grace;
        while (shared.is_busy() || shared.event_readers.holds_up_shutdown())
            && tokio::time::Instant::now() < over
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        shared.stop();
        Ok(shared.wind_up().await?)
    }
}

async fn open_store(address: &str, options: &Options) -> Result<Arc<dyn Store>, store::Error> {
    #[cfg(feature = "sqlite")]
    if let Some(path) = address.strip_prefix("sqlite:") {
        let path = std::path::PathBuf::from(path);
        let (clock, products) = (options.clock.clone(), options.products.clone());
        let opened = tokio::task::spawn_blocking(move || {
            store::sqlite::SqliteStore::open_with(&path, clock, &products)
        })
        .await;
        let opened = opened.map_err(|why| store::Error::Unavailable(why.to_string()))?;
        return Ok(Arc::new(opened?));
    }
    #[cfg(feature = "postgres")]
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let store =
            store::postgres::PostgresStore::connect_in(address, &options.schema, &options.products).await?;
        return Ok(Arc::new(store.knowing(&options.other_schemas)));
    }
    Err(store::Error::bad_address(address))
}
