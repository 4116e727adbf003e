//! A store under watch: tests refuse its calls, hold them up, or lose their answers.

mod documents;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::mpsc;

use super::diagnostics::{Footing, Survey};
use super::nodes::{AdoptedBatch, AdoptedSaga, Epoch, Joined, Known, Node, Notice};
use super::outbox::{
    Ages, Kept, Listing, Outgoing, Publication, Published, Rescued, Retried, Sent, Share, Waiting,
};
use super::parked::{ParkedFilter, ParkedItem, Rejection};
use super::product::Database;
use super::retention::{Bulk, Gone, Key, KeyName, OldKeys, OldMessages, OldSagas, Shrunk};
use super::sealed::Sealed;
use super::{
    Backend, Commit, Counts, Cursor, DiagnosticsStore, Error, Filter, InFlight, InboxStore, JobStore,
    LogHead, MessageStore, NodeStore, OutboxStore, OwnershipStore, Page, ParkedStore, Release,
    RetentionStore, SagaStore, Store, Stored, Summary, Verdict, Writers,
};
use crate::inbox::{Message, Posted};
use crate::jobs::{Job, LeaseBatch, QueueState, Settled, Settlement, Withdrawal};

/// Who watches a store.
#[async_trait]
pub trait Watch: Send + Sync + 'static {
    /// Called at each of these moments; an error is the answer of the call that led here.
    ///
    /// # Errors
    /// Whatever the caller is to hear.
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error>;
}

/// What is about to be done, or has just been.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// This decision is about to be written. They are counted from 1 and written one by one.
    BeforeCommit(u64),
    /// This decision has been written.
    AfterCommit(u64),
    /// These sagas are about to be read.
    BeforeLoad(&'a [SagaId]),
    /// Sagas are about to be adopted.
    BeforeAdoption,
    /// These sagas have been adopted.
    AfterAdoption(&'a [AdoptedSaga]),
    /// This saga is about to be released without a decision.
    BeforeRelease(SagaId),
    /// This saga was released, unless its owner had to keep it.
    AfterRelease(SagaId),
    /// A job that no worker has is about to be taken back.
    BeforeWithdrawal,
    /// It has been, unless a worker has it.
    AfterWithdrawal,
    /// What became of messages is about to be written.
    BeforeSettlingMessages,
    /// It has been written.
    AfterSettlingMessages,
    /// These sagas are over for long and about to be removed.
    BeforeRemoval(&'a [SagaId]),
    /// Somebody is about to read a log.
    BeforeLog,
    /// A version of this name is about to be staged.
    BeforeStaging(&'a str),
    /// What is staged under this name is about to be applied.
    BeforeApplying(&'a str),
    /// Somebody is about to ask how far logs go.
    BeforeHeads,
    /// Somebody is about to listen.
    BeforeListening,
    /// Any other call is about to be made.
    Before,
}

/// A store as those see it who do not know of the watch.
pub struct Watched<W> {
    store: Arc<dyn Store>,
    watch: W,
    decisions: AtomicU64,
}

impl<W: Watch> Watched<W> {
    /// This store under this watch.
    pub fn new(store: Arc<dyn Store>, watch: W) -> Self {
        Self { store, watch, decisions: AtomicU64::new(0) }
    }

    async fn admitted(&self) -> Result<&dyn Store, Error> {
        self.watch.at(Moment::Before).await?;
        Ok(&*self.store)
    }
}

impl<W> Deref for Watched<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.watch
    }
}

impl<W: Watch> Sealed for Watched<W> {}

#[async_trait]
impl<W: Watch> Backend for Watched<W> {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn database(&self) -> Database<'_> {
        self.store.database()
    }

    fn writers(&self) -> Writers {
        self.store.writers()
    }

    async fn clock(&self) -> Result<Option<Timestamp>, Error> {
        self.admitted().await?.clock().await
    }

    fn check_identity(&self) -> Result<(), Error> {
        self.store.check_identity()
    }

    async fn probe(&self, commits: bool) -> Result<(), Error> {
        self.admitted().await?.probe(commits).await
    }

    async fn put_away(&self) {
        self.store.put_away().await;
    }
}

#[async_trait]
impl<W: Watch> SagaStore for Watched<W> {
    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for commit in batch {
            let number = self.decisions.fetch_add(1, Ordering::SeqCst) + 1;
            self.watch.at(Moment::BeforeCommit(number)).await?;
            verdicts.extend(self.store.commit(std::slice::from_ref(commit)).await?);
            self.watch.at(Moment::AfterCommit(number)).await?;
        }
        Ok(verdicts)
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        self.watch.at(Moment::BeforeLoad(sagas)).await?;
        self.store.load(sagas).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.watch.at(Moment::BeforeLog).await?;
        self.store.log(saga, after, limit).await
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.watch.at(Moment::BeforeLog).await?;
        self.store.durable_log(saga, after, limit).await
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        self.watch.at(Moment::BeforeHeads).await?;
        self.store.heads(logs).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        self.admitted().await?.list(filter, cursor).await
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        self.admitted().await?.rows(sagas).await
    }
}

