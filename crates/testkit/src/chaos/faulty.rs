//! A store that breaks at a chosen moment: it dies, it says that the disk is full, it loses an answer, it keeps somebody
//! waiting until the world has moved on, or it cannot read a saga.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox::{Message, Posted};
use backstitch::kernel::saga::Recorded;
use backstitch::store::jobs::{Job, Leased, Settled, Settlement};
use backstitch::store::nodes::{Epoch, Known, Node, Registered};
use backstitch::store::outbox::{Outgoing, Sent};
use backstitch::store::{
    Commit, Corrupt, Cursor, Error, Filter, Health, Page, Store, Stored, Verdict, Writers,
};
use backstitch::{SagaId, Timestamp};
use tokio::sync::watch;

/// What goes wrong. Decisions are counted from 1 and written one by one, so that every moment can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The process is cut off before this decision is written.
    DieBefore(u64),
    /// The process is cut off after this decision is written and before it hears of it.
    DieAfter(u64),
    /// Every so many decisions one is not written, for want of space.
    FullEvery(u64),
    /// Every so many decisions one is written and its answer is lost.
    LoseAnswerEvery(u64),
    /// From this decision on everybody waits until [`Faulty::release`].
    HoldFrom(u64),
    /// The first adoption is not done.
    FailFirstAdoption,
    /// The first adoption that finds anything is done and its answer is lost.
    LoseFirstAdoptionAnswer,
    /// Whoever asks for this saga, be it among others, hears that a row cannot be read.
    Unreadable(SagaId),
}

/// A store as a process in trouble sees it.
pub struct Faulty {
    store: Arc<dyn Store>,
    fault: Fault,
    decisions: AtomicU64,
    fired: AtomicU64,
    dead: AtomicBool,
    held: watch::Sender<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    NotYet,
    Waiting,
    Released,
}

impl Faulty {
    /// This store with this fault.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, fault: Fault) -> Self {
        Self {
            store,
            fault,
            decisions: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            held: watch::Sender::new(Held::NotYet),
        }
    }

    /// How often the fault came about.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Waits until somebody waits for [`Faulty::release`].
    pub async fn until_held(&self) {
        // The sender is this very value, so it cannot be gone.
        let _ = self.held.subscribe().wait_for(|held| *held != Held::NotYet).await;
    }

    /// Lets everybody go on.
    pub fn release(&self) {
        self.held.send_replace(Held::Released);
    }

    fn alive(&self) -> Result<&dyn Store, Error> {
        if self.dead.load(Ordering::SeqCst) { Err(cut_off()) } else { Ok(&*self.store) }
    }

    /// Whether this is the first time.
    fn fire_once(&self) -> bool {
        self.fired.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn fire(&self) {
        self.fired.fetch_add(1, Ordering::SeqCst);
    }

    fn die(&self) -> Error {
        self.fire();
        self.dead.store(true, Ordering::SeqCst);
        cut_off()
    }

    async fn write(&self, commit: &Commit) -> Result<Verdict, Error> {
        let number = self.decisions.fetch_add(1, Ordering::SeqCst) + 1;
        let store = self.alive()?;
        match self.fault {
            Fault::DieBefore(at) if at == number => return Err(self.die()),
            Fault::FullEvery(every) if number.is_multiple_of(every) => {
                self.fire();
                return Err(Error::Full("no space left on device".to_owned()));
            }
            Fault::HoldFrom(from) if number >= from => {
                self.fire();
                self.held.send_if_modified(|held| {
                    let first = *held == Held::NotYet;
                    if first {
                        *held = Held::Waiting;
                    }
                    first
                });
                let _ = self.held.subscribe().wait_for(|held| *held == Held::Released).await;
            }
            _ => {}
        }
        let verdict = store.commit(std::slice::from_ref(commit)).await?.into_iter().next();
        let verdict = verdict.ok_or_else(|| Error::Unavailable("no verdict".to_owned()))?;
        match self.fault {
            Fault::DieAfter(at) if at == number => Err(self.die()),
            Fault::LoseAnswerEvery(every) if number.is_multiple_of(every) => {
                self.fire();
                Err(answer_lost())
            }
            _ => Ok(verdict),
        }
    }
}

fn cut_off() -> Error {
    Error::Unavailable("this process is cut off".to_owned())
}

fn answer_lost() -> Error {
    Error::Unavailable("the answer was lost".to_owned())
}

#[async_trait]
impl Store for Faulty {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn writers(&self) -> Writers {
        self.store.writers()
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for commit in batch {
            verdicts.push(self.write(commit).await?);
        }
        Ok(verdicts)
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        if let Fault::Unreadable(saga) = self.fault
            && sagas.contains(&saga)
        {
            self.fire();
            return Err(Corrupt::of("saga_events", "data", saga, &"it was scribbled over").into());
        }
        self.alive()?.load(sagas).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.alive()?.log(saga, after, limit).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        self.alive()?.list(filter, cursor).await
    }

    async fn health(&self, known: &[Known], stuck_since: Timestamp, limit: usize) -> Result<Health, Error> {
        self.alive()?.health(known, stuck_since, limit).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        self.alive()?.join(node).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        self.alive()?.heartbeat(epoch).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        self.alive()?.leave(epoch).await
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<SagaId>, Error> {
        let store = self.alive()?;
        if self.fault == Fault::FailFirstAdoption && self.fire_once() {
            return Err(Error::Unavailable("not now".to_owned()));
        }
        let adopted = store.adopt(node, epoch, known, at, limit).await?;
        if self.fault == Fault::LoseFirstAdoptionAnswer && !adopted.is_empty() && self.fire_once() {
            return Err(answer_lost());
        }
        Ok(adopted)
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        self.alive()?.next_wake(known).await
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        self.alive()?.post(saga, message, at).await
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.alive()?.owned(epoch).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.alive()?.mail(epoch).await
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        self.alive()?.register(definition).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        self.alive()?.definition(name, version).await
    }

    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Leased>, Error> {
        self.alive()?.lease_jobs(queues, lease, limit).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        self.alive()?.settle_jobs(settlements).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.alive()?.job(id).await
    }

    async fn claim_outbox(&self, lease: Duration, limit: usize) -> Result<Vec<Outgoing>, Error> {
        self.alive()?.claim_outbox(lease, limit).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        self.alive()?.settle_outbox(sent).await
    }

    async fn next_outgoing(&self) -> Result<Option<Timestamp>, Error> {
        self.alive()?.next_outgoing().await
    }
}
