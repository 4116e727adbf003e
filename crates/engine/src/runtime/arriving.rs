//! Answers of outside workers that have arrived and are not written yet, here and on other nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch_kernel::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::signal::Signal;
use super::{Shared, StoreBackoff};
use crate::clock::Clock;

/// How often nodes say which answers are written, as a part of the lease.
const SHARED_PER_LEASE: u32 = 10;
/// How often a node asks the others while a time-out waits for them.
const ASKED_IN_NEED: Duration = Duration::from_millis(100);

/// An answer that is not written by then holds up no time-out and no lease any more: a table that takes no reports of webhooks
/// must not stop the workers of sagas.
const HOLDS_UP_FOR: Duration = Duration::from_secs(60);

/// The store may stall while an answer is written. The answer arrived in time all the same, so no worker's time or lease ends
/// before every live node has written the answers that arrived until then.
#[derive(Clone)]
pub struct ArrivingAnswers(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    tickets: Mutex<Tickets>,
    written: Notify,
    /// What other nodes say; absent where there can be none.
    others: Option<OtherNodes>,
}

#[derive(Default)]
struct Tickets {
    next: u64,
    /// Answers that are not written yet.
    open: BTreeMap<u64, Arrival>,
}

/// When an answer arrived, by the engine's clock and by the one that only moves forward.
#[derive(Clone, Copy)]
struct Arrival {
    at: Timestamp,
    since: Instant,
}

impl Arrival {
    fn holds_up(&self) -> bool {
        self.since.elapsed() < HOLDS_UP_FOR
    }
}

struct OtherNodes {
    /// They have written every answer that arrived before this time.
    written_until: watch::Sender<Timestamp>,
    /// A time-out waits for them.
    needed: Signal,
}

/// Held until the answer is written or refused.
#[must_use = "an answer counts as written once this is dropped"]
pub struct ArrivingAnswer {
    answers: Arc<Inner>,
    ticket: u64,
}

impl ArrivingAnswers {
    pub(super) fn new(clock: Arc<dyn Clock>, is_shared: bool) -> Self {
        let others =
            OtherNodes { written_until: watch::Sender::new(Timestamp::default()), needed: Signal::default() };
        Self(Arc::new(Inner {
            clock,
            tickets: Mutex::default(),
            written: Notify::new(),
            others: is_shared.then_some(others),
        }))
    }

    /// An answer has arrived.
    pub fn arrive(&self) -> ArrivingAnswer {
        let arrived = Arrival { at: self.0.clock.now(), since: Instant::now() };
        let mut tickets = self.0.tickets();
        let ticket = tickets.next;
        tickets.next += 1;
        tickets.open.insert(ticket, arrived);
        ArrivingAnswer { answers: self.0.clone(), ticket }
    }

    /// Waits until the answers that have arrived at this node by now are written. Later ones do not prolong the wait.
    async fn written_here(&self) {
        let next = self.0.tickets().next;
        loop {
            let mut written = std::pin::pin!(self.0.written.notified());
            // From here on no notification is missed.
            written.as_mut().enable();
            let Some(until) = self.0.tickets().held_up_until(next) else { return };
            // Whether it was written or took too long, the others are looked at again.
            let _ = tokio::time::timeout_at(until, written).await;
        }
    }

    /// Waits until the answers that have arrived at any live node by now are written.
    pub async fn written_everywhere(&self) {
        let now = self.0.clock.now();
        self.written_here().await;
        let Some(others) = &self.0.others else { return };
        let mut written_until = others.written_until.subscribe();
        if *written_until.borrow() < now {
            others.needed.wake();
            // The sender is part of this very value, so waiting cannot fail.
            let _ = written_until.wait_for(|until| *until >= now).await;
        }
    }

    /// Waits until leases may be judged. A shared database judges them by what all nodes have written; a node that has the store
    /// to itself writes what has arrived first.
    pub async fn before_leases_expire(&self) {
        if self.0.others.is_none() {
            self.written_here().await;
        }
    }

