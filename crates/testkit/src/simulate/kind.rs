//! The kinds of things that happen, and how likely each is.

use super::random::Random;

/// The kinds of things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A call is answered.
    Answer,
    /// An outside worker leases an attempt.
    Lease,
    /// An outside worker answers.
    WorkerAnswer,
    /// An outside worker has not answered in time.
    GivenUp,
    /// A call is answered after its attempt is over.
    LateAnswer,
    /// There is room for a limited step.
    Room,
    /// There is room for a step that may not have asked.
    RoomForNobody,
    /// The saga is looked at for no reason.
    Glance,
    /// Time passes until the next thing is due.
    Due,
    /// The node dies.
    Crash,
    /// The node dies with a decision in its hands.
    LostDecision,
    /// The node dies between a decision's append and its effects.
    LostEffects,
    /// A node that lost the saga without noticing takes an answer and tries to append what follows.
    Zombie,
    /// Somebody cancels.
    Cancel,
    /// Somebody pauses.
    Pause,
    /// Somebody resumes.
    Resume,
    /// The node starts nothing new.
    Hold,
    /// The node is ready again.
    Release,
    /// The clock jumps ahead.
    ClockAhead,
    /// The clock jumps back.
    ClockBack,
    /// Somebody decides about a failed compensation.
    Resolve,
    /// Somebody wants to resolve what has not failed.
    ResolveNothing,
}

/// What the likelihood of things depends on.
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Circumstances {
    pub(super) calls: u64,
    /// Attempts that wait for an outside worker.
    pub(super) queued: u64,
    /// Outside workers that will answer.
    pub(super) workers: u64,
    pub(super) asks: u64,
    /// Nothing happens by itself until something is due.
    pub(super) idle_until_due: bool,
    pub(super) ghosts: bool,
    pub(super) zombie: bool,
    pub(super) paused: bool,
    pub(super) held: bool,
    /// Faults are let loose.
    pub(super) trouble: bool,
    pub(super) crashes: u64,
}

impl Circumstances {
    /// Draws what happens next among all that can.
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
