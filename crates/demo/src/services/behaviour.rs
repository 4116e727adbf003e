//! Behaviours of a simulated service.

use std::time::Duration;

/// The reaction to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// `succeed`: takes effect and responds.
    Succeed,
    /// `refuse`: no effect, 422 with a reason such as `OUT_OF_STOCK`.
    Refuse,
    /// `fail`: no effect, 500.
    Fail,
    /// `busy`: no effect, 503 with a `Retry-After` of one second.
    Busy,
    /// `hang`: takes effect and responds only when released, or never if the caller disconnects.
    Hang,
    /// `delay`: takes effect and responds after this time.
    Delay(Duration),
    /// `garbage`: takes effect and responds 200 without valid JSON.
    Garbage,
    /// `giant`: takes effect and responds 200 with an oversized body.
    Giant,
    /// `redirect`: no effect, 307.
    Redirect,
    /// `drop`: takes effect and closes the connection without a response.
    Drop,
    /// This behaviour for the first calls under a key, then success.
    First(u32, Box<Behaviour>),
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    CarriedOut,
    Refused,
    LeftAlone,
}

impl Behaviour {
    /// The behaviour of a call after this many calls under its key.
    pub(super) fn after(self, earlier: u32) -> Self {
        match self {
            Self::First(times, behaviour) if earlier < times => behaviour.after(earlier),
            Self::First(..) => Self::Succeed,
            other => other,
        }
    }

    /// The effect precedes the response, so a lost response loses only the knowledge of it.
    pub(super) fn work(&self) -> Work {
        match self {
            Self::Refuse => Work::Refused,
            Self::Fail | Self::Busy | Self::Redirect => Work::LeftAlone,
            Self::First(_, behaviour) => behaviour.work(),
            Self::Succeed | Self::Hang | Self::Delay(_) | Self::Garbage | Self::Giant | Self::Drop => {
                Work::CarriedOut
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_times_behaviour_ends_after_them() {
        let twice = Behaviour::First(2, Box::new(Behaviour::Busy));
        let seen: Vec<_> = (0..4).map(|earlier| twice.clone().after(earlier)).collect();
        assert_eq!(seen, [Behaviour::Busy, Behaviour::Busy, Behaviour::Succeed, Behaviour::Succeed]);
    }
}
