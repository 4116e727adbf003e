//! Group commit: while every writer has a group on its way to the disk, the next one gathers.

mod pace;
mod spin;
mod written;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::runtime::catch_panic;
use crate::store::isolation::{Isolable, Outcome, Part, isolate};
use crate::store::{self, Writers};

pub use pace::Pace;
pub use written::Written;

/// Writes groups of items.
pub trait GroupWriter: Clone + Send + Sync + 'static {
    /// What is written.
    type Item: Send + Sync + 'static;
    /// What the store says about one item that is written.
    type Answer: Send + 'static;

    /// Items of one group at most: enough to drown the cost of a sync, few enough that no item waits long for others.
    const MAX_ITEMS: usize = 256;
    /// A group of so many bytes takes no more items: a statement is held in memory on both sides.
    const MAX_BYTES: usize = 8 << 20;
    /// Whether a group that is refused or rejected is written in halves, so that each refused item fails alone.
    const ISOLATES: bool = false;

    /// About how large an item is; a writer that does not say has no limit of bytes.
    #[must_use]
    fn bytes(_: &Self::Item) -> usize {
        0
    }

    /// Changes a group before it is written; failpoints do.
    fn prepare(&mut self, _: &mut [Self::Item]) {}

    /// Writes these items as one transaction. Returns an answer for each, in their order.
    fn write(
        &self,
        items: &[Self::Item],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, store::Error>> + Send;
}

/// An item, back from its writer, and what became of it.
pub struct ItemResult<T, R> {
    /// The item.
    pub item: T,
    /// An error of the store is about the whole group: what was written is unknown. With
    /// [isolation](GroupWriter::ISOLATES) it may be about this item, which is not written then.
    pub result: Result<R, Arc<store::Error>>,
}

/// Nothing is written any more. An item that was on its way may or may not have been written.
#[derive(Debug)]
pub struct Closed;

/// Why an item was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// Nothing is written any more.
    Closed,
    /// What the store says, about the item or about its group.
    Store(Arc<store::Error>),
}

impl From<NotWritten> for crate::Error {
    fn from(why: NotWritten) -> Self {
        match why {
            NotWritten::Closed => Self::ShuttingDown,
            NotWritten::Store(why) => Self::Store(why),
        }
    }
}

enum Ticket<T, R> {
    Write(T, oneshot::Sender<ItemResult<T, R>>),
    Close,
}

/// Takes items from everywhere and writes them in groups, until it is closed or dropped.
#[derive(Clone)]
pub struct GroupCommit<T, R> {
    tickets: mpsc::UnboundedSender<Ticket<T, R>>,
    writers: TaskTracker,
    given_up: CancellationToken,
    written: Arc<Written>,
    /// Callers that wait for their answer, where the writer has a thread of its own and a core to run on.
    waiting: Option<Arc<AtomicUsize>>,
}

