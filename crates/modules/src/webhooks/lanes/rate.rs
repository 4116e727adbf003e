//! How many requests in a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::Rate;

/// Counts against a rate.
pub(super) struct Meter {
    rate: Rate,
    hand: Hand,
    limiter: RateLimiter<NotKeyed, InMemoryState, Hand, NoOpMiddleware<Duration>>,
}

impl Meter {
    /// Nothing for a rate that limits nothing.
    pub(super) fn new(rate: Rate, now: Duration) -> Option<Self> {
        let quota = Quota::with_period(rate.every / rate.requests.get())?.allow_burst(rate.requests);
        let hand = Hand::default();
        hand.set(now);
        Some(Self { rate, limiter: RateLimiter::direct_with_clock(quota, hand.clone()), hand })
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Counts one, or says until when there is none to be had.
    pub(super) fn count(&self, now: Duration) -> Result<(), Duration> {
        self.hand.set(now);
        self.limiter.check().map_err(|until| now + until.wait_time_from(now))
    }
}

/// A clock that shows what it is set to.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn set(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn meter(requests: u32, every: Duration) -> Option<Meter> {
        Meter::new(Rate { requests: NonZeroU32::new(requests).unwrap(), every }, Duration::from_secs(100))
    }

    #[test]
    fn after_a_rest_all_come_at_once_and_then_evenly() {
        let meter = meter(60, Duration::from_secs(60)).unwrap();
        let at = |seconds: u64| Duration::from_secs(100 + seconds);
        assert_eq!((0..100).filter(|_| meter.count(at(0)).is_ok()).count(), 60);
        assert_eq!(meter.count(at(0)), Err(at(1)));
        assert_eq!((0..100).filter(|_| meter.count(at(10)).is_ok()).count(), 10);
        assert_eq!((0..100).filter(|_| meter.count(at(1000)).is_ok()).count(), 60, "no more is saved up");
    }

    #[test]
    fn a_rate_without_a_time_limits_nothing() {
        assert!(meter(5, Duration::ZERO).is_none());
    }
}
