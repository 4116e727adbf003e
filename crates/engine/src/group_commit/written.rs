//! What writers have written, and their newest failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::error::Error;
use crate::store;

/// How many groups were written, and whether the newest write failed.
#[derive(Default)]
pub struct Written {
    groups: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

/// A write that failed, with none that worked since.
#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) error: Arc<store::Error>,
    pub(crate) at: Instant,
}

impl Written {
    pub(crate) fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    /// Why nothing can be written, as far as is known.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn wrote_group(&self) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.worked();
    }

    /// Something was written.
    pub(crate) fn worked(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Something that does not go through a group could not be written, if that is what this says.
    pub(crate) fn failed_with(&self, error: &Error) {
        if let Error::Store(error) = error {
            self.failed(error.clone());
        }
    }

    /// Something could not be written.
    pub(crate) fn failed(&self, error: Arc<store::Error>) {
        let failure = Failure { error, at: Instant::now() };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
}
