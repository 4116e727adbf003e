//! Sagas that are ours and wait to be driven, each once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use backstitch_kernel::SagaId;
use tokio::sync::mpsc;

/// The way in.
pub(crate) struct Backlog {
    /// In the order of their starts.
    queued: Mutex<BTreeSet<SagaId>>,
    queue: mpsc::UnboundedSender<SagaId>,
}

impl Backlog {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<SagaId>) {
        let (queue, waiting) = mpsc::unbounded_channel();
        (Self { queued: Mutex::default(), queue }, waiting)
    }

    /// Queues a saga, unless it is queued already.
    pub(crate) fn push(&self, saga: SagaId) {
        let fresh = self.queued.lock().unwrap_or_else(PoisonError::into_inner).insert(saga);
        if fresh {
            // Nobody takes it only when the engine has stopped.
            let _ = self.queue.send(saga);
        }
    }

    /// The first of them by their starts.
    pub(crate) fn first(&self, limit: usize) -> Vec<SagaId> {
        let queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.iter().take(limit).copied().collect()
    }

    /// Notes that a saga has been taken from the queue.
    pub(crate) fn taken(&self, saga: SagaId) {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).remove(&saga);
    }
}
