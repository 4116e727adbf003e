//! Spaces calls to a shared database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Spaces the calls of one loop to a database that others use too.
///
/// A call costs a server about as much for one row as for twenty, so a loop that calls again at once leaves the server no
/// time for anything else. The next call begins as long after the last one as that one took. The interval between the starts
/// of two calls has an upper limit: under load a call takes longer than that, and calls follow each other without a pause.
#[derive(Debug)]
pub struct Pace {
    longest_interval: Duration,
    /// How long the last call took, in microseconds.
    took: AtomicU64,
}

impl Pace {
    /// Calls without a pause.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::new(Duration::ZERO)
    }

    /// Calls that begin at most so far apart.
    #[must_use]
    pub const fn new(longest_interval: Duration) -> Self {
        Self { longest_interval, took: AtomicU64::new(0) }
    }

    /// Records that a call has ended which began at this time.
    pub fn record(&self, began: Instant) {
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
    }

    /// When the call after the one that began at this time may begin.
    #[must_use]
    pub fn next(&self, began: Instant) -> Instant {
        let took = Duration::from_micros(self.took.load(Ordering::Relaxed));
        began + self.longest_interval.min(took.saturating_mul(2))
    }

    /// Whether calls follow each other without a pause.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.longest_interval.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pause_is_as_long_as_the_call_within_a_limit() {
        let pace = Pace::new(Duration::from_millis(5));
        let began = Instant::now();
        assert_eq!(pace.next(began), began, "nothing is known yet");
        tokio::time::advance(Duration::from_millis(2)).await;
        pace.record(began);
        assert_eq!(pace.next(began), began + Duration::from_millis(4));
        tokio::time::advance(Duration::from_millis(1)).await;
        pace.record(began);
        assert_eq!(pace.next(began), began + Duration::from_millis(5));
        tokio::time::advance(Duration::from_millis(6)).await;
        pace.record(began);
        assert!(pace.next(began) < Instant::now(), "a slow call is followed at once");
    }
}
