//! How often and after which wait something is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the wait between two attempts grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The same wait every time.
    Fixed(Duration),
    /// `base`, then twice as long every time, up to `cap`.
    Exponential {
        /// The first wait.
        base: Duration,
        /// The longest wait.
        cap: Duration,
    },
    /// These waits in turn; the last one serves whatever comes after.
    List(Vec<Duration>),
}

/// How often an attempt is repeated, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "wire::Retry", into = "wire::Retry")]
pub struct Retry {
    /// Retries after the first attempt.
    pub count: u32,
    /// The wait before each.
    pub backoff: Backoff,
    /// Spread the waits by up to this share, in percent, so that many sagas do not retry in step.
    /// The spread is a function of saga and attempt: the same log gives the same times.
    pub jitter_percent: u8,
}

/// The longest wait an exponential backoff reaches unless a cap is given.
pub const DEFAULT_CAP: Duration = Duration::from_secs(3600);

impl Retry {
    /// No second attempt.
    #[must_use]
    pub fn none() -> Self {
        Self::fixed(0, Duration::ZERO)
    }

    /// `count` retries, each after `delay`.
    #[must_use]
    pub fn fixed(count: u32, delay: Duration) -> Self {
        Self {
            count,
            backoff: Backoff::Fixed(delay),
            jitter_percent: 0,
        }
    }

    /// `count` retries, the first after `base`, each further one after twice the wait, at most [`DEFAULT_CAP`].
    #[must_use]
    pub fn exponential(count: u32, base: Duration) -> Self {
        Self {
            count,
            backoff: Backoff::Exponential {
                base,
                cap: DEFAULT_CAP,
            },
            jitter_percent: 0,
        }
    }

    /// One retry after each of these waits.
    #[must_use]
    pub fn after_each(waits: Vec<Duration>) -> Self {
        let count = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        Self {
            count,
            backoff: Backoff::List(waits),
            jitter_percent: 0,
        }
    }

    /// The same policy with another longest wait; only an exponential backoff has one.
    #[must_use]
    pub fn with_cap(mut self, longest: Duration) -> Self {
        if let Backoff::Exponential { cap, .. } = &mut self.backoff {
            *cap = longest;
        }
        self
    }

    /// The same policy with its waits spread by up to `percent` (at most 100).
    #[must_use]
    pub fn with_jitter(mut self, percent: u8) -> Self {
        self.jitter_percent = percent.min(100);
        self
    }

    /// Whether another attempt is due after `failures` failed ones.
    #[must_use]
    pub fn allows_another(&self, failures: u32) -> bool {
        failures <= self.count
    }

    /// The wait after the `failures`-th failure, counted from 1. `seed` tells sagas and steps apart.
    #[must_use]
    pub fn wait(&self, failures: u32, seed: u64) -> Duration {
        let turn = failures.saturating_sub(1);
        let plain = match &self.backoff {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { base, cap } => base
                .saturating_mul(1_u32.checked_shl(turn).unwrap_or(u32::MAX))
                .min(*cap),
            Backoff::List(waits) => {
                let last = waits.len().saturating_sub(1);
                let index = usize::try_from(turn).map_or(last, |turn| turn.min(last));
                waits.get(index).copied().unwrap_or(Duration::ZERO)
            }
        };
        if self.jitter_percent == 0 {
            return plain;
        }
        let share = scatter(seed ^ u64::from(failures)) % (u64::from(self.jitter_percent) + 1);
        let extra = plain.as_nanos().saturating_mul(u128::from(share)) / 100;
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

/// The form a policy has in definitions: `{count, delay, backoff, max_delay, delays, jitter}`.
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
        #[expect(
            clippy::trivially_copy_pass_by_ref,
            reason = "serde calls it with a reference"
        )]
        fn is_fixed(&self) -> bool {
            *self == Self::Fixed
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    fn is_zero(percent: &u8) -> bool {
        *percent == 0
    }

    impl From<Retry> for super::Retry {
        fn from(wire: Retry) -> Self {
            let shape = if wire.delays.is_empty() {
                wire.backoff
            } else {
                Shape::List
            };
            let delay = wire.delay.unwrap_or(Duration::ZERO);
            let listed = u32::try_from(wire.delays.len()).unwrap_or(u32::MAX);
            let backoff = match shape {
                Shape::Fixed => Backoff::Fixed(delay),
                Shape::Exponential => Backoff::Exponential {
                    base: delay,
                    cap: wire.max_delay.unwrap_or(DEFAULT_CAP),
                },
                Shape::List => Backoff::List(wire.delays),
            };
            Self {
                count: wire.count.unwrap_or(listed),
                backoff,
                jitter_percent: wire.jitter.min(100),
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
            }
        }
    }
}
