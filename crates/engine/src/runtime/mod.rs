//! The runtime: one executor for each active saga, and a few loops that find work.

mod active_sagas;
mod adoption;
mod arriving;
pub(crate) mod attempts;
pub(crate) mod catch_panic;
pub(crate) mod executor;
pub(crate) mod failpoints;
mod hooks;
mod liveness;
mod room;
mod run_queue;
mod shutdown;
pub(crate) mod signal;
mod stalled;
mod store_backoff;
mod supervisor;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, watch};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::{TaskTrackerToken, TrackedFuture};
use uuid::Uuid;

use crate::clock::NeverBack;
use crate::limit::LimitScope;
use crate::options::Options;
use crate::outbox::{Publisher, start_publisher};
use crate::registry::Registry;
use crate::retention::Areas;
use crate::store::nodes::{Epoch, Node, Notice};
use crate::store::{self, Store};
use crate::watch::{EventReaders, Polls, Watchers};
use crate::work::Desks;

use active_sagas::ActiveSagas;
pub(crate) use active_sagas::{ActiveSaga, End, RunSlot};
pub use arriving::ArrivingAnswers;
use executor::Committer;
use liveness::Liveness;
pub(crate) use room::{AttemptLimits, Grant};
pub use run_queue::FullLimit;
use run_queue::{RunQueue, Waiter};
use signal::Signal;
pub use stalled::StalledSaga;
use stalled::StalledSagas;
pub(crate) use store_backoff::StoreBackoff;
use supervisor::keep_going;

/// Waits between two looks at a store that does not answer.
const STORE_RETRY: Duration = Duration::from_millis(200);

/// What every part of a running engine shares.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Committer,
    pub(crate) options: Options,
    /// The same as that of the options.
    pub(crate) clock: Arc<NeverBack>,
    pub(crate) registry: Registry,
    pub(crate) active: ActiveSagas,
    /// Readers of the logs of sagas.
    pub(crate) watchers: Arc<Watchers<Recorded>>,
    pub(crate) polls: Polls,
    /// Readers of every event that this process writes.
    pub(crate) event_readers: EventReaders,
    /// Slots of sagas whose attempts run here.
    pub(crate) slots: Arc<Semaphore>,
    /// Places of sagas that wait in memory; those beyond leave a record in the run queue.
    pub(crate) resting: Arc<Semaphore>,
    /// Sagas that this node owns and that wait to run.
    pub(crate) run_queue: RunQueue,
    /// Sagas that this node owns and cannot execute.
    pub(crate) stalled: StalledSagas,
    pub(crate) liveness: Liveness,
    pub(crate) adoption: Signal,
    pub(crate) jobs: Signal,
    pub(crate) outbox: Arc<Signal>,
    pub(crate) publisher: Publisher,
    /// A declared definition was applied somewhere.
    pub(crate) definitions: Signal,
    /// Answers of outside workers that are being written.
    pub(crate) arriving: ArrivingAnswers,
    /// There may be work for outside workers.
    pub(crate) work: Arc<Notify>,
    /// Whose work it may be, beside that of sagas.
    pub(crate) desks: Desks,
    /// What is removed once it is old enough.
    pub(crate) areas: Areas,
    pub(crate) counters: Counters,
    node: Node,
    epoch: AtomicI64,
    phase: watch::Sender<Phase>,
    /// The loops that find work.
    loops: TaskTracker,
    /// Everything that runs beside the loops: the store is closed only once it is gone.
    tasks: TaskTracker,
}

/// Where an engine is in its life; it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// Nothing new starts; what is in flight goes on.
    Draining,
    /// Everything is dropped, once the store has answered what it was asked.
    Stopped,
    /// The store is not waited for any more either.
    Abandoned,
}

/// Things worth counting that leave no event.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) stale_answers: AtomicU64,
    pub(crate) fenced: AtomicU64,
}

