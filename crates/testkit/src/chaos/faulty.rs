//! A store that fails at a chosen moment: it crashes, reports a full disk, loses a response, blocks its callers, or
//! cannot read a
//! saga.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use backstitch::SagaId;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{Corrupt, Error, Store};
use tokio::sync::watch;

/// The fault. Decisions are counted from 1 and written one by one, so every moment can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The process is cut off before this decision is written.
    DieBefore(u64),
    /// The process is cut off after this decision is written and before it learns the result.
    DieAfter(u64),
    /// Every n-th decision is not written because the disk is full.
    FullEvery(u64),
    /// Every n-th decision is written and its response lost.
    LoseAnswerEvery(u64),
    /// From this decision on callers block until [`Faulty::release`].
    HoldFrom(u64),
    /// The first adoption fails.
    FailFirstAdoption,
    /// The first adoption that finds a saga succeeds and its response is lost.
    LoseFirstAdoptionAnswer,
    /// Reads of this saga, also among others, fail because a row is unreadable.
    Unreadable(SagaId),
    /// Reads of this saga fail because the store does not respond.
    Unanswered(SagaId),
}

/// A fault and its state.
pub struct Faulty {
    fault: Fault,
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
    /// Wraps a store with this fault.
    #[must_use]
    pub fn on(store: Arc<dyn Store>, fault: Fault) -> Watched<Self> {
        let faulty = Self {
            fault,
            fired: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            held: watch::Sender::new(Held::NotYet),
        };
        Watched::new(store, faulty)
    }

    /// How often the fault occurred.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Waits until a caller blocks.
    pub async fn until_held(&self) {
        // The sender is this value, so it cannot be dropped.
        let _ = self.held.subscribe().wait_for(|held| *held != Held::NotYet).await;
    }

    /// Unblocks all callers.
    pub fn release(&self) {
        self.held.send_replace(Held::Released);
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

    async fn hold(&self) {
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
}

fn cut_off() -> Error {
    Error::Unavailable("this process is cut off".to_owned())
}

fn answer_lost() -> Error {
    Error::Unavailable("the answer was lost".to_owned())
}

#[async_trait]
impl Watch for Faulty {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        if self.dead.load(Ordering::SeqCst) {
            return Err(cut_off());
        }
        match (self.fault, moment) {
            (Fault::DieBefore(at), Moment::BeforeCommit(number)) if at == number => Err(self.die()),
            (Fault::DieAfter(at), Moment::AfterCommit(number)) if at == number => Err(self.die()),
            (Fault::FullEvery(every), Moment::BeforeCommit(number)) if number.is_multiple_of(every) => {
                self.fire();
                Err(Error::Full("no space left on device".to_owned()))
            }
            (Fault::LoseAnswerEvery(every), Moment::AfterCommit(number)) if number.is_multiple_of(every) => {
                self.fire();
                Err(answer_lost())
            }
            (Fault::HoldFrom(from), Moment::BeforeCommit(number)) if number >= from => {
                self.hold().await;
                Ok(())
            }
            (Fault::FailFirstAdoption, Moment::BeforeAdoption) if self.fire_once() => {
                Err(Error::Unavailable("not now".to_owned()))
            }
            (Fault::LoseFirstAdoptionAnswer, Moment::AfterAdoption([_, ..])) if self.fire_once() => {
                Err(answer_lost())
            }
            (Fault::Unreadable(saga), Moment::BeforeLoad(sagas)) if sagas.contains(&saga) => {
                self.fire();
                Err(Corrupt::of("saga_events", "data", saga, &"it was scribbled over").into())
            }
            (Fault::Unanswered(saga), Moment::BeforeLoad(sagas)) if sagas.contains(&saga) => {
                self.fire();
                Err(Error::Unavailable("disk I/O error".to_owned()))
            }
            _ => Ok(()),
        }
    }
}
