//! Whoever counts what becomes of webhooks.

use std::time::Duration;

use super::orchestrator::Progress;

/// An attempt that this process made, or heard of, finished.
#[derive(Clone, Copy, Debug)]
pub struct Attempted<'a> {
    /// Why it failed; nothing where it arrived.
    pub error_code: Option<&'a str>,
    /// How long it took; nothing where another process handed it out.
    pub duration: Option<Duration>,
}

/// Hears of what becomes of webhooks. It is called between attempts and must not wait.
pub trait Observer: Send + Sync + 'static {
    /// An attempt is finished.
    fn attempted(&self, _attempt: &Attempted<'_>) {}

    /// Something was decided.
    fn progressed(&self, _progress: &Progress) {}
}

/// Nobody counts.
pub struct Nobody;

impl Observer for Nobody {}
