//! Puts on disk what became of messages, and keeps it until it is there.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::lane::Finished;
use crate::runtime::Shared;
use crate::store;
use crate::store::isolation::{Isolated, isolate};
use crate::store::outbox::Sent;
use crate::store::parked::{OUTBOX, park};

/// Ends of sends written as one transaction at most.
pub(super) const SETTLED_AT_ONCE: usize = 4096;
/// When to try again after the store did not take them.
const PAUSE: Duration = Duration::from_millis(250);
/// When to try those again that the database rejected: each try splits the batch that they are in.
const PAUSE_AFTER_REJECTION: Duration = Duration::from_secs(1);

/// Ends of sends that are not on disk yet. A message is its sender's while its lease lasts, and the store heeds an end only
/// under the newest lock, so that it may be told as often as it takes.
pub(super) struct Settling {
    shared: Arc<Shared>,
    over: Vec<Finished>,
    /// When to try again; nothing while the store takes what it is told.
    again_at: Option<Instant>,
    /// Ends that the database rejected: a message that arrived is not sent again while its lease lasts.
    rejected: Vec<Finished>,
    /// When to try these again.
    rejected_again_at: Option<Instant>,
    /// The messages of these, which are parked already.
    parked: HashSet<i64>,
}

impl Settling {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            over: Vec::new(),
            again_at: None,
            rejected: Vec::new(),
            rejected_again_at: None,
            parked: HashSet::new(),
        }
    }

    pub(super) fn add(&mut self, over: Vec<Finished>) {
        self.over.extend(over);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.over.is_empty()
    }

    /// Whether so much is kept that nothing more should be sent: what never gets to disk is sent again.
    pub(super) fn is_full(&self) -> bool {
        self.over.len() >= SETTLED_AT_ONCE
    }

    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at.or(self.rejected_again_at)
    }

    /// Puts on disk what is over, unless it is too soon to try again; whether any of it got there.
    pub(super) async fn settle(&mut self) -> bool {
        if self.again_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        self.again_at = None;
        if self.rejected_again_at.is_some_and(|at| Instant::now() >= at) {
            self.rejected_again_at = None;
            let (ours, lost): (Vec<_>, Vec<_>) = self.rejected.drain(..).partition(Finished::is_ours);
            for finished in &lost {
                self.parked.remove(&finished.sent.id);
            }
            self.over.extend(ours);
        }
        let mut any = false;
        while !self.over.is_empty() {
            let batch = self.over.len().min(SETTLED_AT_ONCE);
            let sent: Vec<Sent> = self.over[..batch].iter().map(|finished| finished.sent.clone()).collect();
            let rejected = match self.settle_batch(sent).await {
                Ok(rejected) => rejected,
                Err(error) => {
                    self.keep_for_later(&error);
                    break;
                }
            };
            any = true;
            for finished in self.over.drain(..batch) {
                if rejected.contains(&finished.sent.id) {
                    self.rejected.push(finished);
                    continue;
                }
                self.parked.remove(&finished.sent.id);
                if let Some(attempt) = finished.attempt() {
                    self.shared.options.observer.attempted(&attempt);
                }
            }
        }
        if !self.rejected.is_empty() && self.rejected_again_at.is_none() {
            self.rejected_again_at = Some(Instant::now() + PAUSE_AFTER_REJECTION);
        }
        any
    }

    /// Settles a batch and parks the messages whose ends were rejected, each once: parked again, it would wait longer each
    /// time after its lease. Answers with their ids.
    async fn settle_batch(&mut self, sent: Vec<Sent>) -> Result<Vec<i64>, store::Error> {
        let store = &*self.shared.store;
        let settle = |sent: Vec<Sent>| async move { store.settle_outbox(&sent).await };
        let Isolated { rejected, failed, .. } = isolate(sent, settle).await.into();
        let ids: Vec<i64> = rejected.iter().map(|(sent, _)| sent.id).collect();
        let rejected = rejected.into_iter().map(|(sent, error)| (sent.id, error));
        let new: Vec<_> = rejected.filter(|(id, _)| !self.parked.contains(id)).collect();
        park(store, OUTBOX, &new).await?;
        self.parked.extend(new.iter().map(|(id, _)| id));
        failed.map_or(Ok(ids), Err)
    }

    /// Retries until every outcome is on disk or its lease has ended. Rejected outcomes are left: a shutdown does not wait for a repair.
    pub(super) async fn settle_all(&mut self) {
        while !self.is_empty() {
            self.pause().await;
            self.settle().await;
        }
    }

    /// Waits until it is time to try again.
    pub(super) async fn pause(&self) {
        if let Some(at) = self.again_at() {
            tokio::time::sleep_until(at).await;
        }
    }

    fn keep_for_later(&mut self, error: &store::Error) {
        let before = self.over.len();
        self.over.retain(Finished::is_ours);
        let (kept, lost) = (self.over.len(), before - self.over.len());
        if kept > 0 {
            tracing::warn!(%error, messages = kept, "what was sent is not on disk yet: it is tried again");
            self.again_at = Some(Instant::now() + PAUSE);
        }
        if lost > 0 {
            tracing::warn!(
                %error, messages = lost, "what was sent did not get to disk in time: it will be sent again"
            );
        }
    }
}
