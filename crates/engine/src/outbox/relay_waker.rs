//! "There are messages to send", from products that write them with rows of their own.

use std::sync::Arc;

use crate::engine::Engine;
use crate::runtime::signal::Signal;

/// Wakes the relay. It keeps no engine running.
#[derive(Clone)]
pub struct RelayWaker(Arc<Signal>);

impl RelayWaker {
    /// Wakes the relay.
    pub fn wake(&self) {
        self.0.wake();
    }
}

impl Engine {
    /// Wakes the relay, for a product that writes messages in transactions of its own.
    #[must_use]
    pub fn relay(&self) -> RelayWaker {
        RelayWaker(self.shared().outbox.clone())
    }
}
