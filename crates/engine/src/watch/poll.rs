//! Finds out which logs other nodes have appended to: one query for all that are followed, however many readers they have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch_kernel::SagaId;
use tokio::sync::Notify;

use super::watchers::REMOVED;
use super::{LogEvent, Watchers};
use crate::runtime::Shared;

/// Poll interval for logs that other nodes may write.
const POLL_SHARED: Duration = Duration::from_millis(250);
/// The same where all events come from this process, and readers are woken at once.
const POLL_OWN: Duration = Duration::from_secs(5);
/// Logs in one query.
const PER_QUERY: usize = 1000;

/// Logs that are followed here.
pub(crate) trait PolledLogs: Send + Sync {
    /// Those that this process does not write at the moment.
    fn idle(&self) -> Vec<SagaId>;

    /// Wakes the readers of a log if it goes further than they know.
    fn advance(&self, log: SagaId, head: u64);

    /// Wakes all readers: nothing is polled any more.
    fn close(&self);
}

/// All logs that are polled: those of sagas, and those that products keep.
#[derive(Default)]
pub(crate) struct Polls {
    all: Mutex<Vec<Arc<dyn PolledLogs>>>,
    wake: Arc<Notify>,
}

impl Polls {
    /// Watchers whose logs are polled from now on.
    pub(crate) fn add<E: LogEvent>(&self) -> Arc<Watchers<E>> {
        let watchers = Arc::new(Watchers::new(self.wake.clone()));
        self.all().push(watchers.clone());
        watchers
    }

    pub(crate) fn close(&self) {
        for logs in self.all().iter() {
            logs.close();
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<dyn PolledLogs>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls for as long as the engine runs.
pub(crate) async fn poll_idle_logs(shared: Arc<Shared>) {
    let interval = if shared.store.is_shared() { POLL_SHARED } else { POLL_OWN };
    while !shared.is_stopping() {
        let mut polled = false;
        let all = shared.polls.all().clone();
        for logs in all {
            let idle = logs.idle();
            polled |= !idle.is_empty();
            for page in idle.chunks(PER_QUERY) {
                poll(&shared, &*logs, page).await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval), if polled => {}
            () = shared.polls.wake.notified(), if !polled => {}
            () = shared.stopping() => return,
        }
    }
}

async fn poll(shared: &Shared, logs: &dyn PolledLogs, ids: &[SagaId]) {
    let heads = match shared.store.heads(ids).await {
        Ok(heads) => heads,
        Err(error) => {
            tracing::warn!(%error, "cannot poll followed logs; retrying");
            return;
        }
    };
    let heads: HashMap<SagaId, u64> = heads.iter().map(|head| (head.log, head.seq)).collect();
    for id in ids {
        logs.advance(*id, heads.get(id).copied().unwrap_or(REMOVED));
    }
}