impl Shared {
    /// Joins the nodes of this store and starts the loops.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        options: Options,
        clock: Arc<NeverBack>,
    ) -> Result<Arc<Self>, store::Error> {
        // Before anything is decided by it.
        clock.follow(store.clock()).await?;
        let node =
            Node { name: options.node.clone(), lease: options.lease, announced: options.announced.clone() };
        let joined = std::time::Instant::now();
        let epoch = store.join(&node).await?;
        let committer = Committer::start(&store)?;
        let (outbox, tasks) = (Arc::default(), TaskTracker::new());
        let publisher = start_publisher(&store, &options, &outbox, &tasks)?;
        // Before anything runs, so that a failure here leaves nothing running.
        let notices = store.listen().await?;
        let polls = Polls::default();
        let watchers = polls.add();
        let shared = Arc::new(Self {
            liveness: Liveness::new(store.is_shared().then_some(options.lease), joined),
            slots: Arc::new(Semaphore::new(options.max_active)),
            resting: Arc::new(Semaphore::new(options.max_active)),
            run_queue: RunQueue::new(options.clock.clone()),
            event_readers: EventReaders::default(),
            registry: Registry::new(options.host_share()),
            active: ActiveSagas::new(watchers.clone()),
            watchers,
            polls,
            stalled: StalledSagas::default(),
            adoption: Signal::default(),
            jobs: Signal::default(),
            outbox,
            publisher,
            definitions: Signal::default(),
            arriving: ArrivingAnswers::default(),
            work: Arc::default(),
            desks: Desks::default(),
            areas: Areas::of(&store, &options.retention),
            counters: Counters::default(),
            epoch: AtomicI64::new(epoch),
            phase: watch::Sender::new(Phase::Running),
            loops: TaskTracker::new(),
            tasks,
            store,
            committer,
            options,
            clock,
            node,
        });
        shared.start_loops(notices);
        Ok(shared)
    }

    fn start_loops(self: &Arc<Self>, notices: Option<mpsc::Receiver<Notice>>) {
        keep_going(self, "adoption", adoption::adopt_what_is_due);
        keep_going(self, "run queue", adoption::run_queued);
        keep_going(self, "hooks", hooks::call_hooks);
        keep_going(self, "relay", crate::outbox::relay);
        keep_going(self, "retention", crate::retention::keep_pruning);
        keep_going(self, "watch", crate::watch::poll_idle_logs);
        // Also on a store that is not shared: the caller that applied a version or posted a message may have gone before it
        // notified the engine.
        keep_going(self, "definitions", crate::definitions::keep_following);
        keep_going(self, "inboxes", adoption::poll_inboxes);
        if self.store.is_shared() {
            keep_going(self, "heartbeat", liveness::keep_alive);
            keep_going(self, "clock", liveness::follow_clock);
        }
        if let Some(notices) = notices {
            // A loop that is started again goes on with what its channel still holds.
            let notices = Arc::new(Mutex::new(notices));
            keep_going(self, "notices", move |shared| adoption::heed(shared, notices.clone()));
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether nothing new is to start.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Whether executors drop everything.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.phase.borrow() >= Phase::Stopped
    }

    /// Waits until nothing new is to start.
    pub(crate) async fn stopping(&self) {
        // The sender is part of this very value, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::Draining).await;
    }

    /// Waits until everything is to be dropped.
    pub(crate) async fn stopped(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::Stopped).await;
    }

    /// Waits until the store is not waited for any more.
    async fn abandoned(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Abandoned).await;
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
        self.publisher.refuse_new();
        self.active.wake_all();
        self.polls.close();
        self.adoption.wake();
        self.jobs.wake();
        self.outbox.wake();
        self.definitions.wake();
        self.work.notify_waiters();
    }

    /// Starts nothing new; what is in flight goes on.
    pub(crate) fn drain(&self) {
        self.enter_phase(Phase::Draining);
    }

    /// Drops everything; the store is left as it is.
    pub(crate) fn stop(&self) {
        self.enter_phase(Phase::Stopped);
    }

    /// A message for this saga is durable: has it read.
    pub(crate) fn inbox_changed(&self, saga: SagaId) {
        match self.active.get(saga) {
            Some(active) => active.wake_for_inbox(),
            None if self.run_queue.wake(saga) => {}
            None => self.adoption.wake(),
        }
    }

    /// A saga that this node owns is stalled until the sweep tries it again.
    fn cannot_execute(&self, saga: SagaId, why: String) {
        tracing::error!(%saga, why, "saga stalled: it cannot be executed");
        // While it waited for room, the sweep would take it for one that is executed.
        self.run_queue.forget_room(saga);
        self.stalled.note(saga, why, self.options.clock.now());
    }

    /// Whether the store answers a read of a saga that does not exist. If it does not, no saga is to blame for a read that
    /// fails.
    async fn answers_about_sagas(&self) -> bool {
        let asked = self.store.load(&[SagaId(Uuid::nil())]).await;
        !matches!(asked, Err(store::Error::Unavailable(_)))
    }

    /// The limits for whose room attempts wait.
    pub(crate) fn full_limits(&self) -> Vec<FullLimit> {
        let mut full = self.run_queue.full_limits();
        // A saga that has just been queued is about to get one of those that are free.
        let are_slots_free = self.slots.available_permits() > 0;
        full.retain(|full| full.scope != LimitScope::Slots || !are_slots_free);
        for full in full.iter_mut().filter(|full| full.scope == LimitScope::Slots) {
            full.held_by = self.holds_most_slots();
        }
        full
    }

    /// The host or step whose attempts hold most of the slots; `None` where those of unlimited steps do. A saga counts once
    /// for each, however many of its attempts run at once.
    fn holds_most_slots(&self) -> Option<LimitScope> {
        let mut limited: HashMap<LimitScope, usize> = HashMap::new();
        let mut unlimited = 0;
        for scopes in self.active.slot_holders() {
            unlimited += usize::from(scopes.is_empty());
            for scope in scopes {
                *limited.entry(scope).or_default() += 1;
            }
        }
        // Of a host and its step the host is named: its name is less.
        let (scope, most) =
            limited.into_iter().max_by_key(|(scope, most)| (*most, Reverse(scope.clone())))?;
        (most >= unlimited).then_some(scope)
    }

    /// Runs something beside the loops.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// The same for what is spawned elsewhere.
    pub(crate) fn tracked<F: Future>(&self, work: F) -> TrackedFuture<F> {
        self.tasks.track_future(work)
    }

    /// The same for a runtime that spawns many.
    pub(crate) fn task_tracker(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Held by a loop that has something in flight which a shutdown is to wait for.
    pub(crate) fn busy(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// Whether anything is in flight: sagas, hooks or messages.
    pub(crate) fn is_busy(&self) -> bool {
        self.active.count() > 0 || !self.tasks.is_empty()
    }
}