#[async_trait]
impl<W: Watch> OwnershipStore for Watched<W> {
    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        self.watch.at(Moment::BeforeAdoption).await?;
        let adopted = self.store.adopt(node, epoch, known, at, limit).await?;
        self.watch.at(Moment::AfterAdoption(&adopted.sagas)).await?;
        Ok(adopted)
    }

    async fn release(&self, release: Release) -> Result<bool, Error> {
        self.watch.at(Moment::BeforeRelease(release.saga)).await?;
        let released = self.store.release(release).await?;
        self.watch.at(Moment::AfterRelease(release.saga)).await?;
        Ok(released)
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.admitted().await?.owned(epoch).await
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        self.admitted().await?.next_wake(known).await
    }
}

#[async_trait]
impl<W: Watch> NodeStore for Watched<W> {
    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        self.admitted().await?.nodes(limit).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        self.admitted().await?.join(node).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        self.admitted().await?.heartbeat(epoch).await
    }

    async fn try_writing(&self, epoch: Epoch) -> Result<bool, Error> {
        self.admitted().await?.try_writing(epoch).await
    }

    async fn share_written_answers(
        &self,
        epoch: Epoch,
        until: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        self.admitted().await?.share_written_answers(epoch, until).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        self.admitted().await?.leave(epoch).await
    }
}

#[async_trait]
impl<W: Watch> InboxStore for Watched<W> {
    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        self.admitted().await?.post(saga, message, at).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        self.admitted().await?.mail(epoch).await
    }

    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        self.watch.at(Moment::BeforeListening).await?;
        self.store.listen().await
    }
}

#[async_trait]
impl<W: Watch> JobStore for Watched<W> {
    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<LeaseBatch, Error> {
        self.admitted().await?.lease_jobs(queues, lease, limit).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        self.admitted().await?.settle_jobs(settlements).await
    }

    async fn queue_state(
        &self,
        queues: &[String],
        area: &'static str,
        limit: usize,
    ) -> Result<QueueState, Error> {
        self.admitted().await?.queue_state(queues, area, limit).await
    }

    async fn has_due_job(&self, owner: SagaId) -> Result<bool, Error> {
        self.admitted().await?.has_due_job(owner).await
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        self.watch.at(Moment::BeforeWithdrawal).await?;
        let withdrawn = self.store.withdraw_job(withdrawal, at).await?;
        self.watch.at(Moment::AfterWithdrawal).await?;
        Ok(withdrawn)
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.admitted().await?.job(id).await
    }
}

#[async_trait]
impl<W: Watch> MessageStore for Watched<W> {
    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        self.admitted().await?.publish(batch, at).await
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        self.admitted().await?.message(id).await
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        self.admitted().await?.message_of(topic, key).await
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        self.admitted().await?.messages(listing, limit).await
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        self.admitted().await?.retry_message(id, at).await
    }
}

#[async_trait]
impl<W: Watch> OutboxStore for Watched<W> {
    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        self.admitted().await?.waiting_topics().await
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        self.admitted().await?.claim_outbox(shares, sender).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        self.watch.at(Moment::BeforeSettlingMessages).await?;
        self.store.settle_outbox(sent).await?;
        self.watch.at(Moment::AfterSettlingMessages).await
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        self.admitted().await?.rescue_outbox(limit).await
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        self.admitted().await?.outbox_ages().await
    }
}

#[async_trait]
impl<W: Watch> ParkedStore for Watched<W> {
    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
        self.admitted().await?.park(area, rejected).await
    }

    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        self.admitted().await?.list_parked(filter, limit).await
    }

    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        self.admitted().await?.parked(area, limit).await
    }

    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        self.admitted().await?.retry_parked(filter).await
    }
}

#[async_trait]
impl<W: Watch> RetentionStore for Watched<W> {
    async fn take_turn(&self, holder: &str, lease: Duration) -> Result<bool, Error> {
        self.admitted().await?.take_turn(holder, lease).await
    }

    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        self.admitted().await?.old_sagas(status, age, after, limit).await
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        self.admitted().await?.bulk_of_sagas(sagas).await
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        self.admitted().await?.keys_of_sagas(sagas).await
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        self.watch.at(Moment::BeforeRemoval(sagas)).await?;
        self.store.remove_sagas(sagas, status, age).await
    }

    async fn old_messages(
        &self,
        status: super::outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        self.admitted().await?.old_messages(status, age, besides, after, limit).await
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        self.admitted().await?.remove_messages(messages).await
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        self.admitted().await?.old_keys(age, after, limit).await
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        self.admitted().await?.remove_keys(keys).await
    }

    async fn shrink(&self, pages: u32) -> Result<Shrunk, Error> {
        self.admitted().await?.shrink(pages).await
    }
}

#[async_trait]
impl<W: Watch> DiagnosticsStore for Watched<W> {
    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        self.admitted().await?.counts(known).await
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        self.admitted().await?.in_flight(definition).await
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        self.admitted().await?.stuck(since, limit).await
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        self.admitted().await?.survey(limit).await
    }

    async fn footing(&self) -> Result<Option<Footing>, Error> {
        self.admitted().await?.footing().await
    }
}
