//! Whether this process may still act: a node whose heartbeat is overdue starts no effects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Shared;
use crate::store;

/// How often the heartbeat is sent, as a part of the lease.
const BEATS_PER_LEASE: u32 = 5;

pub(crate) struct Liveness {
    /// Absent where no other node could adopt sagas: then there is nothing to prove.
    lease: Option<Duration>,
    base: Instant,
    /// Microseconds after `base` until which effects may start.
    fresh_until: AtomicU64,
    renewed: Notify,
    /// Why this process can never act again, as far as the store says.
    refusal: Mutex<Option<Arc<store::Error>>>,
}

impl Liveness {
    pub(crate) fn new(lease: Option<Duration>, joined: Instant) -> Self {
        let liveness = Self {
            lease,
            base: joined,
            fresh_until: AtomicU64::new(0),
            renewed: Notify::new(),
            refusal: Mutex::default(),
        };
        liveness.renew(joined);
        liveness
    }

    /// A heartbeat that was sent at this moment has been heard. The monotonic clock is asked, since it goes on
    /// while a process is stopped.
    fn renew(&self, sent: Instant) {
        // Effects stop well before others may take over, so that nothing is in their way.
        let usable = self.lease.unwrap_or_default() * 3 / 5;
        let until = sent.duration_since(self.base) + usable;
        self.fresh_until.store(u64::try_from(until.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
        self.renewed.notify_waiters();
        *self.kept_refusal() = None;
    }

    /// A heartbeat failed. An error that only an upgrade of this process puts right is kept: it is not ready until then.
    fn failed(&self, error: store::Error) {
        if matches!(error, store::Error::NewerSchema { .. }) {
            *self.kept_refusal() = Some(Arc::new(error));
        }
    }

    /// Why this process is not ready, whatever else it can do.
    pub(crate) fn refusal(&self) -> Option<Arc<store::Error>> {
        self.kept_refusal().clone()
    }

    fn kept_refusal(&self) -> MutexGuard<'_, Option<Arc<store::Error>>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_act(&self) -> bool {
        let now = u64::try_from(self.base.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.lease.is_none() || now < self.fresh_until.load(Ordering::Acquire)
    }

    /// Waits until this process may act.
    pub(crate) async fn permitted(&self) {
        while !self.may_act() {
            let renewed = self.renewed.notified();
            if self.may_act() {
                return;
            }
            renewed.await;
        }
    }
}

/// Sends the heartbeat for as long as the engine runs, and joins anew if it comes too late.
pub(super) async fn keep_alive(shared: Arc<Shared>) {
    let between = shared.options.lease / BEATS_PER_LEASE;
    while !shared.is_stopped() {
        let sent = Instant::now();
        let mut pause = between;
        match shared.store.heartbeat(shared.epoch()).await {
            Ok(true) => shared.liveness.renew(sent),
            Ok(false) => rejoin(&shared).await,
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed");
                shared.liveness.failed(error);
                // It may have used up much of the time that is left.
                pause = between / 4;
            }
        }
        // While draining the node still has work in flight, so it still has to be heard of.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.stopped() => {}
        }
    }
}

/// Reads the store's clock as often as the heartbeat is sent, and beside it: no heartbeat waits for this.
pub(super) async fn follow_clock(shared: Arc<Shared>) {
    while !shared.is_stopped() {
        if let Err(error) = shared.answer(shared.clock.follow(shared.store.clock())).await {
            tracing::warn!(%error, "cannot read the store's clock");
        }
        tokio::select! {
            () = tokio::time::sleep(shared.options.lease / BEATS_PER_LEASE) => {}
            () = shared.stopped() => {}
        }
    }
}

/// Other nodes may own the sagas of this incarnation now: forgets them and joins as a new one.
async fn rejoin(shared: &Shared) {
    tracing::warn!(epoch = shared.epoch(), "taken for dead: joining again");
    let sent = Instant::now();
    match shared.store.join(shared.node()).await {
        Ok(epoch) => {
            shared.epoch.store(epoch, Ordering::Release);
            shared.run_queue.clear();
            shared.active.wake_all();
            shared.liveness.renew(sent);
            shared.adoption.wake();
        }
        Err(error) => {
            tracing::warn!(%error, "cannot join again yet");
            shared.liveness.failed(error);
        }
    }
}
