//! From what went wrong inside to what is said outside.

use std::borrow::Cow;

use backstitch::kernel::saga::Rejected;
use backstitch::{Error, Problems, store};

use super::{Kind, Mistake, Problem};
use backstitch_api::time;

impl Problem {
    /// A store that failed: its words stay in the log.
    pub(crate) fn of_store(error: &store::Error) -> Self {
        match error {
            store::Error::Unavailable(_)
            | store::Error::Full(_)
            | store::Error::ReadOnly(_)
            | store::Error::InUse(_) => {
                tracing::warn!(%error, "the database does not answer");
                let detail = match error {
                    store::Error::Full(_) => {
                        "the database cannot be written, its disk is full: ask again later"
                    }
                    store::Error::ReadOnly(_) => "the database cannot be written: ask again later",
                    _ => "the database does not answer: ask again in a moment",
                };
                Self::new(Kind::Unavailable, detail)
            }
            store::Error::NewerSchema { .. } => {
                tracing::error!(%error, "a newer version has changed the database");
                let detail =
                    "a newer version has changed the database: upgrade this node, or ask another one";
                Self::new(Kind::Unavailable, detail)
            }
            store::Error::Refused(_)
            | store::Error::Rejected(_)
            | store::Error::OlderNodes(_)
            | store::Error::BadAddress(_)
            | store::Error::Corrupt(_) => {
                tracing::error!(%error, "the database cannot be used");
                Self::internal()
            }
        }
    }

    pub(crate) fn internal() -> Self {
        let detail = "something broke on our side: nothing is known to be done; the server's log says more";
        Self::new(Kind::Internal, detail)
    }

    /// A request with these errors.
    pub(crate) fn invalid(problems: Problems) -> Self {
        let first: Vec<String> = problems
            .0
            .iter()
            .take(3)
            .map(|problem| format!("{}: {}", problem.place, problem.message))
            .collect();
        let more = problems.0.len() - first.len();
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        Self::mistakes(problems, format!("{}{rest}", first.join("; ")))
    }

    /// Everything that does not fit.
    pub(crate) fn mistakes(problems: Problems, detail: impl Into<Cow<'static, str>>) -> Self {
        let told = |problem: backstitch::Problem| Mistake { place: problem.place, message: problem.message };
        let mistakes: Vec<_> = problems.0.into_iter().map(told).collect();
        Self::listing(Kind::InvalidFields, detail, &mistakes)
    }

    /// One field that does not fit.
    pub(crate) fn field(place: &str, message: impl Into<String>) -> Self {
        let mistake = Mistake { place: place.to_owned(), message: message.into() };
        let detail = format!("{}: {}", mistake.place, mistake.message);
        Self::listing(Kind::InvalidFields, detail, &[mistake])
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        match error {
            Error::UnknownDefinition(name) => {
                let detail = format!(
                    "no saga `{name}` is known here: GET /v1/definitions lists those that are; declare it with \
                     PUT /v1/definitions/{name}"
                );
                Self::new(Kind::UnknownDefinition, detail)
            }
            Error::Definition(problems) => {
                Self::mistakes(problems, "the definition has mistakes: correct them all")
            }
            Error::BadInput(_) | Error::BadName { .. } | Error::TooLong { .. } => {
                Self::new(Kind::InvalidFields, said)
            }
            Error::NoteMissing => Self::field("note", "say who did what, and why; it stays in the log"),
            Error::InputTooLarge { limit, .. } => Self::new(Kind::TooLarge, said).with("limit", &limit),
            Error::KeyConflict { saga, at } => {
                let detail = format!(
                    "the idempotency key was first used for another start, at {}, and started saga {saga}: use a \
                     new key for a new request",
                    time::rfc3339(at)
                );
                Self::new(Kind::IdempotencyConflict, detail).with("saga_id", &saga)
            }
            Error::MessageConflict { id, at, .. } => {
                let detail = format!(
                    "the idempotency key was first used for another payload, at {}, as message {id}: use a new key for \
                     a new message",
                    time::rfc3339(at)
                );
                Self::new(Kind::IdempotencyConflict, detail).with("message_id", &id)
            }
            Error::MessageRemoved => Self::new(Kind::IdempotencyConflict, said),
            Error::KeyHeld(_) => {
                let detail = "the idempotency key is held by a transaction that is still open: nothing was started; \
                              ask again in a moment with the same key";
                Self::new(Kind::KeyHeld, detail)
            }
            Error::NotFound(saga) => {
                Self::new(Kind::SagaNotFound, format!("there is no saga {saga}: GET /v1/sagas lists them"))
            }
            Error::Ended { status, .. } => Self::new(Kind::SagaEnded, said).with("saga_status", &status),
            Error::Rejected { why: Rejected::Ended(status), .. } => {
                Self::new(Kind::SagaEnded, said).with("saga_status", &status)
            }
            Error::Rejected { why: Rejected::UnknownStep(step), saga } => {
                let detail =
                    format!("saga {saga} has no step `{step}`: GET /v1/sagas/{saga} lists its steps");
                Self::new(Kind::StepNotFound, detail)
            }
            Error::Rejected { .. } => Self::new(Kind::StateForbids, said),
            Error::Raced(_) | Error::DeclaredAtOnce(_) => Self::new(Kind::Raced, said),
            Error::NotStaged { staged, .. } => Self::new(Kind::Raced, said).with("staged", &staged),
            Error::AlreadyRegistered { .. } | Error::VersionTaken { .. } => {
                Self::new(Kind::VersionTaken, said)
            }
            Error::DefinedInCode(_) | Error::DeclaredElsewhere(_) => Self::new(Kind::NameTaken, said),
            Error::NothingActive(_) => Self::new(Kind::UnknownDefinition, said),
            Error::NothingStaged(_) => Self::new(Kind::NothingStaged, said),
            Error::NoSuchJob(_) => Self::new(Kind::JobNotFound, said),
            Error::StaleLease(_) | Error::JobOver(_) | Error::GivenUp { .. } => {
                Self::new(Kind::StaleLease, said)
            }
            Error::ShuttingDown => Self::shutting_down(),
            Error::BadOptions(_) => {
                tracing::error!(%said, "the engine refuses its settings");
                Self::internal()
            }
            Error::Store(error) => Self::of_store(&error),
        }
    }
}

impl Problem {
    pub(crate) fn shutting_down() -> Self {
        Self::new(
            Kind::ShuttingDown,
            "the server is shutting down: ask another node, or again after the restart",
        )
    }
}
