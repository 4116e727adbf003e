//! A store whose world ends at a chosen commit: from then on nothing is read or written any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::scenario::{self, Crash};
use crate::store::watched::{Moment, Watch, Watched};
use crate::store::{Error, Store};

/// What a process that dies sees of its store.
pub(super) struct Halting {
    crash: Option<Crash>,
    halted: AtomicBool,
    halt: Notify,
}

impl Halting {
    pub(super) fn on(store: Arc<dyn Store>, crash: Option<Crash>) -> Watched<Self> {
        Watched::new(store, Self { crash, halted: AtomicBool::new(false), halt: Notify::new() })
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

    fn is_the_end(&self, moment: Moment<'_>) -> bool {
        let (commit, moment) = match moment {
            Moment::BeforeCommit(number) => (number, scenario::Moment::Before),
            Moment::AfterCommit(number) => (number, scenario::Moment::After),
            _ => return false,
        };
        self.crash == Some(Crash { commit, moment })
    }
}

#[async_trait]
impl Watch for Halting {
    /// An error, not silence: the engine of the dead process gives up on an error once it is dropped, but would wait
    /// for an answer for ever.
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        if self.is_the_end(moment) {
            self.halted.store(true, Ordering::Release);
            self.halt.notify_one();
        }
        if self.has_halted() { Err(Error::Unavailable("this process is dead".to_owned())) } else { Ok(()) }
    }
}
