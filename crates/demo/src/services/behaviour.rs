//! The ways a service can behave.

use std::time::Duration;

/// What a service does about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// `succeed`: carries it out and says so.
    Succeed,
    /// `refuse`: says no for good, with 422 and a reason such as `OUT_OF_STOCK`.
    Refuse,
    /// `fail`: does nothing and answers 500.
    Fail,
    /// `busy`: does nothing, answers 503 and asks to be called again in a second.
    Busy,
    /// `hang`: carries it out and says nothing until it is released, or the caller has left.
    Hang,
    /// `delay`: carries it out and says so only after this time.
    Delay(Duration),
    /// `garbage`: carries it out and answers 200 with what is no JSON.
    Garbage,
    /// `giant`: carries it out and answers 200 with more than anybody wants to read.
    Giant,
    /// `redirect`: does nothing and answers 307.
    Redirect,
    /// `drop`: carries it out and closes the connection without an answer.
    Drop,
    /// Behaves so the first times it is called under a key, and succeeds from then on.
    First(u32, Box<Behaviour>),
}

/// What becomes of the work that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    CarriedOut,
    Refused,
    LeftAlone,
}

impl Behaviour {
    /// The behaviour to a call under a key that `earlier` ones were made under.
    pub(super) fn after(self, earlier: u32) -> Self {
        match self {
            Self::First(times, behaviour) if earlier < times => behaviour.after(earlier),
            Self::First(..) => Self::Succeed,
            other => other,
        }
    }

    /// The work comes before the answer: what is lost with an answer is only the knowledge of it.
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
