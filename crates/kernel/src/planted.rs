//! Bugs planted on purpose, to prove that the checks find them. None can be planted in a program that is built
//! without the feature `planted-bugs`, and none is in any program before it is asked for.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// An append that lost its fence is given the next number and forced in.
    AppendUnfenced = 1,
    /// Attempts run before the decision to run them is on disk.
    EffectBeforeCommit = 2,
    /// Messages are written after the transaction that caused them, with the next one.
    OutboxOutsideTransaction = 3,
    /// What was done first is undone first.
    CompensationOrderReversed = 4,
    /// A step that failed for good counts as not done, whatever its attempts left behind.
    DoubtForgotten = 5,
    /// A saga ends or is let go without a look at the messages that wait for it.
    InboxUnguarded = 6,
}

#[cfg(feature = "planted-bugs")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants this bug in the whole process, in place of any other.
#[cfg(feature = "planted-bugs")]
pub fn enable(bug: Bug) {
    PLANTED.store(bug as u8, std::sync::atomic::Ordering::SeqCst);
}

/// Takes the planted bug out again.
#[cfg(feature = "planted-bugs")]
pub fn disable() {
    PLANTED.store(0, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is planted.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == bug as u8
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn is_planted(_: Bug) -> bool {
    false
}
