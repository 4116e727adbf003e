//! The claimed items of one partition, and the workers that attempt them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::claim::Claimed;
use super::policy::ClaimPolicy;

/// Claimed items that wait for a worker. A worker starts with an item, goes on with the next one that waits, and ends
/// when none does: a quick receiver costs no task per item, and an idle partition has no task at all.
pub(super) struct PartitionQueue<P: ClaimPolicy>(Mutex<State<P>>);

struct State<P: ClaimPolicy> {
    waiting: VecDeque<Claimed<P>>,
    workers: usize,
}

impl<P: ClaimPolicy> Default for PartitionQueue<P> {
    fn default() -> Self {
        Self(Mutex::new(State { waiting: VecDeque::new(), workers: 0 }))
    }
}

impl<P: ClaimPolicy> PartitionQueue<P> {
    /// Adds an item. Returns it if a worker is to start with it: fewer than `most` work.
    pub(super) fn add(&self, claimed: Claimed<P>, most: usize) -> Option<Claimed<P>> {
        let mut state = self.state();
        if state.workers < most {
            state.workers += 1;
            return Some(claimed);
        }
        state.waiting.push_back(claimed);
        None
    }

    /// The next item of a worker; `None` ends it.
    pub(super) fn next(&self) -> Option<Claimed<P>> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.workers -= 1;
        }
        next
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state().workers == 0
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
