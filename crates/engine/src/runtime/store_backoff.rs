//! Backoff for retrying failed store calls.

use std::collections::HashMap;
use std::time::Duration;

use super::{STORE_RETRY, Shared};
use crate::store;

/// The longest wait between two tries: how long it may take to notice that a store is available again.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits longer after each failure, and remembers what was logged.
#[derive(Default)]
pub(crate) struct StoreBackoff {
    tries: u32,
    /// The newest error of each call.
    logged: HashMap<&'static str, String>,
}

impl StoreBackoff {
    /// Whether this call has not failed with this error before: each error is logged once.
    pub(crate) fn is_news(&mut self, what: &'static str, error: &store::Error) -> bool {
        let why = error.to_string();
        self.logged.insert(what, why.clone()) != Some(why)
    }

    /// Waits before the next try; a stopped engine waits only briefly.
    pub(crate) async fn wait(&mut self, shared: &Shared) {
        let pause = (STORE_RETRY * 2_u32.saturating_pow(self.tries)).min(LONGEST);
        self.tries = (self.tries + 1).min(8);
        tokio::time::sleep(STORE_RETRY).await;
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(STORE_RETRY)) => {}
            () = shared.stopped() => {}
        }
    }

    /// A call succeeded; returns whether one failed before.
    pub(crate) fn reset(&mut self) -> bool {
        let before = std::mem::take(self);
        before.tries > 0 || !before.logged.is_empty()
    }
}
