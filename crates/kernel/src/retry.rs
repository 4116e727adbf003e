//! Retry policies.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the wait between two attempts grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The same wait every time.
    Fixed(Duration),
    /// `base`, then doubled every time, up to `cap`.
    Exponential {
        /// The first wait.
        base: Duration,
        /// The longest wait.
        cap: Duration,
    },
    /// These waits in turn; the last one repeats.
    List(Vec<Duration>),
}

/// How often an attempt is repeated, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "wire::Retry", into = "wire::Retry")]
pub struct Retry {
    /// Retries after the first attempt.
    pub count: u32,
    /// The backoff before each.
    pub backoff: Backoff,
    /// Adds up to this many percent to each wait, so that many sagas do not retry at the same time. The jitter is a
    /// function of saga
    /// and attempt: the same log gives the same times.
    pub jitter_percent: u8,
    /// Time limit of all attempts and the waits between them. A retry that cannot start in time is not made.
    pub within: Option<Duration>,
}

/// The default cap of an exponential backoff.
pub const DEFAULT_CAP: Duration = Duration::from_secs(3600);

/// The longest `Retry-After` that is honoured if the policy names no cap.
pub const LONGEST_WISH: Duration = Duration::from_secs(300);

impl Retry {
    /// No retries.
    #[must_use]
    pub fn none() -> Self {
        Self::fixed(0, Duration::ZERO)
    }

    /// `count` retries, each after `delay`.
    #[must_use]
    pub fn fixed(count: u32, delay: Duration) -> Self {
        Self { count, backoff: Backoff::Fixed(delay), jitter_percent: 0, within: None }
    }

    /// `count` retries, the first after `base`, each further one after twice the wait, at most [`DEFAULT_CAP`].
    #[must_use]
    pub fn exponential(count: u32, base: Duration) -> Self {
        Self {
            count,
            backoff: Backoff::Exponential { base, cap: DEFAULT_CAP },
            jitter_percent: 0,
            within: None,
        }
    }

    /// One retry after each of these waits.
    #[must_use]
    pub fn after_each(waits: Vec<Duration>) -> Self {
        let count = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        Self { count, backoff: Backoff::List(waits), jitter_percent: 0, within: None }
    }

    /// The same policy with another cap; only an exponential backoff has one.
    #[must_use]
    pub fn with_cap(mut self, longest: Duration) -> Self {
        if let Backoff::Exponential { cap, .. } = &mut self.backoff {
            *cap = longest;
        }
        self
    }

    /// The same policy with jitter of up to `percent` (at most 100).
    #[must_use]
    pub fn with_jitter(mut self, percent: u8) -> Self {
        self.jitter_percent = percent.min(100);
        self
    }

    /// The same policy with this time limit of all attempts.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// The longest `Retry-After` that is honoured: the policy's own cap, if it names one, so that no saga waits longer
    /// than its author
    /// expects.
    #[must_use]
    pub fn longest_wish(&self) -> Duration {
        match self.backoff {
            // The default cap was not chosen by the author.
            Backoff::Exponential { cap, .. } if cap != DEFAULT_CAP => cap,
            Backoff::Exponential { .. } | Backoff::Fixed(_) | Backoff::List(_) => LONGEST_WISH,
        }
    }

    /// Whether another attempt is due after `failures` failed ones.
    #[must_use]
    pub fn allows_another(&self, failures: u32) -> bool {
        failures <= self.count
    }

    /// The wait after the `failures`-th failure, counted from 1. `seed` varies the jitter between sagas and steps.
    #[must_use]
    pub fn wait(&self, failures: u32, seed: u64) -> Duration {
        let turn = failures.saturating_sub(1);
        let plain = match &self.backoff {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { base, cap } => {
                base.saturating_mul(1_u32.checked_shl(turn).unwrap_or(u32::MAX)).min(*cap)
            }
            Backoff::List(waits) => {
                let last = waits.len().saturating_sub(1);
                let index = usize::try_from(turn).map_or(last, |turn| turn.min(last));
                waits.get(index).copied().unwrap_or(Duration::ZERO)
            }
        };
        if self.jitter_percent == 0 {
            return plain;
        }
        // In millionths: whole percents would group many sagas at the same times.
        let most = u64::from(self.jitter_percent) * 10_000;
        let share = scatter(seed ^ u64::from(failures)) % (most + 1);
        let extra = plain.as_nanos().saturating_mul(u128::from(share)) / 1_000_000;
        plain.saturating_add(Duration::from_nanos(u64::try_from(extra).unwrap_or(u64::MAX)))
    }
}

