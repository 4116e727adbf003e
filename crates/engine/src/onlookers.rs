//! Sagas that are watched here while nobody here runs them: one question for all of them, however many watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch_kernel::SagaId;
use tokio::sync::{Notify, watch};

use crate::runtime::Shared;

/// How often sagas are looked at that others may run.
const LOOK_AT_OTHERS_EVERY: Duration = Duration::from_millis(250);
/// The same where every event comes from this process and is told at once; only what was missed is found by looking.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Sagas asked about with one question.
const AT_ONCE: usize = 1000;

/// Everybody who watches.
#[derive(Default)]
pub(crate) struct Onlookers {
    heads: Mutex<HashMap<SagaId, watch::Sender<u64>>>,
    came: Notify,
}

/// Somebody who watches a saga.
pub(crate) struct Onlooker {
    shared: Arc<Shared>,
    saga: SagaId,
    head: watch::Receiver<u64>,
}

impl Onlookers {
    fn heads(&self) -> MutexGuard<'_, HashMap<SagaId, watch::Sender<u64>>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who watch this saga that its log goes as far as this.
    pub(crate) fn tell(&self, saga: SagaId, seq: u64) {
        if let Some(head) = self.heads().get(&saga) {
            head.send_if_modified(|known| {
                let further = seq > *known;
                *known = seq.max(*known);
                further
            });
        }
    }

    fn watched(&self) -> Vec<SagaId> {
        let mut heads = self.heads();
        // Two who leave at the same moment each see the other.
        heads.retain(|_, head| head.receiver_count() > 0);
        heads.keys().copied().collect()
    }
}

impl Onlooker {
    /// From here on every new event of the saga is told.
    pub(crate) fn of(shared: &Arc<Shared>, saga: SagaId) -> Self {
        let head = shared.onlookers.heads().entry(saga).or_default().subscribe();
        shared.onlookers.came.notify_one();
        Self { shared: shared.clone(), saga, head }
    }

    /// Waits until the log goes further than this.
    pub(crate) async fn beyond(&mut self, seq: u64) {
        // The sender stays as long as this one watches.
        let _ = self.head.wait_for(|head| *head > seq).await;
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        let mut heads = self.shared.onlookers.heads();
        // This one still counts.
        if heads.get(&self.saga).is_some_and(|head| head.receiver_count() <= 1) {
            heads.remove(&self.saga);
        }
    }
}

/// Looks after everything that is watched and not run here, for as long as the engine runs.
pub(crate) async fn keep_looking(shared: Arc<Shared>) {
    let every = if shared.store.is_shared() { LOOK_AT_OTHERS_EVERY } else { LOOK_EVERY };
    while !shared.is_stopping() {
        let sagas = shared.onlookers.watched();
        if sagas.is_empty() {
            tokio::select! {
                () = shared.onlookers.came.notified() => {}
                () = shared.stopping() => return,
            }
            continue;
        }
        for sagas in sagas.chunks(AT_ONCE) {
            match shared.store.heads(sagas).await {
                Ok(heads) => {
                    let heads: HashMap<SagaId, u64> =
                        heads.iter().map(|head| (head.saga, head.seq)).collect();
                    for saga in sagas {
                        // Whoever waits for one that was removed finds out by looking again.
                        let seq = heads.get(saga).copied().unwrap_or(u64::MAX);
                        shared.onlookers.tell(*saga, seq);
                    }
                }
                Err(error) => tracing::warn!(%error, "sagas that are watched cannot be read"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = shared.stopping() => return,
        }
    }
}
