//! Every event that this process writes, as it happens: each reader has a queue of its own, completed from the log when the
//! reader is slow.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, State};
use tokio::sync::Notify;

use crate::outbox::Announced;
use crate::registry::Registered;
use crate::runtime::{Patience, Shared};
use crate::view::SagaState;

/// How far a reader may be behind.
#[derive(Clone, Copy)]
struct Limits {
    /// Events that are kept in memory for it; later ones are read from the log when it comes to them.
    in_memory: usize,
    /// Commits it has not read; of later ones it gets a [`Gap`].
    commits: usize,
}

const LIMITS: Limits = Limits { in_memory: 4096, commits: 1 << 20 };

/// An event as it happens.
#[derive(Clone)]
pub struct FeedEvent {
    /// The saga.
    pub saga: SagaId,
    /// The definition's name.
    pub definition: Arc<str>,
    /// What happened.
    pub recorded: Recorded,
    commit: Arc<Committed>,
}

impl FeedEvent {
    fn of(commit: &Arc<Committed>, recorded: &Recorded) -> Self {
        Self {
            saga: commit.saga,
            definition: commit.definition.name.clone(),
            recorded: recorded.clone(),
            commit: commit.clone(),
        }
    }

    /// Everything about the saga as of the commit that wrote the event. Events that are written together have the same
    /// record.
    #[must_use]
    pub fn record(&self) -> &SagaState {
        let Committed { saga, definition, state, record, .. } = &*self.commit;
        record.get_or_init(|| SagaState::of(*saga, &definition.definition, state))
    }
}

impl fmt::Debug for FeedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { saga, definition, recorded, .. } = self;
        f.debug_struct("FeedEvent")
            .field("saga", saga)
            .field("definition", definition)
            .field("recorded", recorded)
            .finish_non_exhaustive()
    }
}

/// Events that a reader of live events cannot get any more: retention removed their saga before the reader came to them, the
/// engine ended, or the reader is a million commits behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// How many events are missing.
    pub missed: u64,
}

/// The events of one commit.
struct Committed {
    saga: SagaId,
    definition: Arc<Registered>,
    /// The saga after all of them.
    state: Arc<State>,
    events: Vec<Recorded>,
    /// Made for the first who asks.
    record: OnceLock<SagaState>,
}

/// Where the events of one commit are in the log.
struct Logged {
    saga: SagaId,
    definition: Arc<Registered>,
    /// The number of the event before them.
    after: u64,
    through: u64,
}

impl Logged {
    fn of(commit: &Committed) -> Option<Self> {
        let (first, last) = (commit.events.first()?, commit.events.last()?);
        let (saga, definition) = (commit.saga, commit.definition.clone());
        Some(Self { saga, definition, after: first.seq - 1, through: last.seq })
    }

    fn gap(&self) -> Gap {
        Gap { missed: self.through - self.after }
    }
}

enum Entry {
    Committed(Arc<Committed>),
    Logged(Logged),
    Lost(Gap),
}

/// What a reader has not read yet.
pub(crate) struct Queue {
    /// The events it wants.
    names: Announced,
    /// Whether a shutdown waits for its reader.
    awaited: bool,
    limits: Limits,
    unread: Mutex<Unread>,
    filled: Notify,
}

#[derive(Default)]
struct Unread {
    entries: VecDeque<Entry>,
    /// Events in entries that are in memory.
    in_memory: usize,
    /// Whether the reader has taken an entry and not asked for the next one.
    busy: bool,
    /// Nothing follows what is in the queue.
    closed: bool,
    /// The reader wants nothing more.
    left: bool,
}

enum Next {
    Entry(Entry),
    Empty,
    End,
}

impl Queue {
    fn new(names: Announced, awaited: bool, limits: Limits) -> Self {
        Self { names, awaited, limits, unread: Mutex::default(), filled: Notify::new() }
    }

    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants(&self, events: &[Recorded]) -> bool {
        events.iter().any(|recorded| self.names.includes(recorded.event.name()))
    }

    fn push(&self, commit: &Arc<Committed>) {
        let mut unread = self.unread();
        if unread.closed {
            return;
        }
        let events = commit.events.len();
        if unread.in_memory + events <= self.limits.in_memory {
            unread.in_memory += events;
            unread.entries.push_back(Entry::Committed(commit.clone()));
        } else if unread.entries.len() < self.limits.commits {
            unread.entries.extend(Logged::of(commit).map(Entry::Logged));
        } else if let Some(Entry::Lost(gap)) = unread.entries.back_mut() {
            gap.missed += events as u64;
        } else {
            unread.entries.push_back(Entry::Lost(Gap { missed: events as u64 }));
        }
        drop(unread);
        self.filled.notify_one();
    }