impl<T: Send + Sync + 'static, R: Send + 'static> GroupCommit<T, R> {
    /// Starts the writers. Tasks begin their groups at this pace; a thread of its own writes without a pause.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        writer: &impl GroupWriter<Item = T, Answer = R>,
        writers: Writers,
        pace: Pace,
    ) -> Result<Self, store::Error> {
        let (tickets, receiver) = mpsc::unbounded_channel();
        let queue = Queue { tickets: receiver, taken: Vec::new(), not_before: Instant::now() };
        let queue = Arc::new(Mutex::new(queue));
        let written = Arc::new(Written::default());
        let pace = Arc::new(pace);
        let (tracker, given_up) = (TaskTracker::new(), CancellationToken::new());
        let write = || {
            let writing = write_groups(writer.clone(), writers, pace.clone(), queue.clone(), written.clone());
            given_up.clone().run_until_cancelled_owned(writing)
        };
        match writers {
            Writers::OwnThread => {
                let (writing, running) = (write(), tracker.token());
                std::thread::Builder::new()
                    .name("backstitch-commit".to_owned())
                    .spawn(move || {
                        futures::executor::block_on(writing);
                        drop(running);
                    })
                    .map_err(|why| store::Error::Unavailable(format!("no thread for the writer: {why}")))?;
            }
            Writers::Tasks(count) => {
                for _ in 0..count.max(1) {
                    tracker.spawn(write());
                }
            }
        }
        let waiting = spin::is_worth_it(writers).then(Arc::default);
        Ok(Self { tickets, writers: tracker, given_up, written, waiting })
    }

    /// Writes an item; it is durable when this returns.
    ///
    /// # Errors
    /// When it is not written, or its outcome is unknown.
    pub async fn write(&self, item: T) -> Result<R, NotWritten> {
        let written = self.write_and_return(item).await.map_err(|Closed| NotWritten::Closed)?;
        written.result.map_err(NotWritten::Store)
    }

    /// The same; the item comes back with the result.
    ///
    /// # Errors
    /// When nothing is written any more.
    pub async fn write_and_return(&self, item: T) -> Result<ItemResult<T, R>, Closed> {
        let (answer, mut answered) = oneshot::channel();
        self.tickets.send(Ticket::Write(item, answer)).map_err(|_| Closed)?;
        if let Some(waiting) = &self.waiting {
            let _waiter = spin::Waiter::among(waiting);
            spin::stay_awake(waiting, &mut answered).await;
            return answered.await.map_err(|_| Closed);
        }
        answered.await.map_err(|_| Closed)
    }

    /// What has been written, and whether the newest group failed.
    #[must_use]
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Writes what is waiting; what comes later is refused.
    pub fn refuse_new(&self) {
        // Without a receiver it is closed already.
        let _ = self.tickets.send(Ticket::Close);
    }

    /// Refuses new items, writes what is waiting and ends the writers. Returns whether the store answered within this
    /// time: otherwise what is on its way may or may not be written.
    pub async fn close(&self, within: Duration) -> bool {
        self.refuse_new();
        self.writers.close();
        let is_done = tokio::time::timeout(within, self.writers.wait()).await.is_ok();
        if !is_done {
            self.given_up.cancel();
        }
        is_done
    }
}

/// Items that wait, shared by the writers.
struct Queue<T, R> {
    tickets: mpsc::UnboundedReceiver<Ticket<T, R>>,
    /// Received, and too large for the group before.
    taken: Vec<Ticket<T, R>>,
    /// When the next group may begin.
    not_before: Instant,
}

type Answers<T, R> = Vec<oneshot::Sender<ItemResult<T, R>>>;

async fn write_groups<W: GroupWriter>(
    mut writer: W,
    writers: Writers,
    pace: Arc<Pace>,
    queue: Arc<Mutex<Queue<W::Item, W::Answer>>>,
    written: Arc<Written>,
) {
    let mut group = Vec::with_capacity(W::MAX_ITEMS);
    let mut answers = Vec::with_capacity(W::MAX_ITEMS);
    while next_group::<W>(&mut *queue.lock().await, writers, &pace, &mut group, &mut answers).await {
        if group.is_empty() {
            continue;
        }
        writer.prepare(&mut group);
        let began = Instant::now();
        let results = write_group(&writer, &group, &written).await;
        pace.record(began);
        for ((item, result), answer) in group.drain(..).zip(results).zip(answers.drain(..)) {
            // A caller that has gone is no error: the item is written all the same.
            let _ = answer.send(ItemResult { item, result });
        }
    }
}

