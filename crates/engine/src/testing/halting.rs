//! A store whose world ends at a chosen commit: from then on nothing is read or written any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::Recorded;
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::Notify;

use super::scenario::{Crash, Moment};
use crate::inbox::{Message, Posted};
use crate::store::jobs::{Job, Leased, Settled, Settlement};
use crate::store::memory::MemoryStore;
use crate::store::nodes::{Epoch, Known, Node, Registered};
use crate::store::outbox::{Outgoing, Sent};
use crate::store::{Commit, Cursor, Error, Filter, Health, Page, Store, Stored, Verdict, Writers};

/// What a process that dies sees of its store.
pub(super) struct Halting {
    store: Arc<MemoryStore>,
    crash: Option<Crash>,
    commits: AtomicU64,
    halted: AtomicBool,
    halt: Notify,
}

impl Halting {
    pub(super) fn new(store: Arc<MemoryStore>, crash: Option<Crash>) -> Self {
        Self { store, crash, commits: AtomicU64::new(0), halted: AtomicBool::new(false), halt: Notify::new() }
    }

    /// Ends when the world does.
    pub(super) async fn halted(&self) {
        while !self.has_halted() {
            self.halt.notified().await;
        }
    }

    pub(super) fn has_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// The store, as long as there is one. An error, not silence: the engine of the dead process gives up on an
    /// error once it is dropped, but would wait for an answer for ever.
    fn store(&self) -> Result<&MemoryStore, Error> {
        if self.has_halted() { Err(gone()) } else { Ok(&self.store) }
    }

    fn end_of_the_world(&self) -> Error {
        self.halted.store(true, Ordering::Release);
        self.halt.notify_one();
        gone()
    }
}

fn gone() -> Error {
    Error::Unavailable("this process is dead".to_owned())
}

#[async_trait]
impl Store for Halting {
    fn writers(&self) -> Writers {
        self.store.writers()
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for commit in batch {
            let number = self.commits.fetch_add(1, Ordering::AcqRel) + 1;
            let moment = self.crash.filter(|crash| crash.commit == number).map(|crash| crash.moment);
            let store = self.store()?;
            if moment == Some(Moment::Before) {
                return Err(self.end_of_the_world());
            }
            verdicts.extend(store.commit(std::slice::from_ref(commit)).await?);
            if moment == Some(Moment::After) {
                return Err(self.end_of_the_world());
            }
        }
        Ok(verdicts)
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        self.store()?.load(sagas).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.store()?.log(saga, after, limit).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        self.store()?.list(filter, cursor).await
    }

    async fn health(&self, known: &[Known], stuck_since: Timestamp, limit: usize) -> Result<Health, Error> {
        self.store()?.health(known, stuck_since, limit).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        self.store()?.join(node).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        self.store()?.heartbeat(epoch).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        self.store()?.leave(epoch).await
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<SagaId>, Error> {
        self.store()?.adopt(node, epoch, known, at, limit).await
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        self.store()?.next_wake(known).await
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        self.store()?.post(saga, message, at).await
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.store()?.owned(epoch).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.store()?.mail(epoch).await
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        self.store()?.register(definition).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        self.store()?.definition(name, version).await
    }

    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Leased>, Error> {
        self.store()?.lease_jobs(queues, lease, limit).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        self.store()?.settle_jobs(settlements).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.store()?.job(id).await
    }

    async fn claim_outbox(&self, lease: Duration, limit: usize) -> Result<Vec<Outgoing>, Error> {
        self.store()?.claim_outbox(lease, limit).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        self.store()?.settle_outbox(sent).await
    }

    async fn next_outgoing(&self) -> Result<Option<Timestamp>, Error> {
        self.store()?.next_outgoing().await
    }
}
