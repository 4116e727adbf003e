//! What a path names.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use backstitch::SagaId;
use backstitch_modules::lifecycles::key_mistake;

use crate::parked::ParkedId;
use crate::problem::{Kind, Problem};

/// The longest name of anything that is declared, in bytes.
const LONGEST_NAME: usize = 128;

/// The saga in `{id}`.
pub(crate) struct SagaInPath(pub(crate) SagaId);

/// What the form called itself that came to the outcome in `{id}`.
pub(crate) struct OutcomeInPath(pub(crate) SagaId);

/// The order in `{tx_id}`.
pub(crate) struct OrderInPath(pub(crate) SagaId);

/// The name in `{name}`.
pub(crate) struct NameInPath(pub(crate) String);

/// The machine in `{machine}`.
pub(crate) struct MachineInPath(pub(crate) String);

/// The machine in `{machine}` and which one of it in `{key}`.
pub(crate) struct LifecycleInPath {
    pub(crate) machine: String,
    pub(crate) key: String,
}

/// The site in `{id}`.
pub(crate) struct SiteInPath(pub(crate) String);

/// The saga in `{id}` and its step in `{step}`.
pub(crate) struct SagaAndStep(pub(crate) SagaId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for SagaInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        saga(&read(parts, state).await?, "id").map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OutcomeInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = read(parts, state).await?;
        let once = named(&path, "id").unwrap_or_default().parse();
        once.map(Self).map_err(|_| Problem::new(Kind::BadId, "no form came to this: open it from its list"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OrderInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        saga(&read(parts, state).await?, "tx_id").map(Self)
    }
}

/// What is known by a number.
macro_rules! numbered {
    ($($name:ident $of:literal;)*) => {$(
        #[doc = concat!("The number in `{id}` of ", $of, ".")]
        pub(crate) struct $name(pub(crate) i64);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                number(&read(parts, state).await?, $of).map(Self)
            }
        }
    )*};
}

numbered! {
    JobInPath "a job: use the job_id that a lease answered";
    MessageInPath "a message: use the id that GET /v1/outbox lists";
    AlertInPath "an alert: use the id that GET /v1/admin/alerts lists";
    SubscriptionInPath "a subscription: use the id that GET /v1/webhooks/subscriptions lists";
    EventInPath "an event: use the event_id that POST /v1/webhooks/events answered";
    DeliveryInPath "a delivery: use the id that GET /v1/webhooks/deliveries lists";
    DeadLetterInPath "a dead letter: use the id that GET /v1/webhooks/dead-letters lists";
}

/// The parked item in `{id}`.
pub(crate) struct ParkedInPath(pub(crate) ParkedId);

impl<S: Send + Sync> FromRequestParts<S> for ParkedInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = read(parts, state).await?;
        let text = named(&path, "id").unwrap_or_default();
        ParkedId::parse(text).map(Self).ok_or_else(|| {
            let detail =
                format!("`{text}` is not the id of a parked item: use the id that GET /v1/parked lists");
            Problem::new(Kind::BadId, detail)
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NameInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(named(&read(parts, state).await?, "name").unwrap_or_default().to_owned()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MachineInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        machine(&read(parts, state).await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LifecycleInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = read(parts, state).await?;
        Ok(Self { machine: machine(&path)?, key: key(&path, "key")? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SiteInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        key(&read(parts, state).await?, "id").map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SagaAndStep {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = read(parts, state).await?;
        let step = named(&path, "step").unwrap_or_default().to_owned();
        Ok(Self(saga(&path, "id")?, step))
    }
}

async fn read<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Problem> {
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Problem::new(Kind::BadId, "the path is not valid UTF-8: check how it is escaped"))
}

fn saga(path: &RawPathParams, name: &str) -> Result<SagaId, Problem> {
    let text = named(path, name).unwrap_or_default();
    text.parse().map_err(|_| {
        Problem::new(
            Kind::BadId,
            format!("`{text}` is not the id of a saga: an id is a UUID, as a start answers it"),
        )
    })
}

/// Nothing that is no name was ever declared, and no database has to be asked about it.
fn machine(path: &RawPathParams) -> Result<String, Problem> {
    let text = named(path, "machine").unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(fits) {
        let detail =
            "names of machines have 1 to 128 letters, digits, `.`, `_` or `-`: GET /v1/lifecycles lists them";
        return Err(Problem::new(Kind::MachineNotFound, detail));
    }
    Ok(text.to_owned())
}

fn key(path: &RawPathParams, name: &str) -> Result<String, Problem> {
    let text = named(path, name).unwrap_or_default();
    match key_mistake(text) {
        Some(why) => Err(Problem::new(Kind::BadId, format!("the {name} in the path {why}"))),
        None => Ok(text.to_owned()),
    }
}

fn number(path: &RawPathParams, of: &str) -> Result<i64, Problem> {
    let text = named(path, "id").unwrap_or_default();
    // As it is written everywhere, so that one thing has one address.
    let number = text.parse().ok().filter(|number: &i64| number.to_string() == text);
    number.ok_or_else(|| Problem::new(Kind::BadId, format!("`{text}` is not the number of {of}")))
}

fn named<'a>(path: &'a RawPathParams, name: &str) -> Option<&'a str> {
    path.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}
