//! What can go wrong when an engine is asked for something.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::Timestamp;
use backstitch_kernel::saga::{Problems, Rejected, Status};

use crate::store;

/// An engine that could not do what it was asked. Nothing was changed unless the message says so.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No saga of this name is registered with this engine.
    #[error("no saga `{0}` is registered: call Engine::register before starting it")]
    UnknownDefinition(String),
    /// The definition has mistakes.
    #[error(transparent)]
    Definition(#[from] Problems),
    /// This name and version is registered already.
    #[error("saga `{definition}` version {version} is registered already: give the new one its own version")]
    AlreadyRegistered {
        /// The name.
        definition: String,
        /// The version.
        version: u32,
    },
    /// The store holds other steps under this version.
    #[error(
        "saga `{definition}` version {version} was stored with other steps, another order or other compensations: \
         give the changed saga a new version, and keep the old one registered until its sagas have ended"
    )]
    VersionTaken {
        /// The name.
        definition: String,
        /// The version.
        version: u32,
    },
    /// The input cannot be kept.
    #[error("the input has no JSON form: {0}")]
    BadInput(String),
    /// The input is too large.
    #[error(
        "the input has {size} bytes, the limit is {limit}: pass a reference to where the data is instead"
    )]
    InputTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A key, id or attribute is too long.
    #[error("{what} has {size} bytes, the limit is {limit}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A person changed how a rollback goes on and did not say why.
    #[error("a resolution needs a note: say who did what, and why; it stays in the log")]
    NoteMissing,
    /// The idempotency key belongs to another request.
    #[error(
        "the idempotency key was first used for another input, at {at:?}, and started saga {saga}: use a new key \
         for a new request"
    )]
    KeyConflict {
        /// The saga the key started.
        saga: SagaId,
        /// When.
        at: Timestamp,
    },
    /// The settings cannot work.
    #[error("the engine's settings cannot work: {0}")]
    BadOptions(String),
    /// There is no such saga.
    #[error("there is no saga {0}")]
    NotFound(SagaId),
    /// The saga is at its end.
    #[error("saga {saga} is already {status}")]
    Ended {
        /// The saga.
        saga: SagaId,
        /// Its end.
        status: Status,
    },
    /// The saga's state forbids it.
    #[error("saga {saga}: {why}")]
    Rejected {
        /// The saga.
        saga: SagaId,
        /// Why.
        why: Rejected,
    },
    /// Somebody else changed the saga at the same moment.
    #[error("saga {0} was changed by somebody else at the same moment: look at it and ask again")]
    Raced(SagaId),
    /// The engine is shutting down.
    #[error("the engine is shutting down: ask another node, or again after the restart")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(Arc<store::Error>),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl From<Arc<store::Error>> for Error {
    fn from(error: Arc<store::Error>) -> Self {
        Self::Store(error)
    }
}
