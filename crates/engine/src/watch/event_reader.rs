//! Everyone who reads all events of this process, and how each reads its queue.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, State};

use super::event_queue::{Entry, EventQueue, LIMITS, Logged, Next};
use super::saga_event::CommittedEvents;
use super::{Gap, SagaEvent};
use crate::outbox::Announced;
use crate::registry::Registered;
use crate::runtime::{Shared, StoreBackoff};

/// Everyone who reads the events of this process.
#[derive(Default)]
pub(crate) struct EventReaders {
    queues: RwLock<Vec<Arc<EventQueue>>>,
}

impl EventReaders {
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
        let commit = CommittedEvents::new(saga, definition.clone(), state.clone(), events.to_vec());
        let commit = Arc::new(commit);
        wanting.for_each(|queue| queue.push(&commit));
    }

    /// Reads these events from now on; a shutdown waits for a reader that is `awaited`.
    pub(crate) fn reader(shared: &Arc<Shared>, names: Announced, awaited: bool) -> EventReader {
        let queue = Arc::new(EventQueue::new(names, awaited, LIMITS));
        shared.event_readers.queues.write().unwrap_or_else(PoisonError::into_inner).push(queue.clone());
        EventReader { queue, shared: Arc::downgrade(shared), ready: VecDeque::new() }
    }

    /// Whether a reader that a shutdown waits for has something to read.
    pub(crate) fn holds_up_shutdown(&self) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.iter().any(|queue| queue.holds_up_shutdown())
    }

    fn remove(&self, gone: &Arc<EventQueue>) {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| !Arc::ptr_eq(queue, gone));
    }
}

impl Drop for EventReaders {
    fn drop(&mut self) {
        let queues = self.queues.get_mut().unwrap_or_else(PoisonError::into_inner);
        for queue in queues {
            queue.close();
        }
    }
}

/// Reads events as they happen.
pub(crate) struct EventReader {
    queue: Arc<EventQueue>,
    /// Not held: the engine ends with its last handle, also while readers of its events are left.
    shared: Weak<Shared>,
    ready: VecDeque<Arc<SagaEvent>>,
}

impl EventReader {
    pub(crate) fn queue(&self) -> &Arc<EventQueue> {
        &self.queue
    }

    /// The next event; none after the engine has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<Arc<SagaEvent>, Gap>> {
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
            self.ready.extend(wanted.map(|recorded| Arc::new(SagaEvent::of(&commit, recorded))));
        }
    }

    /// A commit as the log has it; none if it is there no more. A store that does not answer is asked again.
    async fn read(&self, logged: &Logged) -> Option<CommittedEvents> {
        let Logged { saga, definition, after, through } = logged;
        let mut backoff = StoreBackoff::default();
        loop {
            let shared = self.shared.upgrade()?;
            let log = match shared.store.log(*saga, 0, usize::try_from(*through).ok()?).await {
                Ok(log) => log,
                Err(error) => {
                    if backoff.is_news("log", &error) {
                        tracing::warn!(%saga, %error, "cannot read events for a slow reader; retrying");
                    }
                    backoff.wait(&shared).await;
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
            return Some(CommittedEvents::new(saga, definition, state, events));
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.queue.leave();
        if let Some(shared) = self.shared.upgrade() {
            shared.event_readers.remove(&self.queue);
        }
    }
}
