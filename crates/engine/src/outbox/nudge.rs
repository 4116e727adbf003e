//! "There are messages to send", from products that write them with rows of their own.

use std::sync::Arc;

use crate::engine::Engine;
use crate::runtime::signal::Signal;

/// Wakes the relay. It keeps no engine running.
#[derive(Clone)]
pub struct Nudge(Arc<Signal>);

impl Nudge {
    /// There may be some.
    pub fn tell(&self) {
        self.0.nudge();
    }
}

impl Engine {
    /// Wakes the relay, for a product that writes messages in transactions of its own.
    #[must_use]
    pub fn relay(&self) -> Nudge {
        Nudge(self.shared().outbox.clone())
    }
}
