//! What was removed, and whether anything is in the way.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch_kernel::Timestamp;

/// What this process has removed since it began, by kind, and how that goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows removed.
    pub removed: BTreeMap<&'static str, u64>,
    /// Documents that the archive has kept.
    pub exported: BTreeMap<&'static str, u64>,
    /// Pages of a file that were given back to the file system.
    pub pages_given_back: u64,
    /// Rounds in which something was in the way.
    pub failed: u64,
    /// When this process last went through everything that is old enough.
    pub last_run: Option<Timestamp>,
    /// What was in the way in the newest round of this process, if anything was, and with it what is not removed. Nothing where
    /// another process has the turn: that one tells.
    pub held_up: Option<String>,
}

/// A report that is being written.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Report>);

impl Ledger {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Report) -> T) -> T {
        change(&mut self.open())
    }

    pub(super) fn read(&self) -> Report {
        self.open().clone()
    }

    fn open(&self) -> MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
