//! What can be wrong with an order, or with a change of how orders are worked off.

use backstitch::{Problem, Problems};

/// An order or a change that was not accepted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody has said yet where the services are.
    #[error(
        "nobody has said where the services are: stage their endpoints under /v1/admin/config/services and apply them"
    )]
    NotConfigured,
    /// Nothing waits to be applied.
    #[error("no {0} are staged: stage some first")]
    NothingStaged(&'static str),
    /// Another change is staged than the one that is meant.
    #[error(
        "other {kind} are staged by now, of revision {revision}: nothing was done; look at them and decide anew"
    )]
    AnotherStaged {
        /// Of which setting.
        kind: &'static str,
        /// What is staged.
        revision: String,
    },
    /// It has mistakes.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// The engine could not do it.
    #[error(transparent)]
    Engine(#[from] backstitch::Error),
    /// What is kept cannot be read.
    #[error("what is kept about orders cannot be read: {0}")]
    Unreadable(String),
}

impl From<backstitch::store::Error> for Error {
    fn from(error: backstitch::store::Error) -> Self {
        Self::Engine(error.into())
    }
}

/// Collects mistakes, so that all of them are told at once.
#[derive(Default)]
pub(super) struct Mistakes(Vec<Problem>);

impl Mistakes {
    pub(super) fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { place: place.into(), message: message.into() });
    }

    pub(super) fn or<T>(self, fine: T) -> Result<T, Problems> {
        if self.0.is_empty() { Ok(fine) } else { Err(Problems(self.0)) }
    }
}