/// Spreads neighbouring numbers over the whole range (the finalizer of `SplitMix64`).
fn scatter(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The serialised form: `{count, delay, backoff, max_delay, delays, jitter}`.
mod wire {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::{Backoff, DEFAULT_CAP};
    use crate::time::text;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Retry {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u32>,
        #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
        delay: Option<Duration>,
        #[serde(default, skip_serializing_if = "Shape::is_fixed")]
        backoff: Shape,
        #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
        max_delay: Option<Duration>,
        #[serde(default, with = "text::list", skip_serializing_if = "Vec::is_empty")]
        delays: Vec<Duration>,
        #[serde(default, skip_serializing_if = "is_zero")]
        jitter: u8,
        #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
        within: Option<Duration>,
    }

    #[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        #[default]
        Fixed,
        Exponential,
        List,
    }

    impl Shape {
        #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
        fn is_fixed(&self) -> bool {
            *self == Self::Fixed
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_zero(percent: &u8) -> bool {
        *percent == 0
    }

    impl From<Retry> for super::Retry {
        fn from(wire: Retry) -> Self {
            let shape = if wire.delays.is_empty() { wire.backoff } else { Shape::List };
            let delay = wire.delay.unwrap_or(Duration::ZERO);
            let listed = u32::try_from(wire.delays.len()).unwrap_or(u32::MAX);
            let backoff = match shape {
                Shape::Fixed => Backoff::Fixed(delay),
                Shape::Exponential => {
                    Backoff::Exponential { base: delay, cap: wire.max_delay.unwrap_or(DEFAULT_CAP) }
                }
                Shape::List => Backoff::List(wire.delays),
            };
            Self {
                count: wire.count.unwrap_or(listed),
                backoff,
                jitter_percent: wire.jitter.min(100),
                within: wire.within,
            }
        }
    }

    impl From<super::Retry> for Retry {
        fn from(retry: super::Retry) -> Self {
            let (backoff, delay, max_delay, delays) = match retry.backoff {
                Backoff::Fixed(delay) => (Shape::Fixed, Some(delay), None, Vec::new()),
                Backoff::Exponential { base, cap } => (Shape::Exponential, Some(base), Some(cap), Vec::new()),
                Backoff::List(waits) => (Shape::List, None, None, waits),
            };
            Self {
                count: Some(retry.count),
                delay,
                backoff,
                max_delay,
                delays,
                jitter: retry.jitter_percent,
                within: retry.within,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn waits(retry: &Retry, count: u32) -> Vec<u64> {
        (1..=count).map(|nth| retry.wait(nth, 0).as_secs()).collect()
    }

    #[test]
    fn a_count_of_retries_allows_one_attempt_more() {
        let retry = Retry::fixed(2, secs(5));
        assert!(retry.allows_another(1));
        assert!(retry.allows_another(2));
        assert!(!retry.allows_another(3));
        assert!(!Retry::none().allows_another(1));
    }

    #[test]
    fn a_fixed_wait_stays_the_same() {
        assert_eq!(waits(&Retry::fixed(9, secs(5)), 3), [5, 5, 5]);
    }

    #[test]
    fn an_exponential_wait_doubles_up_to_its_cap_and_never_wraps() {
        let retry = Retry::exponential(99, secs(5)).with_cap(secs(60));
        assert_eq!(waits(&retry, 6), [5, 10, 20, 40, 60, 60]);
        for late in [31, 32, 33, 34, 64, 65, u32::MAX] {
            assert_eq!(retry.wait(late, 0), secs(60), "after {late} failures");
        }
        assert_eq!(retry.wait(0, 0), secs(5), "failures count from 1");
        let small = Retry::exponential(99, Duration::from_nanos(1)).with_cap(Duration::MAX);
        assert_eq!(small.wait(32, 0), Duration::from_nanos(1 << 31));
        assert_eq!(small.wait(33, 0), Duration::from_nanos(u64::from(u32::MAX)));
        assert_eq!(Retry::exponential(9, secs(3000)).wait(2, 0), DEFAULT_CAP);
    }

    #[test]
    fn a_cap_is_for_exponential_waits_only() {
        let retry = Retry::fixed(1, secs(50)).with_cap(secs(5));
        assert_eq!(retry, Retry::fixed(1, secs(50)));
    }

    #[test]
    fn retry_after_is_capped_by_the_policy_or_five_minutes() {
        let own = Retry::exponential(9, secs(1)).with_cap(secs(30));
        assert_eq!(own.longest_wish(), secs(30));
        assert_eq!(own.with_cap(secs(7200)).longest_wish(), secs(7200));
        for none in
            [Retry::exponential(9, secs(1)), Retry::fixed(9, secs(1)), Retry::after_each(vec![secs(9)])]
        {
            assert_eq!(none.longest_wish(), secs(300), "{none:?}");
        }
    }

    #[test]
    fn a_list_of_waits_ends_in_its_last() {
        let retry = Retry::after_each(vec![secs(1), secs(5), secs(30)]);
        assert_eq!(retry.count, 3);
        assert_eq!(waits(&retry, 5), [1, 5, 30, 30, 30]);
        assert_eq!(waits(&Retry::after_each(Vec::new()), 2), [0, 0]);
    }

    #[test]
    fn jitter_is_the_same_for_the_same_seed_and_stays_in_its_bounds() {
        let retry = Retry::fixed(9, secs(1000)).with_jitter(20);
        let mut seen = Vec::new();
        for seed in 0..500 {
            let wait = retry.wait(1, seed);
            assert_eq!(wait, retry.wait(1, seed));
            assert!(wait >= secs(1000) && wait <= secs(1200), "{wait:?}");
            seen.push(wait);
        }
        assert!(seen.iter().any(|&wait| wait < secs(1020)), "it uses the lower end");
        assert!(seen.iter().any(|&wait| wait > secs(1180)), "it uses the upper end");
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 490, "only {} different waits: sagas would retry in crowds", seen.len());
        assert_ne!(retry.wait(1, 7), retry.wait(2, 7), "each failure has its own");
    }

    #[test]
    fn jitter_values_are_the_same_in_every_version() {
        let retry = Retry::fixed(9, secs(1000)).with_jitter(100);
        let micros: Vec<u128> = (1..=3).map(|nth| retry.wait(nth, 42).as_micros()).collect();
        assert_eq!(micros, [1_506_898_000, 1_629_421_000, 1_333_648_000]);
    }

    #[test]
    fn jitter_never_overflows_and_is_held_at_a_hundred_percent() {
        let retry = Retry::fixed(1, Duration::MAX).with_jitter(255);
        assert_eq!(retry.jitter_percent, 100);
        assert_eq!(retry.wait(1, 1), Duration::MAX);
        assert_eq!(Retry::fixed(1, Duration::ZERO).with_jitter(50).wait(1, 1), Duration::ZERO);
    }

    fn json(retry: &Retry) -> String {
        serde_json::to_string(retry).unwrap()
    }

    #[test]
    fn every_policy_survives_its_written_form() {
        for (retry, written) in [
            (Retry::none(), r#"{"count":0,"delay":"0s"}"#),
            (Retry::fixed(2, secs(5)), r#"{"count":2,"delay":"5s"}"#),
            (
                Retry::exponential(3, Duration::from_millis(200)).with_jitter(10),
                r#"{"count":3,"delay":"200ms","backoff":"exponential","max_delay":"1h","jitter":10}"#,
            ),
            (
                Retry::after_each(vec![secs(5), secs(90)]),
                r#"{"count":2,"backoff":"list","delays":["5s","1m 30s"]}"#,
            ),
            (Retry::after_each(Vec::new()), r#"{"count":0,"backoff":"list"}"#),
        ] {
            assert_eq!(json(&retry), written);
            assert_eq!(serde_json::from_str::<Retry>(written).unwrap(), retry);
        }
    }

    #[test]
    fn absent_retry_fields_have_defaults() {
        let read = |text: &str| serde_json::from_str::<Retry>(text).unwrap();
        assert_eq!(read(r#"{"delays": ["1s", "2s"]}"#), Retry::after_each(vec![secs(1), secs(2)]));
        assert_eq!(read(r#"{"count": 7, "delays": ["1s"]}"#).count, 7);
        assert_eq!(
            read(r#"{"count": 1, "delay": "1s", "backoff": "exponential"}"#),
            Retry::exponential(1, secs(1))
        );
        assert_eq!(
            read(r#"{"count": 1, "delay": "1s", "backoff": "exponential", "max_delay": "4s"}"#),
            Retry::exponential(1, secs(1)).with_cap(secs(4))
        );
        assert_eq!(read(r#"{"count": 1, "jitter": 200}"#).jitter_percent, 100);
        assert_eq!(read("{}"), Retry::none());
    }

    #[test]
    fn a_misspelt_policy_is_refused_with_a_hint() {
        let refused = |text: &str| serde_json::from_str::<Retry>(text).unwrap_err().to_string();
        assert!(refused(r#"{"cuont": 2}"#).contains("cuont"));
        let hint = "write it like 200ms, 30s or 5m";
        assert!(refused(r#"{"delay": "soon"}"#).contains(hint));
        assert!(refused(r#"{"delays": ["soon"]}"#).contains(hint));
    }
}
