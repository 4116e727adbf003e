//! Commit: decisions are written in groups, and until their outcome is known. When the store cannot say what happened, the
//! log is read before anything is assumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstitch_kernel::saga::Recorded;

use super::Executor;
use crate::group_commit::{Closed, GroupCommit, GroupWriter, ItemResult, Pace, Written};
use crate::runtime::failpoints::{self, Bug, is_enabled};
use crate::store::outbox::NewMessage;
use crate::store::{self, Commit, Store, Verdict};

/// What the log says about a commit whose outcome is unknown.
#[derive(PartialEq, Eq)]
pub(super) enum LoggedCommit {
    Applied,
    /// Another owner has appended at this position.
    Fenced,
    /// It was not written, and can be written again.
    Absent,
    /// The engine stops, or this node was declared dead, before the log could be read.
    NotRead,
}

impl Executor {
    /// Writes a commit until its outcome is known. While the database rejects it, the saga is stalled. `None` when the engine stops meanwhile.
    pub(super) async fn commit(&mut self, mut commit: Commit) -> Option<(Commit, Verdict)> {
        let mut in_doubt = false;
        loop {
            let written = self.shared.committer.commit(commit).await.ok()?;
            commit = written.item;
            match written.result {
                // What looks like a fence may be the first try of this commit, which was on its way when the log was read.
                Ok(Verdict::Fenced) if in_doubt => {}
                Ok(Verdict::Fenced) if is_enabled(Bug::AppendUnfenced) => {
                    let verdict = failpoints::force(&*self.shared.store, &mut commit).await?;
                    return Some((commit, verdict));
                }
                // What a step has done is not given up because of a row or trigger of another program.
                Ok(Verdict::Rejected(why)) => {
                    self.store_failed("a decision is not durable yet", &store::Error::Rejected(why));
                }
                Ok(verdict) => return Some((commit, verdict)),
                Err(error) => self.store_failed("a decision is not durable yet", &error),
            }
            in_doubt = true;
            match self.look_up_commit(&commit.events).await {
                LoggedCommit::Applied => return Some((commit, Verdict::Applied)),
                LoggedCommit::Fenced => return Some((commit, Verdict::Fenced)),
                LoggedCommit::Absent => {}
                LoggedCommit::NotRead => return None,
            }
        }
    }

    /// Looks in the log for a commit whose outcome is unknown.
    pub(super) async fn look_up_commit(&mut self, events: &[Recorded]) -> LoggedCommit {
        let fence = events.first().map_or(1, |event| event.seq) - 1;
        loop {
            self.backoff.wait(&self.shared).await;
            if self.shared.is_stopped() || self.epoch != self.shared.epoch() {
                return LoggedCommit::NotRead;
            }
            match self.shared.answer(self.shared.store.durable_log(self.saga, fence, events.len())).await {
                Ok(found) if found.is_empty() => return LoggedCommit::Absent,
                Ok(found) if found == events => return LoggedCommit::Applied,
                Ok(_) => return LoggedCommit::Fenced,
                Err(error) => self.store_failed("the log cannot be read", &error),
            }
        }
    }

    /// Reports that the store failed. What does not pass by itself needs an operator: the saga is stalled until then.
    pub(super) fn store_failed(&mut self, what: &'static str, error: &store::Error) {
        if self.backoff.is_news(what, error) {
            tracing::warn!(saga = %self.saga, %error, what, "store call failed; it is tried again");
        }
        if !matches!(error, store::Error::Unavailable(_)) {
            let now = self.shared.options.clock.now();
            self.shared.stalled.note(self.saga, format!("{what}: {error}"), now);
        }
    }

    pub(super) fn store_answered(&mut self) {
        if self.backoff.reset() {
            self.shared.stalled.executed(self.saga);
        }
    }
}

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
        failpoints::put_off_messages(commits, &mut self.late_messages);
    }

    async fn write(&self, commits: &[Commit]) -> Result<Vec<Verdict>, store::Error> {
        let verdicts = self.store.commit(commits).await?;
        let applied = verdicts.iter().filter(|verdict| **verdict == Verdict::Applied).count();
        self.applied.fetch_add(applied as u64, Ordering::Relaxed);
        Ok(verdicts)
    }
}
