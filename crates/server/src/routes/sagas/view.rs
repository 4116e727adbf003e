//! A saga as it is answered.

use std::collections::BTreeMap;

use backstitch::{ErrorView, Payload, SagaId, SagaState, StepId, StepStatus, StepView};
use serde::Serialize;

use super::super::vocabulary;
use backstitch_api::time::{Time, rfc3339};

/// Everything about a saga.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Saga)]
pub(crate) struct SagaView<'a> {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    /// Where it stands.
    #[schema(value_type = vocabulary::SagaStatus)]
    status: &'static str,
    definition: &'a str,
    version: u32,
    /// Whether it is paused.
    paused: bool,
    /// What its definition keeps with it.
    #[schema(value_type = Value)]
    metadata: Option<&'a Payload>,
    /// What it was started with.
    #[schema(value_type = Value)]
    input: &'a Payload,
    /// The caller's own id.
    correlation_id: Option<&'a str>,
    /// What it can be searched by.
    attributes: &'a BTreeMap<String, String>,
    /// Rolled back if not finished by then.
    deadline: Option<Time>,
    created_at: Time,
    updated_at: Time,
    /// The step that failed; none when all is well, or when the saga was cancelled or late.
    #[schema(value_type = Option<String>)]
    failed_step: Option<&'a StepId>,
    /// Why it is, or was, rolled back.
    #[schema(value_type = Option<vocabulary::StepError>)]
    error: Option<ErrorView<'a>>,
    /// Its steps, in the order of the definition.
    steps: Vec<StepInView<'a>>,
}

/// A step of a saga.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Step)]
pub(crate) struct StepInView<'a> {
    #[schema(value_type = String)]
    id: &'a StepId,
    /// Where it stands.
    #[schema(value_type = vocabulary::StepStatus)]
    status: StepStatus,
    /// Attempts of its action so far.
    attempts: u32,
    /// Attempts of its compensation so far.
    compensation_attempts: u32,
    /// What its action gave.
    #[schema(value_type = Value)]
    result: Option<&'a Payload>,
    /// What its compensation gave.
    #[schema(value_type = Value)]
    compensation_result: Option<&'a Payload>,
    /// Why its action failed last.
    #[schema(value_type = Option<vocabulary::StepError>)]
    error: Option<ErrorView<'a>>,
    /// Why its compensation failed last.
    #[schema(value_type = Option<vocabulary::StepError>)]
    compensation_error: Option<ErrorView<'a>>,
}

impl<'a> SagaView<'a> {
    pub(crate) fn of(saga: &'a SagaState) -> Self {
        Self {
            id: saga.id,
            status: saga.status.as_str(),
            definition: &saga.definition,
            version: saga.version,
            paused: saga.paused,
            metadata: saga.metadata.as_ref(),
            input: &saga.input,
            correlation_id: saga.correlation_id.as_deref(),
            attributes: &saga.attributes,
            deadline: saga.deadline.map(rfc3339),
            created_at: rfc3339(saga.created_at),
            updated_at: rfc3339(saga.updated_at),
            failed_step: saga.failed_step.as_ref(),
            error: saga.error.as_ref().map(ErrorView::of),
            steps: saga.steps.iter().map(StepInView::of).collect(),
        }
    }
}

impl<'a> StepInView<'a> {
    fn of(step: &'a StepView) -> Self {
        Self {
            id: &step.id,
            status: step.status,
            attempts: step.attempts,
            compensation_attempts: step.compensation_attempts,
            result: step.result.as_ref(),
            compensation_result: step.compensation_result.as_ref(),
            error: step.error.as_ref().map(ErrorView::of),
            compensation_error: step.compensation_error.as_ref().map(ErrorView::of),
        }
    }
}
