//! Where a walk got to.

use std::sync::{Mutex, PoisonError};

/// What is over is gone through from the oldest on, again and again: what began long ago may have ended just now, and what is
/// in the way today may not be tomorrow. Where a walk got to is remembered, so that no look begins with what stays, and nothing
/// that stays is in the way of what comes after it.
pub(super) struct Walk<T>(Mutex<Option<T>>);

impl<T> Default for Walk<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Walk<T> {
    /// Behind what the next look begins; nothing where a walk begins.
    pub(super) fn reached(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on behind this one, or begins anew. Whether it goes on.
    pub(super) fn go_on(&self, next: Option<T>) -> bool {
        let goes_on = next.is_some();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = next;
        goes_on
    }
}
