//! A wake-up signal that is never lost, with a wait for at most the poll interval.

use std::time::Duration;

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Signal(Notify);

impl Signal {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits to be woken.
    pub(crate) async fn woken(&self) {
        self.0.notified().await;
    }

    /// Waits to be woken, at most this long; returns whether it was.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        tokio::time::timeout(at_most, self.0.notified()).await.is_ok()
    }
}
