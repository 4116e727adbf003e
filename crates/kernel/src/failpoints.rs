//! Failpoints: bugs that tests enable to prove that the checks find them. They need the feature `planted-bugs`, which
//! no shipped
//! program has.

/// A bug that a test can enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// An append that lost its fence gets the next number and is forced in.
    AppendUnfenced = 1,
    /// Attempts run before the decision to run them is durable.
    EffectBeforeCommit = 2,
    /// Messages are written after the transaction that caused them, in the next one.
    OutboxOutsideTransaction = 3,
    /// Steps are compensated in forward order.
    CompensationOrderReversed = 4,
    /// A failed step counts as not done, whatever its attempts did.
    DoubtForgotten = 5,
    /// A saga ends or is released without a check for unread messages.
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