    fn pop(&self) -> Next {
        let mut unread = self.unread();
        if unread.left {
            return Next::End;
        }
        let entry = unread.entries.pop_front();
        unread.busy = entry.is_some();
        if let Some(Entry::Committed(commit)) = &entry {
            unread.in_memory -= commit.events.len();
        }
        match entry {
            Some(entry) => Next::Entry(entry),
            None if unread.closed => Next::End,
            None => Next::Empty,
        }
    }

    /// The engine has ended: what is in the queue can still be read.
    fn close(&self) {
        self.unread().closed = true;
        self.filled.notify_one();
    }

    /// The reader has gone.
    pub(crate) fn leave(&self) {
        *self.unread() = Unread { closed: true, left: true, ..Unread::default() };
        self.filled.notify_one();
    }

    pub(crate) fn is_left(&self) -> bool {
        self.unread().left
    }

    fn holds_up_shutdown(&self) -> bool {
        let unread = self.unread();
        self.awaited && (unread.busy || !unread.entries.is_empty())
    }
}

/// Everyone who reads the events of this process.
#[derive(Default)]
pub(crate) struct Feed {
    queues: RwLock<Vec<Arc<Queue>>>,
}

impl Feed {
    /// Tells readers what has just been committed.
    pub(crate) fn publish(
        &self,
        saga: SagaId,
        definition: &Arc<Registered>,
        state: &Arc<State>,
        events: &[Recorded],
    ) {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let mut wanting = queues.iter().filter(|queue| queue.wants(events)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let commit = Arc::new(Committed {
            saga,
            definition: definition.clone(),
            state: state.clone(),
            events: events.to_vec(),
            record: OnceLock::new(),
        });
        wanting.for_each(|queue| queue.push(&commit));
    }

    /// Reads these events from now on; a shutdown waits for a reader that is `awaited`.
    pub(crate) fn reader(shared: &Arc<Shared>, names: Announced, awaited: bool) -> FeedReader {
        let queue = Arc::new(Queue::new(names, awaited, LIMITS));
        shared.feed.queues.write().unwrap_or_else(PoisonError::into_inner).push(queue.clone());
        FeedReader { queue, shared: Arc::downgrade(shared), ready: VecDeque::new() }
    }

    /// Whether a reader that a shutdown waits for has something to read.
    pub(crate) fn holds_up_shutdown(&self) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.iter().any(|queue| queue.holds_up_shutdown())
    }

    fn remove(&self, gone: &Arc<Queue>) {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| !Arc::ptr_eq(queue, gone));
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let queues = self.queues.get_mut().unwrap_or_else(PoisonError::into_inner);
        for queue in queues {
            queue.close();
        }
    }
}

/// Reads events as they happen.
pub(crate) struct FeedReader {
    queue: Arc<Queue>,
    /// Not held: the engine ends with its last handle, also while readers of its events are left.
    shared: Weak<Shared>,
    ready: VecDeque<Arc<FeedEvent>>,
}

