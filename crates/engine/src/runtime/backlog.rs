//! Sagas that are ours and wait to be driven, each once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::mpsc;

use crate::clock::Clock;

/// The way in.
pub(crate) struct Backlog {
    /// Each with the time since when it waits.
    queued: Mutex<HashMap<SagaId, Timestamp>>,
    clock: Arc<dyn Clock>,
    queue: mpsc::UnboundedSender<SagaId>,
}

impl Backlog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> (Self, mpsc::UnboundedReceiver<SagaId>) {
        let (queue, waiting) = mpsc::unbounded_channel();
        (Self { queued: Mutex::default(), clock, queue }, waiting)
    }

    /// Queues a saga, unless it is queued already.
    pub(crate) fn push(&self, saga: SagaId) {
        self.put_back(saga, self.clock.now());
    }

    /// The same for one that was taken from the queue for nothing: it has waited since before.
    pub(crate) fn put_back(&self, saga: SagaId, since: Timestamp) {
        let mut fresh = false;
        let mut queued = self.queued();
        let waits = queued.entry(saga).or_insert_with(|| {
            fresh = true;
            since
        });
        *waits = since.min(*waits);
        drop(queued);
        if fresh {
            // Nobody takes it only when the engine has stopped.
            let _ = self.queue.send(saga);
        }
    }

    /// Up to `limit` sagas that have waited since before this time, each with since when, longest first.
    pub(crate) fn since(&self, since: Timestamp, limit: usize) -> Vec<(Timestamp, SagaId)> {
        let queued = self.queued();
        let mut waiting: Vec<(Timestamp, SagaId)> =
            queued.iter().filter(|(_, from)| **from <= since).map(|(saga, from)| (*from, *saga)).collect();
        drop(queued);
        waiting.sort_unstable();
        waiting.truncate(limit);
        waiting
    }

    /// Notes that a saga has been taken from the queue, and says since when it was there.
    pub(crate) fn taken(&self, saga: SagaId) -> Timestamp {
        self.queued().remove(&saga).unwrap_or_else(|| self.clock.now())
    }

    fn queued(&self) -> MutexGuard<'_, HashMap<SagaId, Timestamp>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
