//! Rate limit of one partition.

use std::time::Duration;

use super::Rate;

/// Counts attempts against a rate, by the generic cell rate algorithm. An attempt that is not made is uncounted again.
pub(super) struct Meter {
    rate: Rate,
    /// The time that one attempt uses up.
    share: Duration,
    /// When the whole rate is available again.
    even_at: Duration,
}

impl Meter {
    /// `None` for a rate that limits nothing. What was used of the previous rate counts against this one: rates change when nodes
    /// join and leave, and a change must not grant a full burst.
    pub(super) fn after(before: Option<&Self>, rate: Rate) -> Option<Self> {
        let share = rate.every / rate.requests.get();
        let even_at = before.map_or(Duration::ZERO, |before| before.even_at);
        (!share.is_zero()).then_some(Self { rate, share, even_at })
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Counts one attempt; otherwise says when the next one is allowed.
    pub(super) fn count(&mut self, now: Duration) -> Result<(), Duration> {
        let even_at = self.even_at.max(now) + self.share;
        let possible_at = even_at.saturating_sub(self.share * self.rate.requests.get());
        if possible_at > now {
            return Err(possible_at);
        }
        self.even_at = even_at;
        Ok(())
    }

    /// Uncounts an attempt that was not made.
    pub(super) fn uncount(&mut self) {
        self.even_at = self.even_at.saturating_sub(self.share);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn rate(requests: u32, every: Duration) -> Rate {
        Rate { requests: NonZeroU32::new(requests).unwrap(), every }
    }

    fn meter(requests: u32, every: Duration) -> Option<Meter> {
        Meter::after(None, rate(requests, every))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    #[test]
    fn after_a_rest_all_come_at_once_and_then_evenly() {
        let mut meter = meter(60, Duration::from_secs(60)).unwrap();
        assert_eq!((0..100).filter(|_| meter.count(at(0)).is_ok()).count(), 60);
        assert_eq!(meter.count(at(0)), Err(at(1)));
        assert_eq!((0..100).filter(|_| meter.count(at(10)).is_ok()).count(), 10);
        assert_eq!((0..100).filter(|_| meter.count(at(1000)).is_ok()).count(), 60, "no more is saved up");
    }

    #[test]
    fn what_was_not_used_can_be_had_again() {
        let mut meter = meter(2, Duration::from_secs(10)).unwrap();
        assert!(meter.count(at(0)).is_ok() && meter.count(at(0)).is_ok() && meter.count(at(0)).is_err());
        meter.uncount();
        assert!(meter.count(at(0)).is_ok());
        assert_eq!(meter.count(at(0)), Err(at(5)));
    }

    #[test]
    fn what_was_used_up_is_used_up_of_another_rate_too() {
        let every = Duration::from_secs(8);
        let mut before = meter(8, every).unwrap();
        (0..4).for_each(|_| before.count(at(0)).unwrap());
        for (requests, left) in [(2, 1), (4, 2), (16, 8)] {
            let mut meter = Meter::after(Some(&before), rate(requests, every)).unwrap();
            assert_eq!((0..100).filter(|_| meter.count(at(0)).is_ok()).count(), left, "half of {requests}");
        }
    }

    #[test]
    fn a_rate_without_a_time_limits_nothing() {
        assert!(meter(5, Duration::ZERO).is_none());
    }
}
