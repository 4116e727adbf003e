//! The kinds of simulated events and their probabilities.

use super::random::Random;

/// The kinds of simulated events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A call ends with a response.
    Answer,
    /// An outside worker leases an attempt.
    Lease,
    /// An outside worker reports.
    WorkerAnswer,
    /// An outside worker's attempt times out.
    GivenUp,
    /// A response arrives after its attempt has ended.
    LateAnswer,
    /// There is room for a limited step.
    Room,
    /// There is room for a step that may not have asked.
    RoomForNobody,
    /// A wake-up without a reason.
    Glance,
    /// Time passes until the next thing is due.
    Due,
    /// The node crashes.
    Crash,
    /// The node crashes before it commits a decision.
    LostDecision,
    /// The node crashes between a commit and its effects.
    LostEffects,
    /// A node that lost the saga without noticing takes a response and tries to append.
    Zombie,
    /// A cancel.
    Cancel,
    /// A pause.
    Pause,
    /// A resume.
    Resume,
    /// The node starts draining.
    Hold,
    /// The node stops draining.
    Release,
    /// The clock jumps ahead.
    ClockAhead,
    /// The clock jumps back.
    ClockBack,
    /// An operator resolves a failed compensation.
    Resolve,
    /// An operator tries to resolve a step without a failed compensation.
    ResolveNothing,
}

/// The inputs of the probabilities.
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Circumstances {
    pub(super) calls: u64,
    /// Attempts that wait for an outside worker.
    pub(super) queued: u64,
    /// Outside workers that will report.
    pub(super) workers: u64,
    pub(super) asks: u64,
    /// Nothing happens without input until something is due.
    pub(super) idle_until_due: bool,
    pub(super) ghosts: bool,
    pub(super) zombie: bool,
    pub(super) paused: bool,
    pub(super) held: bool,
    /// Faults are enabled.
    pub(super) trouble: bool,
    pub(super) crashes: u64,
}

impl Circumstances {
    /// Draws the next event.
    pub(super) fn draw(&self, random: &mut Random) -> Kind {
        let trouble = u64::from(self.trouble);
        let chances = [
            (Kind::Answer, 10 * self.calls),
            (Kind::Lease, 5 * self.queued),
            (Kind::WorkerAnswer, 5 * self.workers),
            (Kind::Room, 8 * self.asks),
            (Kind::Due, 30 * u64::from(self.idle_until_due)),
            (Kind::Glance, 1),
            (Kind::LateAnswer, 2 * u64::from(self.ghosts)),
            (Kind::Zombie, 4 * u64::from(self.zombie)),
            (Kind::Resume, 4 * u64::from(self.paused)),
            (Kind::Release, 4 * u64::from(self.held)),
            (Kind::Crash, self.crashes * trouble),
            (Kind::Pause, trouble),
            (Kind::Hold, trouble),
            (Kind::ClockAhead, trouble),
            (Kind::ClockBack, trouble),
            (Kind::RoomForNobody, trouble),
            (Kind::ResolveNothing, trouble),
            (Kind::Cancel, trouble),
        ];
        let all: u64 = chances.iter().map(|(_, weight)| weight).sum();
        let mut left = random.below(all);
        for (kind, weight) in chances {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::Glance
    }
}
