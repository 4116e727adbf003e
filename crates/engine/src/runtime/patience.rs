//! How a store is asked again that did not do what it was asked.

use std::collections::HashMap;
use std::time::Duration;

use super::{STORE_RETRY, Shared};
use crate::store;

/// The longest wait between two tries: about as long as it may take until a store that is back is noticed.
const LONGEST: Duration = Duration::from_secs(2);

/// Asks ever more rarely, and knows what has been said about it.
#[derive(Default)]
pub(crate) struct Patience {
    tries: u32,
    /// What could not be done, and why.
    told: HashMap<&'static str, String>,
}

impl Patience {
    /// Whether this has not been the reason so far why this cannot be done: each is told once.
    pub(crate) fn is_news(&mut self, what: &'static str, error: &store::Error) -> bool {
        let why = error.to_string();
        self.told.insert(what, why.clone()) != Some(why)
    }

    /// Waits before the next try; not long where the engine ends.
    pub(crate) async fn wait(&mut self, shared: &Shared) {
        let pause = (STORE_RETRY * 2_u32.saturating_pow(self.tries)).min(LONGEST);
        self.tries = (self.tries + 1).min(8);
        tokio::time::sleep(STORE_RETRY).await;
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(STORE_RETRY)) => {}
            () = shared.stopped() => {}
        }
    }

    /// The store does what it is asked again; says whether it did not before.
    pub(crate) fn is_over(&mut self) -> bool {
        let before = std::mem::take(self);
        before.tries > 0 || !before.told.is_empty()
    }
}
