//! Group commit: while every writer has a transaction on its way to the disk, the next one gathers.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Error;
use crate::planting;
use crate::runtime::guarded;
use crate::store::{self, Commit, Store, Verdict, Writers};

/// The most decisions written as one transaction: enough to drown the cost of a sync, few enough that nobody
/// waits long for its neighbours.
const MAX_BATCH: usize = 512;

/// How often a writer that has a thread of its own looks for the next decision before it sleeps: as long as waking it
/// would take.
const LINGER: usize = 200;

/// How long a lone decision waits for that writer awake: longer than most disks take, so that neither has to be woken.
const AWAKE: Duration = Duration::from_micros(400);

/// How often that writer lets others go first before it writes.
const PLACES_GIVEN_UP: usize = 8;

/// Takes decisions from everywhere and writes them in groups.
#[derive(Clone)]
pub(crate) struct Committer {
    tickets: mpsc::UnboundedSender<Ticket>,
    writers: TaskTracker,
    written: Arc<Written>,
    given_up: CancellationToken,
    /// Decisions that wait for their answer, where there is a thread to wait for and a core to do so on.
    waiting: Option<Arc<AtomicUsize>>,
}

/// How much has been written, and whether the last try failed.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) decisions: AtomicU64,
    pub(crate) transactions: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

/// A write that failed, with none that worked since.
#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) error: Arc<store::Error>,
    pub(crate) at: Instant,
}

impl Written {
    /// Why nothing can be written, as far as is known.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something was written.
    pub(crate) fn worked(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Something other than a decision could not be written, if that is what this says.
    pub(crate) fn failed_with(&self, error: &Error) {
        if let Error::Store(error) = error {
            self.failed(error.clone());
        }
    }

    /// Something could not be written.
    pub(crate) fn failed(&self, error: Arc<store::Error>) {
        let failure = Failure { error, at: Instant::now() };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
}

/// A decision, back from the writer, and what became of it.
pub(crate) struct Answer {
    pub(crate) commit: Commit,
    pub(crate) verdict: Result<Verdict, Arc<store::Error>>,
}

/// The engine has stopped: nothing is written any more, and what was under way may or may not have been.
pub(crate) struct Stopped;

#[expect(
    clippy::large_enum_variant,
    reason = "commits are the rule: a box for each would cost more than the room"
)]
enum Ticket {
    Commit(Commit, oneshot::Sender<Answer>),
    Close,
}

impl Committer {
    /// Starts writing. A store that works on the calling thread gets one of its own.
    pub(crate) fn start(store: &Arc<dyn Store>) -> Result<Self, store::Error> {
        let (tickets, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        let written = Arc::new(Written::default());
        let writers = TaskTracker::new();
        let given_up = CancellationToken::new();
        let write = || {
            let writing = write(store.clone(), queue.clone(), written.clone());
            given_up.clone().run_until_cancelled_owned(writing)
        };
        match store.writers() {
            Writers::OwnThread => {
                let (writing, present) = (write(), writers.token());
                std::thread::Builder::new()
                    .name("backstitch-commit".to_owned())
                    .spawn(move || {
                        futures::executor::block_on(writing);
                        drop(present);
                    })
                    .map_err(|why| store::Error::Unavailable(format!("no thread for the writer: {why}")))?;
            }
            Writers::Tasks(count) => {
                for _ in 0..count.max(1) {
                    writers.spawn(write());
                }
            }
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let waits_awake = store.writers() == Writers::OwnThread && cores > 1;
        Ok(Self { tickets, writers, written, given_up, waiting: waits_awake.then(Arc::default) })
    }

    /// Writes what is waiting and lets go of the store; whatever comes later is refused. What the store does not answer
    /// within this time has no answer: it may or may not have been written.
    pub(crate) async fn close(&self, within: Duration) {
        // Either way it is closed: now, or by somebody else before.
        let _ = self.tickets.send(Ticket::Close);
        self.writers.close();
        if tokio::time::timeout(within, self.writers.wait()).await.is_err() {
            tracing::warn!(
                "the store does not answer: decisions on their way are looked up in the log next time"
            );
            self.given_up.cancel();
        }
    }

    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// Writes a decision; answers once it is on disk, or known not to be.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Answer, Stopped> {
        let (answer, mut answered) = oneshot::channel();
        self.tickets.send(Ticket::Commit(commit, answer)).map_err(|_| Stopped)?;
        if let Some(waiting) = &self.waiting {
            let _present = Present::among(waiting);
            stay_awake(waiting, &mut answered).await;
            return answered.await.map_err(|_| Stopped);
        }
        answered.await.map_err(|_| Stopped)
    }
}

/// One of those who wait.
struct Present<'a>(&'a AtomicUsize);

