//! An event of a lifecycle as it is answered and streamed.

use backstitch::{ErrorView, Payload, SagaId};
use backstitch_modules::lifecycles::{Event, Failure, Given, InstanceEvent, Recorded};
use serde::Serialize;

use super::super::vocabulary;
use backstitch_api::time::{Time, rfc3339};

/// What happened to a lifecycle. Which members there are depends on the type.
#[derive(Default, Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct LifecycleEvent<'a> {
    /// The lifecycle; only in the stream of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    lifecycle_id: Option<SagaId>,
    /// Its number in the lifecycle's log, from 1.
    seq: u64,
    at: Time,
    /// `lifecycle.started`, `lifecycle.restarted`, `lifecycle.transitioned`, `lifecycle.failed`,
    /// `lifecycle.abandoned`, `action.leased` or `action.retry`.
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    /// The state it stands in then; of a lease or a retry, the one whose action it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    /// The state it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    /// The state it went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    /// How often it was started by then; of a lease the attempt of the action, of a retry the one that failed.
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    /// What a start brought along.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    input: Option<&'a Payload>,
    /// What came with a transition: what its action answered, or what somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    data: Option<&'a Payload>,
    /// `true` if the service's response was not JSON. `data` is then its text, or null if it was binary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unparsed: bool,
    /// The kind of error that led there.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<&'a str>,
    /// What that error was.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// Why an attempt failed that is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<vocabulary::StepError>)]
    error: Option<ErrorView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Time>,
    /// Until when a worker may take for an attempt that it has leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    /// Why it was abandoned: `requested` by an operator, or its pause has `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// What the operator wrote who abandoned it, after the name of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl<'a> LifecycleEvent<'a> {
    /// An event of a lifecycle that is known from the context.
    pub(super) fn of(recorded: &'a Recorded) -> Self {
        let event = &recorded.event;
        let view = Self {
            seq: recorded.seq,
            at: rfc3339(recorded.at),
            r#type: event.name(),
            state: event.state(),
            attempt: event.attempt(),
            ..Self::default()
        };
        view.with_particulars(event)
    }

    /// An event among those of all lifecycles.
    pub(in crate::routes) fn among_all(among: &'a InstanceEvent) -> Self {
        Self {
            lifecycle_id: Some(among.id),
            machine: Some(&among.machine),
            key: Some(&among.key),
            ..Self::of(&among.recorded)
        }
    }

    fn with_particulars(self, event: &'a Event) -> Self {
        match event {
            Event::Started(started) => Self {
                machine: Some(&started.machine),
                key: Some(&started.key),
                version: Some(started.version),
                correlation_id: started.correlation_id.as_deref(),
                input: started.input.as_ref(),
                ..self
            },
            Event::Restarted { given: Given { correlation_id, input }, .. } => {
                Self { correlation_id: correlation_id.as_deref(), input: input.as_ref(), ..self }
            }
            Event::Transitioned { from, to, data, error, .. } => {
                let unparsed = data.as_ref().is_some_and(Payload::is_unparsed);
                Self { from: Some(from), to: Some(to), data: data.as_ref(), unparsed, ..self }
                    .after(error.as_ref())
            }
            Event::Failed { from, failure, .. } => {
                Self { from: Some(from), to: self.state, ..self }.after(Some(failure))
            }
            Event::ActionRetry { max_attempts, error, retry_at, .. } => Self {
                max_attempts: Some(*max_attempts),
                error: Some(ErrorView::of(error)),
                retry_at: Some(rfc3339(*retry_at)),
                ..self
            },
            Event::ActionLeased { until, .. } => Self { until: Some(rfc3339(*until)), ..self },
            Event::Abandoned { reason, .. } => {
                Self { reason: Some(reason.name()), note: reason.note(), ..self }
            }
        }
    }

    fn after(self, failure: Option<&'a Failure>) -> Self {
        let Some(Failure { kind, message }) = failure else { return self };
        Self { error_kind: Some(kind), message: Some(message), ..self }
    }
}
