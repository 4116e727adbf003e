//! Failpoints: bugs enabled on purpose, to prove that the checks find them. None can be enabled in a program that is built
//! without the feature `planted-bugs`, and none is in any program before it is asked for.

/// A bug that a test can enable.
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
    /// A saga ends or is released without a look at the messages that wait for it.
    InboxUnguarded = 6,
}

#[cfg(feature = "planted-bugs")]
static ENABLED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Enables this bug in the whole process, in place of any other.
#[cfg(feature = "planted-bugs")]
pub fn enable(bug: Bug) {
    ENABLED.store(bug as u8, std::sync::atomic::Ordering::SeqCst);
}

/// Disables the bug again.
#[cfg(feature = "planted-bugs")]
pub fn disable() {
    ENABLED.store(0, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is enabled.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn is_enabled(bug: Bug) -> bool {
    ENABLED.load(std::sync::atomic::Ordering::SeqCst) == bug as u8
}

/// Whether this bug is enabled: never.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn is_enabled(_: Bug) -> bool {
    false
}
