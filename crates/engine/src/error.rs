//! What can go wrong when an engine is asked for something.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::{Problems, Rejected, Status};
use backstitch_kernel::{StepId, Timestamp};

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
    /// A key, id, topic or name of an attribute that nothing can be found by.
    #[error("{what} {why}")]
    BadName {
        /// What.
        what: &'static str,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
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
    #[error("{what} has {size} bytes, the limit is {limit}: shorten it")]
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
        "the idempotency key was first used for another start, at {at:?}, and started saga {saga}: use a new key \
         for a new request"
    )]
    KeyConflict {
        /// The saga the key started.
        saga: SagaId,
        /// When.
        at: Timestamp,
    },
    /// The idempotency key belongs to another message.
    #[error(
        "the idempotency key was first used for another payload (digest {first}), at {at:?}, as message {id}: use a new \
         key for a new message"
    )]
    MessageConflict {
        /// The newest message of that key.
        id: i64,
        /// The digest of the first request.
        first: Digest,
        /// The digest of this request.
        now: Digest,
        /// When the first one came.
        at: Timestamp,
    },
    /// The same message was published before, and is not kept any more.
    #[error(
        "the idempotency key was used for this very message before, which is over and was removed for its age: use a new \
         key for a new message"
    )]
    MessageRemoved,
    /// Somebody's transaction that is still open has the idempotency key.
    #[error(
        "the idempotency key is held by a transaction that is still open ({0}): nothing was started; ask again in a \
         moment with the same key"
    )]
    KeyHeld(String),
    /// The settings cannot work.
    #[error("the engine's settings cannot work: {0}")]
    BadOptions(String),
    /// There is no such saga.
    #[error("there is no saga {0}: check its id; one that ended long ago may have been removed for its age")]
    NotFound(SagaId),
    /// The saga is at its end.
    #[error(
        "saga {saga} is already {status}: nothing changes it any more; look at it before you start another"
    )]
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
    /// The name belongs to a saga that a program registers.
    #[error("`{0}` is a saga that a program registers in code: declare yours under another name")]
    DefinedInCode(String),
    /// Others kept declaring the same name.
    #[error("`{0}` is being declared by several at once: look at what is staged and try again")]
    DeclaredAtOnce(String),
    /// The name belongs to a declared saga.
    #[error("`{0}` is a declared saga: register yours under another name")]
    DeclaredElsewhere(String),
    /// No version of a declared saga has been applied yet.
    #[error("`{0}` is declared, but no version of it is active: apply the staged one first")]
    NothingActive(String),
    /// Nothing is staged.
    #[error("nothing is staged under `{0}`: declare a version first")]
    NothingStaged(String),
    /// Another version is staged than the one that was to be applied or discarded, or none.
    #[error(
        "version {version} of `{name}` is not staged any more, {}: nothing was done; look at what is staged and active, and decide anew",
        staged_now(*staged)
    )]
    NotStaged {
        /// The definition.
        name: String,
        /// The version that was meant.
        version: u32,
        /// What is staged.
        staged: Option<u32>,
    },
    /// There is no such job for workers.
    #[error("there is no job {0}: check its number, and drop its result if it was removed with its saga")]
    NoSuchJob(i64),
    /// Somebody else has the job.
    #[error("the lease on job {0} is stale: it ran out and the job was leased again; drop this result")]
    StaleLease(i64),
    /// The job has its result.
    #[error("job {0} already has its result: drop this one")]
    JobOver(i64),
    /// The saga does not wait for this attempt any more.
    #[error("job {job}: saga {saga} has given up this attempt of step `{step}`; drop its result")]
    GivenUp {
        /// The job.
        job: i64,
        /// The saga.
        saga: SagaId,
        /// The step.
        step: StepId,
    },
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

fn staged_now(staged: Option<u32>) -> String {
    staged.map_or_else(|| "and nothing is".to_owned(), |staged| format!("but version {staged} is"))
}
