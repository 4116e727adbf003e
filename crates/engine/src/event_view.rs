//! An event as it is told outside: in answers, in streams and through the outbox.

use std::collections::BTreeMap;
use std::time::Duration;

use backstitch_kernel::saga::event::Phase;
use backstitch_kernel::saga::{Event, Recorded, Resolution};
use backstitch_kernel::{ErrorKind, Payload, SagaId, StepError, StepId};
use serde::{Serialize, Serializer};

use crate::rfc3339::Rfc3339;

/// What happened to a saga, to be written as JSON. Which members there are depends on the type.
#[derive(Default, Serialize)]
pub struct EventView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    saga_id: Option<SagaId>,
    seq: u64,
    at: Rfc3339,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<&'a BTreeMap<StepId, Payload>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unparsed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_step: Option<&'a StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_doubt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Resolution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_until: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

impl<'a> EventView<'a> {
    /// An event of a saga that is known from the context.
    #[must_use]
    pub fn of(recorded: &'a Recorded) -> Self {
        let event = &recorded.event;
        let view = Self {
            seq: recorded.seq,
            at: Rfc3339(recorded.at),
            r#type: event.name(),
            step: event.step(),
            attempt: event.attempt(),
            ..Self::default()
        };
        view.with_particulars(event)
    }

    /// An event among those of all sagas.
    #[must_use]
    pub fn among_all(saga: SagaId, definition: &'a str, recorded: &'a Recorded) -> Self {
        Self { saga_id: Some(saga), definition: Some(definition), ..Self::of(recorded) }
    }

    /// The same with what a person reads about it.
    #[must_use]
    pub fn with_message(self, message: Option<&'static str>) -> Self {
        Self { message, ..self }
    }

    fn with_particulars(self, event: &'a Event) -> Self {
        match event {
            Event::SagaStarted(started) => Self {
                definition: Some(&started.definition),
                version: Some(started.version),
                input: Some(&started.input),
                correlation_id: started.correlation_id.as_deref(),
                deadline: started.deadline.map(Rfc3339),
                attributes: Some(&started.attributes).filter(|attributes| !attributes.is_empty()),
                ..self
            },
            Event::StepSucceeded { result, .. } => {
                Self { result: Some(result), unparsed: result.is_unparsed(), ..self }
            }
            Event::StepCompensated { result, .. } => Self {
                // Most compensations give nothing.
                result: Some(result).filter(|result| !result.is_null()),
                unparsed: result.is_unparsed(),
                ..self
            },
            Event::SagaCompensated { results } => {
                Self { results: Some(results).filter(|results| !results.is_empty()), ..self }
            }
            Event::StepFailed { error, in_doubt, .. } => {
                Self { error: Some(ErrorView::of(error)), in_doubt: Some(*in_doubt), ..self }
            }
            Event::SagaCompensating { failed_step, error } => {
                Self { failed_step: failed_step.as_ref(), error: Some(ErrorView::of(error)), ..self }
            }
            Event::SagaFailed { error, .. }
            | Event::StepTimedOut { error, .. }
            | Event::StepCompensationFailed { error, .. } => {
                Self { error: Some(ErrorView::of(error)), ..self }
            }
            Event::StepRetry { phase, max_attempts, error, retry_at, .. } => Self {
                phase: Some(*phase),
                max_attempts: Some(*max_attempts),
                error: Some(ErrorView::of(error)),
                retry_at: Some(Rfc3339(*retry_at)),
                ..self
            },
            Event::SagaPaused { note } | Event::SagaResumed { note } => Self { note: Some(note), ..self },
            Event::StepResolved { action, note, .. } => {
                Self { action: Some(*action), note: Some(note), ..self }
            }
            Event::SagaAdopted { node, epoch } => Self { node: Some(node), epoch: Some(*epoch), ..self },
            Event::StepStarted { outside: Some(outside), .. }
            | Event::StepCompensating { outside: Some(outside), .. } => Self {
                queue: Some(&outside.queue),
                queue_until: outside.queue_until.map(Rfc3339),
                until: outside.until.map(Rfc3339),
                ..self
            },
            Event::StepLeased { phase, until, .. } => {
                Self { phase: Some(*phase), until: Some(Rfc3339(*until)), ..self }
            }
            Event::SagaSucceeded
            | Event::StepStarted { outside: None, .. }
            | Event::StepCompensating { outside: None, .. } => self,
        }
    }
}

/// Why something failed, to be written as JSON.
#[derive(Serialize)]
pub struct ErrorView<'a> {
    kind: ErrorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    message: &'a str,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    retry_after: Option<Duration>,
}

impl<'a> ErrorView<'a> {
    /// This error.
    #[must_use]
    pub fn of(error: &'a StepError) -> Self {
        Self {
            kind: error.kind,
            code: error.code.as_deref(),
            message: &error.message,
            retry_after: error.retry_after,
        }
    }
}

#[expect(clippy::ref_option, reason = "serde calls it with a reference")]
fn seconds<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(value.unwrap_or_default().as_secs_f64())
}