    /// The time until which every answer that arrived at this node is written.
    fn written_until(&self) -> Timestamp {
        // Read first: an answer that arrives meanwhile is later.
        let now = self.0.clock.now();
        let tickets = self.0.tickets();
        let held_up = tickets.open.values().filter(|arrival| arrival.holds_up()).map(|arrival| arrival.at);
        held_up.min().map_or(now, |oldest| oldest.min(now))
    }
}

/// Tells other nodes which answers this one has written, and learns the same of them.
pub(super) async fn share_written_answers(shared: Arc<Shared>) {
    let arriving = shared.arriving.clone();
    let Some(others) = &arriving.0.others else { return };
    let between = shared.options.lease / SHARED_PER_LEASE;
    let mut backoff = StoreBackoff::default();
    while !shared.is_stopped() {
        let (asked, until) = (arriving.0.clock.now(), arriving.written_until());
        match shared.answer(shared.store.share_written_answers(shared.epoch(), until)).await {
            // A node that joins later has no answer that arrived before it was asked who there is.
            Ok(theirs) => {
                backoff.reset();
                others.written_until.send_replace(theirs.map_or(asked, |theirs| theirs.min(asked)));
            }
            Err(error) => {
                if backoff.is_news("share_written_answers", &error) {
                    tracing::warn!(%error, "cannot tell other nodes which answers of workers are written");
                }
                backoff.wait(&shared).await;
                continue;
            }
        }
        let is_needed = others.written_until.receiver_count() > 0;
        let pause = if is_needed { between.min(ASKED_IN_NEED) } else { between };
        tokio::select! {
            _ = others.needed.wait(pause) => {}
            () = shared.stopped() => {}
        }
    }
}

impl Tickets {
    /// Until when the oldest answer before this number holds others up; `None` if none does.
    fn held_up_until(&self, next: u64) -> Option<Instant> {
        let (_, oldest) = self.open.range(..next).find(|(_, arrival)| arrival.holds_up())?;
        Some(oldest.since + HOLDS_UP_FOR)
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
    use crate::clock::SystemClock;

    fn answers(is_shared: bool) -> ArrivingAnswers {
        ArrivingAnswers::new(Arc::new(SystemClock), is_shared)
    }

    #[tokio::test]
    async fn waits_for_earlier_answers_and_not_for_later_ones() {
        let answers = answers(false);
        let (first, second) = (answers.arrive(), answers.arrive());
        let mut written = Box::pin(answers.written_everywhere());
        assert!(written.as_mut().now_or_never().is_none());
        let _later = answers.arrive();
        drop(second);
        assert!(written.as_mut().now_or_never().is_none(), "the first one is not written yet");
        drop(first);
        assert!(written.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn answer_that_is_never_written_holds_up_others_for_a_minute() {
        let answers = answers(false);
        let _open = answers.arrive();
        let began = Instant::now();
        answers.written_everywhere().await;
        assert_eq!(began.elapsed(), HOLDS_UP_FOR);
    }

    #[tokio::test]
    async fn nothing_times_out_before_other_nodes_have_written() {
        let answers = answers(true);
        let others = answers.0.others.as_ref().unwrap();
        let mut written = Box::pin(answers.written_everywhere());
        assert!(written.as_mut().now_or_never().is_none(), "they have not said so yet");
        others.written_until.send_replace(answers.written_until());
        assert!(written.now_or_never().is_some());
    }

    #[test]
    fn a_node_says_from_when_its_answers_are_not_written() {
        let answers = answers(true);
        let before = answers.written_until();
        let first = answers.arrive();
        let until = answers.written_until();
        let _second = answers.arrive();
        assert!(before <= until && answers.written_until() == until);
        drop(first);
        assert!(answers.written_until() >= until);
    }
}
