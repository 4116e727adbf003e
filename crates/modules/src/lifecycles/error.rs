//! What can go wrong with lifecycles.

use std::sync::Arc;

use backstitch::group_commit::NotWritten;
use backstitch::kernel::lifecycle::Refused;
use backstitch::{Problems, store};

use super::standing::Standing;

/// Why a call on lifecycles did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database could not do its part.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The database could not do its part for a whole batch, of which this was one.
    #[error(transparent)]
    Batch(#[from] Arc<store::Error>),
    /// Lifecycles are being closed.
    #[error("lifecycles are shutting down: try again on another node, or later")]
    Closed,
    /// The machine makes no sense; every mistake at once.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// There is no such machine.
    #[error("there is no machine `{0}`: declare it first")]
    UnknownMachine(String),
    /// No version of the machine was applied yet.
    #[error("the machine `{0}` is declared, but no version of it is active: apply it first")]
    NothingApplied(String),
    /// The machine has no such version.
    #[error("the machine `{machine}` has no version {version}: choose one of its versions")]
    UnknownVersion {
        /// Which.
        machine: String,
        /// The version.
        version: u32,
    },
    /// The machine is Backstitch's own.
    #[error("the machine `{0}` is built in: configure where its actions go, or declare one of another name")]
    BuiltIn(String),
    /// Nothing waits to be applied.
    #[error("nothing is staged for the machine `{0}`: declare a version first")]
    NothingStaged(String),
    /// Another version is staged than the one that is meant.
    #[error(
        "version {staged} of `{machine}` is staged, not version {expected}: nothing was done; look at it and decide anew"
    )]
    AnotherStaged {
        /// Which machine.
        machine: String,
        /// What was meant.
        expected: u32,
        /// What is staged.
        staged: u32,
    },
    /// Somebody else declared a version at the same moment.
    #[error(
        "somebody else changed the machine `{0}` just now: look at what it is now, and declare yours again"
    )]
    ChangedMeanwhile(String),
    /// Nothing of this key was ever started.
    #[error("the machine `{machine}` has nothing of the key `{key}`: start it first")]
    UnknownKey {
        /// Which machine.
        machine: String,
        /// The key.
        key: String,
    },
    /// Something has happened since whoever decided looked; nothing has changed.
    #[error("`{key}` of `{machine}` has moved on meanwhile: nothing was done; look again and decide anew")]
    MovedOn {
        /// Which machine.
        machine: String,
        /// Which one of it.
        key: String,
    },
    /// The machine does not allow it; nothing has changed.
    #[error("{why}")]
    Refused {
        /// Why.
        why: Refused,
        /// Where it stands; nothing where it was never started.
        standing: Option<Box<Standing>>,
    },
    /// A value that cannot be.
    #[error("`{field}` {why}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A worker's lease is another's by now, or its job is over.
    #[error(transparent)]
    Work(#[from] backstitch::Error),
}

impl From<NotWritten> for Error {
    fn from(why: NotWritten) -> Self {
        match why {
            NotWritten::Closed => Self::Closed,
            NotWritten::Store(why) => Self::Batch(why),
        }
    }
}

impl Error {
    pub(super) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, why: why.into() }
    }
}
