//! The sagas that are under way in this process, and who is waiting for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Recorded, State};
use tokio::sync::{Notify, watch};

use crate::registry::Registered;
use crate::tail::Tail;

/// Sagas hash to one of these, so that starts do not queue for one lock.
const SHARDS: usize = 16;

/// How far a saga has come.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    /// Its newest event that is on disk.
    pub(crate) seq: u64,
    /// Set when this process is done with it.
    pub(crate) end: Option<End>,
}

/// How this process came to be done with a saga.
#[derive(Clone)]
pub(crate) enum End {
    /// It is at its end.
    Final(Arc<Registered>, Arc<State>),
    /// It goes on elsewhere, or later.
    LetGo,
}

/// A saga under way.
#[derive(Default)]
pub(crate) struct Live {
    wake: Notify,
    mail: AtomicBool,
    progress: watch::Sender<Progress>,
    tail: Tail,
}

impl Live {
    pub(crate) fn nudge(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn nudge_for_mail(&self) {
        self.mail.store(true, Ordering::Release);
        self.nudge();
    }

    pub(crate) async fn nudged(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn take_mail_flag(&self) -> bool {
        self.mail.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn advanced_to(&self, seq: u64) {
        self.progress.send_modify(|progress| progress.seq = seq);
    }

    /// These events are on disk.
    pub(crate) fn wrote(&self, events: Vec<Recorded>) {
        let Some(newest) = events.last().map(|newest| newest.seq) else { return };
        // First: whoever is woken looks for them there.
        self.tail.push(events);
        self.advanced_to(newest);
    }

    /// Its newest events.
    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }
}

/// All sagas under way.
pub(crate) struct LiveSagas {
    shards: Vec<Mutex<HashMap<SagaId, Arc<Live>>>>,
}

impl Default for LiveSagas {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl LiveSagas {
    fn shard(&self, saga: SagaId) -> std::sync::MutexGuard<'_, HashMap<SagaId, Arc<Live>>> {
        // The last byte of a UUIDv7 is random, so it spreads sagas that start together.
        let index = usize::from(saga.0.as_bytes()[15]) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a saga; `None` if it is under way already.
    pub(crate) fn enter(&self, saga: SagaId) -> Option<Arc<Live>> {
        let mut shard = self.shard(saga);
        if shard.contains_key(&saga) {
            return None;
        }
        let live = Arc::new(Live::default());
        shard.insert(saga, live.clone());
        Some(live)
    }

    /// Strikes a saga off and tells whoever waits for it.
    pub(crate) fn leave(&self, saga: SagaId, end: End) {
        if let Some(live) = self.shard(saga).remove(&saga) {
            live.progress.send_modify(|progress| progress.end = Some(end));
        }
    }

    pub(crate) fn get(&self, saga: SagaId) -> Option<Arc<Live>> {
        self.shard(saga).get(&saga).cloned()
    }

    pub(crate) fn nudge_all(&self) {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|live| live.nudge());
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
