//! Answers of outside workers that have arrived and are not written yet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The store may stall while an answer is written. The answer arrived in time all the same, so nothing times out before it
/// is on disk.
#[derive(Clone, Default)]
pub struct ArrivingAnswers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tickets: Mutex<Tickets>,
    written: Notify,
}

#[derive(Default)]
struct Tickets {
    next: u64,
    open: BTreeSet<u64>,
}

/// Held until the answer is written or refused.
pub(crate) struct ArrivingAnswer {
    answers: Arc<Inner>,
    ticket: u64,
}

impl ArrivingAnswers {
    /// An answer has arrived.
    pub(crate) fn arrive(&self) -> ArrivingAnswer {
        let mut tickets = self.0.tickets();
        let ticket = tickets.next;
        tickets.next += 1;
        tickets.open.insert(ticket);
        ArrivingAnswer { answers: self.0.clone(), ticket }
    }

    /// Waits until the answers that have arrived by now are written. Later ones do not prolong the wait.
    pub async fn written(&self) {
        let next = self.0.tickets().next;
        loop {
            let mut written = std::pin::pin!(self.0.written.notified());
            // From here on no notification is missed.
            written.as_mut().enable();
            if self.0.tickets().open.first().is_none_or(|oldest| *oldest >= next) {
                return;
            }
            written.await;
        }
    }
}

impl Inner {
    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ArrivingAnswer {
    fn drop(&mut self) {
        self.answers.tickets().open.remove(&self.ticket);
        self.answers.written.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn waits_for_earlier_answers_and_not_for_later_ones() {
        let answers = ArrivingAnswers::default();
        let (first, second) = (answers.arrive(), answers.arrive());
        let mut written = Box::pin(answers.written());
        assert!(written.as_mut().now_or_never().is_none());
        let _later = answers.arrive();
        drop(second);
        assert!(written.as_mut().now_or_never().is_none(), "the first one is not written yet");
        drop(first);
        assert!(written.now_or_never().is_some());
    }
}