impl FeedReader {
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The next event; none after the engine has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<Arc<FeedEvent>, Gap>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let commit = match self.queue.pop() {
                Next::Entry(Entry::Committed(commit)) => commit,
                Next::Entry(Entry::Logged(logged)) => match self.read(&logged).await {
                    Some(commit) => Arc::new(commit),
                    None => return Some(Err(logged.gap())),
                },
                Next::Entry(Entry::Lost(gap)) => return Some(Err(gap)),
                Next::Empty => {
                    self.queue.filled.notified().await;
                    continue;
                }
                Next::End => return None,
            };
            let names = &self.queue.names;
            let wanted = commit.events.iter().filter(|recorded| names.includes(recorded.event.name()));
            self.ready.extend(wanted.map(|recorded| Arc::new(FeedEvent::of(&commit, recorded))));
        }
    }

    /// A commit as the log has it; none if it is there no more. A store that does not answer is asked again.
    async fn read(&self, logged: &Logged) -> Option<Committed> {
        let Logged { saga, definition, after, through } = logged;
        let mut patience = Patience::default();
        loop {
            let shared = self.shared.upgrade()?;
            let log = match shared.store.log(*saga, 0, usize::try_from(*through).ok()?).await {
                Ok(log) => log,
                Err(error) => {
                    if patience.is_news("log", &error) {
                        tracing::warn!(%saga, %error, "cannot read events for a slow reader; retrying");
                    }
                    patience.wait(&shared).await;
                    if shared.is_stopped() {
                        return None;
                    }
                    continue;
                }
            };
            if log.len() as u64 != *through {
                return None;
            }
            let state = State::fold(&definition.definition, &log);
            let state = state
                .inspect_err(|misfit| tracing::error!(%saga, %misfit, "log does not fit its definition"));
            let events = log.into_iter().skip_while(|recorded| recorded.seq <= *after).collect();
            let (saga, definition, state) = (*saga, definition.clone(), Arc::new(state.ok()?));
            return Some(Committed { saga, definition, state, events, record: OnceLock::new() });
        }
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.queue.leave();
        if let Some(shared) = self.shared.upgrade() {
            shared.feed.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use backstitch_kernel::saga::{Event, Now, Start, start};
    use backstitch_kernel::{SagaId, Timestamp};
    use uuid::Uuid;

    use super::*;
    use crate::context::Context;
    use crate::registry::Registry;
    use crate::saga::{Saga, Step};

    /// Commits of two events each.
    fn commit() -> Arc<Committed> {
        let step = Step::new("a", |_: Context<()>| async { Ok(()) });
        let definition = Registry::new(1).add(Saga::builder("s").step(step).build().unwrap()).unwrap();
        let now = Now::at(Timestamp::from_micros(0));
        let decision = start(&definition.definition, Start::default(), now);
        let (saga, state) = (SagaId(Uuid::nil()), Arc::new(decision.state));
        Arc::new(Committed { saga, definition, state, events: decision.events, record: OnceLock::new() })
    }

    fn queue(in_memory: usize, commits: usize) -> Queue {
        Queue::new(Announced::matching(["*"]).unwrap(), true, Limits { in_memory, commits })
    }

    fn kinds(queue: &Queue) -> Vec<String> {
        let next = || match queue.pop() {
            Next::Entry(Entry::Committed(_)) => Some("memory".to_owned()),
            Next::Entry(Entry::Logged(logged)) => Some(format!("log {}..{}", logged.after, logged.through)),
            Next::Entry(Entry::Lost(gap)) => Some(format!("lost {}", gap.missed)),
            Next::Empty | Next::End => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn slow_reader_keeps_places_in_the_log() {
        let (queue, commit) = (queue(4, 10), commit());
        assert_eq!(commit.events.len(), 2);
        for _ in 0..4 {
            queue.push(&commit);
        }
        assert_eq!(kinds(&queue), ["memory", "memory", "log 0..2", "log 0..2"]);
        queue.push(&commit);
        assert_eq!(kinds(&queue), ["memory"], "it has caught up");
    }

    #[test]
    fn reader_too_far_behind_gets_a_gap() {
        let (queue, commit) = (queue(2, 2), commit());
        for _ in 0..4 {
            queue.push(&commit);
        }
        assert_eq!(kinds(&queue), ["memory", "log 0..2", "lost 4"]);
    }

    #[test]
    fn queue_holds_up_shutdown_until_its_reader_is_done() {
        let (queue, commit) = (queue(2, 2), commit());
        assert!(!queue.holds_up_shutdown());
        queue.push(&commit);
        assert!(queue.holds_up_shutdown());
        assert!(matches!(queue.pop(), Next::Entry(_)));
        assert!(queue.holds_up_shutdown(), "the reader has not come back");
        assert!(matches!(queue.pop(), Next::Empty));
        assert!(!queue.holds_up_shutdown());
    }

    #[test]
    fn reader_that_left_gets_nothing_more() {
        let (queue, commit) = (queue(2, 2), commit());
        queue.push(&commit);
        queue.leave();
        queue.push(&commit);
        assert!(matches!(queue.pop(), Next::End));
        assert!(!queue.holds_up_shutdown());
    }

    #[test]
    fn closed_queue_can_be_read_to_its_end() {
        let (queue, commit) = (queue(2, 2), commit());
        queue.push(&commit);
        queue.close();
        assert!(matches!(queue.pop(), Next::Entry(Entry::Committed(_))));
        assert!(matches!(queue.pop(), Next::End));
    }

    #[test]
    fn queue_takes_only_commits_with_wanted_events() {
        let commit = commit();
        let names = Announced::matching(["saga.failed"]).unwrap();
        assert!(!Queue::new(names, true, LIMITS).wants(&commit.events));
        let names = Announced::matching(["step.*"]).unwrap();
        assert!(Queue::new(names, true, LIMITS).wants(&commit.events));
        assert!(matches!(commit.events[0].event, Event::SagaStarted(_)));
    }
}
