//! An event as it is answered and streamed.

use std::collections::BTreeMap;

use backstitch::kernel::saga::event::Phase;
use backstitch::{Event, FeedEvent, Payload, Recorded, Resolution, SagaId, StepId};
use serde::Serialize;

use super::super::vocabulary;
use super::view::ErrorView;
use crate::time::{Time, rfc3339};

/// What happened to a saga. Which members there are depends on the type.
#[derive(Default, Serialize, utoipa::ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventView<'a> {
    /// The saga; only in the stream of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    saga_id: Option<SagaId>,
    /// Its number in the saga's log, from 1.
    seq: u64,
    at: Time,
    /// What happened, as in `step.succeeded`.
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    step: Option<&'a StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    input: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    result: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    failed_step: Option<&'a StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_doubt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<vocabulary::Phase>)]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<vocabulary::Resolution>)]
    action: Option<Resolution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    /// The queue from which an outside worker takes the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    /// Without a worker's answer by then the attempt has timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    /// What a customer reads about it; only for orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

impl<'a> EventView<'a> {
    /// An event of a saga that is known from the context.
    pub(crate) fn of(recorded: &'a Recorded) -> Self {
        let event = &recorded.event;
        let view = Self {
            seq: recorded.seq,
            at: rfc3339(recorded.at),
            r#type: event.name(),
            step: event.step(),
            attempt: event.attempt(),
            ..Self::default()
        };
        view.with_particulars(event)
    }

    /// The same with what a customer reads about it.
    pub(crate) fn with_message(self, message: Option<&'static str>) -> Self {
        Self { message, ..self }
    }

    /// An event among those of all sagas.
    pub(crate) fn among_all(live: &'a FeedEvent) -> Self {
        Self { saga_id: Some(live.saga), definition: Some(&live.definition), ..Self::of(&live.recorded) }
    }

    fn with_particulars(self, event: &'a Event) -> Self {
        match event {
            Event::SagaStarted(started) => Self {
                definition: Some(&started.definition),
                version: Some(started.version),
                input: Some(&started.input),
                correlation_id: started.correlation_id.as_deref(),
                deadline: started.deadline.map(rfc3339),
                attributes: Some(&started.attributes).filter(|attributes| !attributes.is_empty()),
                ..self
            },
            Event::StepSucceeded { result, .. } => Self { result: Some(result), ..self },
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
                retry_at: Some(rfc3339(*retry_at)),
                ..self
            },
            Event::SagaPaused { note } | Event::SagaResumed { note } => Self { note: Some(note), ..self },
            Event::StepResolved { action, note, .. } => {
                Self { action: Some(*action), note: Some(note), ..self }
            }
            Event::SagaAdopted { node, epoch } => Self { node: Some(node), epoch: Some(*epoch), ..self },
            Event::StepStarted { outside: Some(outside), .. }
            | Event::StepCompensating { outside: Some(outside), .. } => {
                Self { queue: Some(&outside.queue), until: Some(rfc3339(outside.until)), ..self }
            }
            Event::SagaSucceeded
            | Event::SagaCompensated
            | Event::StepStarted { outside: None, .. }
            | Event::StepCompensating { outside: None, .. }
            | Event::StepCompensated { .. } => self,
        }
    }
}
