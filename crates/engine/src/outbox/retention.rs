//! What is over is kept for a while and then pruned, in small batches.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::Shared;
use crate::store;
use crate::store::outbox::Pruned;

/// Rows removed in one transaction, of each kind.
const BATCH: usize = 500;
/// Batches in a row; what is left then waits for the next time.
const BATCHES: usize = 20;
/// How often it is looked for what is old enough; sooner only where something is kept for less than that.
const EVERY: Duration = Duration::from_secs(60);

/// How long messages are kept that are over, and the keys of what was published.
///
/// What waits or is being sent is never removed, nor is an aborted message while another one that stands for it is on its
/// way. A key is kept at least as long as its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Messages that the other side has.
    pub sent: Duration,
    /// Messages that were given up.
    pub aborted: Duration,
    /// Keys: for so long a repeated request is known. Not shorter than the others.
    pub keys: Duration,
}

impl Default for Retention {
    /// A week; a month for what was given up, and for keys.
    fn default() -> Self {
        let days = |count: u64| Duration::from_secs(count * 24 * 3600);
        Self { sent: days(7), aborted: days(30), keys: days(30) }
    }
}

impl Retention {
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        (self.keys < self.sent || self.keys < self.aborted)
            .then_some("retention.keys must not be shorter than retention.sent and retention.aborted")
    }

    fn shortest(&self) -> Duration {
        self.sent.min(self.aborted).min(self.keys)
    }
}

/// Prunes for as long as the engine runs.
pub(crate) async fn keep_pruning(shared: Arc<Shared>) {
    let every =
        shared.options.retention.shortest().clamp(shared.options.tick, EVERY.max(shared.options.tick));
    while !shared.is_stopping() {
        match prune(&shared).await {
            Ok(Pruned { messages: 0, keys: 0 }) => {}
            Ok(Pruned { messages, keys }) => tracing::debug!(messages, keys, "old messages are removed"),
            Err(error) => tracing::warn!(%error, "old messages cannot be removed"),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = shared.stopping() => {}
        }
    }
}

async fn prune(shared: &Shared) -> Result<Pruned, store::Error> {
    let mut all = Pruned::default();
    for _ in 0..BATCHES {
        let pruned = shared.store.prune_outbox(&shared.options.retention, BATCH).await?;
        all.messages += pruned.messages;
        all.keys += pruned.keys;
        if pruned == Pruned::default() || shared.is_stopping() {
            break;
        }
    }
    Ok(all)
}