impl<'a> Present<'a> {
    fn among(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for an answer without sleeping, as long as nobody else waits and it is likely to come.
async fn stay_awake(waiting: &AtomicUsize, answered: &mut oneshot::Receiver<Answer>) {
    let until = Instant::now() + AWAKE;
    while answered.is_empty() && waiting.load(Ordering::Relaxed) == 1 && Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

async fn write(
    store: Arc<dyn Store>,
    queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Ticket>>>,
    written: Arc<Written>,
) {
    let lingers = store.writers() == Writers::OwnThread;
    let mut tickets = Vec::with_capacity(MAX_BATCH);
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut answers = Vec::with_capacity(MAX_BATCH);
    let mut late_messages = Vec::new();
    loop {
        {
            let mut queue = queue.lock().await;
            if lingers {
                linger(&queue);
                gather(&queue);
            }
            if queue.recv_many(&mut tickets, MAX_BATCH).await == 0 {
                return;
            }
            if tickets.iter().any(|ticket| matches!(ticket, Ticket::Close)) {
                queue.close();
            }
        }
        for ticket in tickets.drain(..) {
            if let Ticket::Commit(commit, answer) = ticket {
                batch.push(commit);
                answers.push(answer);
            }
        }
        if batch.is_empty() {
            continue;
        }
        planting::put_off_messages(&mut batch, &mut late_messages);
        // Whatever broke down in the middle, nobody knows what it wrote, and the next ones are to be written all the same.
        let written_so_far = AssertUnwindSafe(store.commit(&batch)).catch_unwind().await;
        let verdicts =
            written_so_far.unwrap_or_else(|panic| Err(broken_down(panic.as_ref()))).map_err(Arc::new);
        if let Ok(verdicts) = &verdicts {
            let applied = verdicts.iter().filter(|verdict| **verdict == Verdict::Applied).count();
            written.decisions.fetch_add(applied as u64, Ordering::Relaxed);
            written.transactions.fetch_add(1, Ordering::Relaxed);
            written.worked();
        }
        let verdicts: Vec<_> = match verdicts {
            Ok(verdicts) => verdicts.into_iter().map(Ok).collect(),
            Err(error) => {
                written.failed(error.clone());
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for ((commit, verdict), answer) in batch.drain(..).zip(verdicts).zip(answers.drain(..)) {
            // Nobody listening is no mistake: whoever asked has stopped meanwhile, and the log has the decision.
            let _ = answer.send(Answer { commit, verdict });
        }
    }
}

fn broken_down(panic: &(dyn Any + Send)) -> store::Error {
    let why = guarded::text(panic);
    tracing::error!(why, "the store broke down while it wrote");
    store::Error::Unavailable(format!("the store broke down while it wrote: {why}"))
}

/// Waits a moment without sleeping: whoever has just been answered often decides again at once, and to be woken for
/// that costs a lone saga more than writing it down.
fn linger(queue: &mpsc::UnboundedReceiver<Ticket>) {
    for _ in 0..LINGER {
        if !queue.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Lets those who are about to decide do so: on a busy machine they wait for this thread's place, and what they write
/// together costs little more than what one of them writes alone.
fn gather(queue: &mpsc::UnboundedReceiver<Ticket>) {
    let mut waiting = queue.len();
    // A few times only: on a busy machine each may take a while, and the first one waits for all of them.
    for _ in 0..PLACES_GIVEN_UP {
        if waiting == 0 || waiting >= MAX_BATCH {
            return;
        }
        std::thread::yield_now();
        let more = queue.len();
        if more == waiting {
            return;
        }
        waiting = more;
    }
}
