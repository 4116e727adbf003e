//! A lifecycle as every route shows it.

use backstitch::SagaId;
use backstitch_modules::lifecycles::{Moved, Standing};
use serde::Serialize;

use backstitch_api::time::{Time, rfc3339};

/// A lifecycle as it stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Lifecycle)]
pub(in crate::routes) struct View<'a> {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    machine: &'a str,
    /// Which one of this machine it is.
    key: &'a str,
    /// The machine's version; it keeps it to its end.
    version: u32,
    /// Where it stands.
    state: &'a str,
    /// Whether nothing follows.
    ended: bool,
    /// Whether it ended in a pause state without a transition: an operator abandoned it, or its pause expired.
    abandoned: bool,
    /// How often it was started.
    attempt: u32,
    /// What links traces: the first one that a start brought along.
    correlation_id: Option<&'a str>,
    /// What went wrong; only of one that failed.
    last_error: Option<&'a str>,
    /// What kind of error that is; only of one that failed.
    error_kind: Option<&'a str>,
    /// The number of its newest event.
    seq: u64,
    created_at: Time,
    updated_at: Time,
    /// Since when it is in its state.
    entered_at: Time,
    /// From then on it has been in its state for too long; `null` where it may be there for ever.
    stuck_at: Option<Time>,
}

impl<'a> From<&'a Standing> for View<'a> {
    fn from(standing: &'a Standing) -> Self {
        let instance = &standing.instance;
        let failure = instance.failure.as_ref();
        Self {
            id: standing.id,
            machine: &standing.machine,
            key: &standing.key,
            version: standing.version,
            state: &instance.state,
            ended: standing.ended,
            abandoned: instance.abandoned,
            attempt: instance.attempt,
            correlation_id: instance.given.correlation_id.as_deref(),
            last_error: failure.map(|failure| failure.message.as_str()),
            error_kind: failure.map(|failure| failure.kind.as_str()),
            seq: instance.seq,
            created_at: rfc3339(standing.created_at),
            updated_at: rfc3339(instance.updated_at),
            entered_at: rfc3339(instance.entered_at),
            stuck_at: standing.stuck_at.map(rfc3339),
        }
    }
}

/// What a request has changed, and where that leaves it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LifecycleChange)]
pub(in crate::routes) struct Change<'a> {
    #[serde(flatten)]
    lifecycle: View<'a>,
    /// Where it stood before; `null` where there was nothing.
    from: Option<&'a str>,
    /// Whether anything has changed.
    changed: bool,
    /// Why nothing has.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl<'a> Change<'a> {
    pub(super) fn of(moved: &'a Moved) -> Self {
        let lifecycle = View::from(&moved.standing);
        Self { lifecycle, from: moved.from.as_deref(), changed: true, detail: None }
    }

    /// It stays as it is.
    pub(super) fn none(standing: &'a Standing, why: &'a str) -> Self {
        let lifecycle = View::from(standing);
        Self { from: Some(lifecycle.state), lifecycle, changed: false, detail: Some(why) }
    }
}
