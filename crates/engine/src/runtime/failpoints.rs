//! Failpoints: where enabled bugs change what the engine does. Without the feature `planted-bugs` none can be enabled.

pub(crate) use backstitch_kernel::failpoints::{Bug, is_enabled};

use crate::store::outbox::NewMessage;
use crate::store::{Commit, Store, Verdict};

/// Appends what lost its fence all the same, at whatever number comes next.
pub(crate) async fn force(store: &dyn Store, commit: &mut Commit) -> Option<Verdict> {
    let mut tried = None;
    loop {
        let log = store.log(commit.saga, 0, usize::MAX).await.ok()?;
        let head = log.last().map_or(0, |recorded| recorded.seq);
        // Refused though nothing was appended since: the saga has ended, and no store appends to it.
        if tried.replace(head) == Some(head) {
            return Some(Verdict::Fenced);
        }
        for (recorded, seq) in commit.events.iter_mut().zip(head + 1..) {
            recorded.seq = seq;
        }
        let verdicts = store.commit(std::slice::from_ref(commit)).await.ok()?;
        if verdicts.first() != Some(&Verdict::Fenced) {
            return verdicts.into_iter().next();
        }
    }
}

/// Leaves a batch's messages to the next one, which brings those of the batch before.
pub(crate) fn put_off_messages(batch: &mut [Commit], late: &mut Vec<NewMessage>) {
    if !is_enabled(Bug::OutboxOutsideTransaction) {
        return;
    }
    let earlier = std::mem::take(late);
    for commit in batch.iter_mut() {
        late.append(&mut commit.messages);
    }
    if let Some(first) = batch.first_mut() {
        first.messages = earlier;
    }
}
