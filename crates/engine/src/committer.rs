//! Writes decisions in groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::group_commit::{Closed, GroupCommit, GroupWriter, ItemResult, Pace, Written};
use crate::planting;
use crate::store::outbox::NewMessage;
use crate::store::{self, Commit, Store, Verdict};

/// Takes decisions from everywhere and writes them in groups.
pub(crate) struct Committer {
    group: GroupCommit<Commit, Verdict>,
    applied: Arc<AtomicU64>,
}

impl Committer {
    /// Starts writing. A store that works on the calling thread gets one of its own.
    pub(crate) fn start(store: &Arc<dyn Store>) -> Result<Self, store::Error> {
        let applied = Arc::new(AtomicU64::new(0));
        let writer =
            DecisionWriter { store: store.clone(), applied: applied.clone(), late_messages: Vec::new() };
        let group = GroupCommit::start(&writer, store.writers(), Pace::unlimited())?;
        Ok(Self { group, applied })
    }

    /// Writes what is waiting and releases the store; what comes later is refused.
    pub(crate) async fn close(&self, within: Duration) {
        if !self.group.close(within).await {
            tracing::warn!(
                "the store does not answer: decisions on their way are looked up in the log next time"
            );
        }
    }

    pub(crate) fn written(&self) -> &Written {
        self.group.written()
    }

    /// Decisions applied by this process.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// Writes a decision; returns once it is durable, or known not to be.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<ItemResult<Commit, Verdict>, Closed> {
        self.group.write_and_return(commit).await
    }
}

#[derive(Clone)]
struct DecisionWriter {
    store: Arc<dyn Store>,
    applied: Arc<AtomicU64>,
    late_messages: Vec<NewMessage>,
}

impl GroupWriter for DecisionWriter {
    type Item = Commit;
    type Answer = Verdict;

    const MAX_ITEMS: usize = 512;

    fn prepare(&mut self, commits: &mut [Commit]) {
        planting::put_off_messages(commits, &mut self.late_messages);
    }

    async fn write(&self, commits: &[Commit]) -> Result<Vec<Verdict>, store::Error> {
        let verdicts = self.store.commit(commits).await?;
        let applied = verdicts.iter().filter(|verdict| **verdict == Verdict::Applied).count();
        self.applied.fetch_add(applied as u64, Ordering::Relaxed);
        Ok(verdicts)
    }
}