/// Gathers the next group; `false` once nothing comes any more.
async fn next_group<W: GroupWriter>(
    queue: &mut Queue<W::Item, W::Answer>,
    writers: Writers,
    pace: &Pace,
    group: &mut Vec<W::Item>,
    answers: &mut Answers<W::Item, W::Answer>,
) -> bool {
    let Queue { tickets, taken, not_before } = queue;
    match writers {
        Writers::OwnThread => spin::gather(tickets, W::MAX_ITEMS),
        Writers::Tasks(_) if pace.is_unlimited() => {}
        Writers::Tasks(_) => tokio::time::sleep_until(*not_before).await,
    }
    if taken.is_empty() && tickets.recv_many(taken, W::MAX_ITEMS).await == 0 {
        return false;
    }
    *not_before = pace.next(Instant::now());
    let mut bytes = 0_usize;
    let fits = |ticket: &&Ticket<W::Item, W::Answer>| {
        let has_room = bytes < W::MAX_BYTES;
        if let Ticket::Write(item, _) = ticket {
            bytes = bytes.saturating_add(W::bytes(item));
        }
        has_room
    };
    let together = taken.iter().take_while(fits).count();
    for ticket in taken.drain(..together) {
        match ticket {
            Ticket::Write(item, answer) => {
                group.push(item);
                answers.push(answer);
            }
            Ticket::Close => tickets.close(),
        }
    }
    true
}

type Results<R> = Vec<Result<R, Arc<store::Error>>>;

async fn write_group<W: GroupWriter>(writer: &W, items: &[W::Item], written: &Written) -> Results<W::Answer> {
    if W::ISOLATES {
        return isolate_refused(writer, items, written).await;
    }
    match write_or_catch(writer, items).await {
        Ok(answers) => {
            written.wrote_group();
            answers.into_iter().map(Ok).collect()
        }
        Err(error) => {
            let error = Arc::new(error);
            written.failed(error.clone());
            items.iter().map(|_| Err(error.clone())).collect()
        }
    }
}

/// After a panic it is unknown what was written, and the next groups are to be written all the same.
async fn write_or_catch<W: GroupWriter>(
    writer: &W,
    items: &[W::Item],
) -> Result<Vec<W::Answer>, store::Error> {
    let writing = AssertUnwindSafe(writer.write(items)).catch_unwind().await;
    let answers = writing.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))?;
    if answers.len() == items.len() {
        return Ok(answers);
    }
    let why = format!("the store answered for {} of {} items: ask again", answers.len(), items.len());
    Err(store::Error::Unavailable(why))
}

fn panicked(panic: &(dyn Any + Send)) -> store::Error {
    let why = catch_panic::text(panic);
    tracing::error!(why, "the store panicked while it wrote");
    store::Error::Unavailable(format!("the store panicked while it wrote: {why}"))
}

/// Nothing of a group that is refused was written, and any of its items may be why.
struct InGroup(store::Error);

impl Isolable for InGroup {
    fn is_about_an_item(&self) -> bool {
        matches!(self.0, store::Error::Refused(_) | store::Error::Rejected(_))
    }
}

/// An item that cannot be written does not keep the others from the disk.
async fn isolate_refused<W: GroupWriter>(
    writer: &W,
    items: &[W::Item],
    written: &Written,
) -> Results<W::Answer> {
    // Isolation clones what it divides: places, and not items.
    let places: Vec<usize> = (0..items.len()).collect();
    let parts = isolate(places, |places| async move {
        let part = places.first().zip(places.last()).map_or(&[][..], |(first, last)| &items[*first..=*last]);
        write_or_catch(writer, part).await.map_err(InGroup)
    });
    let mut results = Vec::with_capacity(items.len());
    let mut failure = None;
    for Part { items: places, outcome } in parts.await {
        match outcome {
            Outcome::Written(answers) => results.extend(answers.into_iter().map(Ok)),
            Outcome::Rejected(InGroup(why)) => results.push(Err(Arc::new(why))),
            Outcome::Failed(InGroup(why)) => {
                let why = failure.insert(Arc::new(why));
                results.extend(places.iter().map(|_| Err(why.clone())));
            }
            Outcome::NotTried => {
                let why = failure.get_or_insert_with(|| {
                    Arc::new(store::Error::Unavailable("the group was not written".to_owned()))
                });
                results.extend(places.iter().map(|_| Err(why.clone())));
            }
        }
    }
    match failure {
        Some(error) => written.failed(error),
        None => written.wrote_group(),
    }
    results
}

#[cfg(test)]
mod tests;
