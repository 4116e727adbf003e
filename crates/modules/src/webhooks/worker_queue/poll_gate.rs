//! Limits how many waiting workers poll the database at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Polls at the same time: more would only wait for the database.
const AT_ONCE: usize = 4;

/// A new job wakes every waiting worker, and most of them in vain. Few poll at once. A worker that still waits for a permit when a
/// poll that began later finds nothing does not poll at all.
pub(super) struct PollGate {
    polls: Semaphore,
    empty: Mutex<Option<Poll>>,
}

#[derive(Clone, Copy)]
struct Poll {
    /// How many times jobs had been enqueued by then.
    enqueued: u64,
    at: Instant,
}

/// Permission to poll.
pub(super) struct PollPermit<'a> {
    gate: &'a PollGate,
    poll: Poll,
    _permit: Option<SemaphorePermit<'a>>,
}

impl PollGate {
    pub(super) fn new() -> Self {
        Self { polls: Semaphore::new(AT_ONCE), empty: Mutex::default() }
    }

    /// Permission to poll, unless there is nothing to be found; `enqueued` says how many times jobs have been enqueued so far.
    pub(super) async fn acquire(&self, enqueued: impl Fn() -> u64) -> Option<PollPermit<'_>> {
        let came = Instant::now();
        let permit = self.polls.acquire().await.ok();
        let poll = Poll { enqueued: enqueued(), at: Instant::now() };
        let covers = |before: &Poll| before.enqueued == poll.enqueued && before.at > came;
        let is_empty = self.empty().as_ref().is_some_and(covers);
        (!is_empty).then_some(PollPermit { gate: self, poll, _permit: permit })
    }

    fn empty(&self) -> MutexGuard<'_, Option<Poll>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PollPermit<'_> {
    /// The poll found nothing.
    pub(super) fn found_nothing(self) {
        *self.gate.empty() = Some(self.poll);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: std::time::Duration = std::time::Duration::from_millis(1);

    /// As many polls as there may be at once.
    async fn all_polling(gate: &PollGate) -> Vec<PollPermit<'_>> {
        let mut polling = Vec::new();
        for _ in 0..AT_ONCE {
            polling.push(gate.acquire(|| 7).await.unwrap());
        }
        polling
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_worker_does_not_poll_after_a_later_empty_poll() {
        let gate = PollGate::new();
        let mut polling = all_polling(&gate).await;
        tokio::time::advance(SOME).await;
        let (mut second, mut third) =
            (std::pin::pin!(gate.acquire(|| 7)), std::pin::pin!(gate.acquire(|| 7)));
        assert!(futures::poll!(second.as_mut()).is_pending() && futures::poll!(third.as_mut()).is_pending());
        tokio::time::advance(SOME).await;
        polling.remove(0).found_nothing();
        let second = second.await.expect("the one before it began too early to know");
        second.found_nothing();
        assert!(third.await.is_none());
        assert!(gate.acquire(|| 7).await.is_some(), "a worker that comes now polls");
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_enqueued_during_an_empty_poll_are_polled_for() {
        let gate = PollGate::new();
        let mut polling = all_polling(&gate).await;
        let mut behind = std::pin::pin!(gate.acquire(|| 8));
        assert!(futures::poll!(behind.as_mut()).is_pending());
        polling.remove(0).found_nothing();
        assert!(behind.await.is_some());
    }
}
