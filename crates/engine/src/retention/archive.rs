//! Who keeps what is removed.

use async_trait::async_trait;

/// Keeps what is about to be removed.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Keeps these, each a JSON document without a line break. When it returns `Ok`, they are on disk: they are removed
    /// from the database next. What cannot be removed then, or is not because the process dies, comes again.
    ///
    /// # Errors
    /// When they cannot be kept. Nothing is removed then.
    async fn keep(&self, lines: Vec<String>) -> Result<(), NotKept>;
}

/// Why something could not be kept, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotKept(pub String);
