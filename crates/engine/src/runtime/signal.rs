//! "Look again": a nudge that is never lost, with a wait in case nobody nudges.

use std::time::Duration;

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Signal(Notify);

impl Signal {
    pub(crate) fn nudge(&self) {
        self.0.notify_one();
    }

    /// Waits for a nudge, at most this long; says whether there was one.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        tokio::time::timeout(at_most, self.0.notified()).await.is_ok()
    }
}
