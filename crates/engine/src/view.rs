//! A saga as people and programs read it.

use std::collections::BTreeMap;

use backstitch_kernel::saga::{Definition, State, Status, StepStatus};
use backstitch_kernel::{Payload, SagaId, StepError, StepId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything about a saga at one moment.
///
/// ```
/// # use backstitch::{Context, Engine, Retry, Saga, Status, Step, StepError, StepStatus, Undo};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::in_memory().await?;
/// # let reserve = Step::new("reserve", |_: Context<u32>| async { Ok("r-1".to_owned()) });
/// # let reserve = reserve.compensate(|_, _: Undo<String>| async { Ok(()) });
/// # let charge = Step::new("charge", |_: Context<u32>| async { Err::<(), _>(StepError::refused("declined").into()) });
/// # engine.register(Saga::builder("purchase").step(reserve).step(charge).build()?)?;
/// let ended = engine.start("purchase", &3).await?.outcome().await?;
/// assert_eq!(ended.status, Status::Compensated);
/// assert_eq!(ended.failed_step.as_ref().map(|step| step.as_str()), Some("charge"));
/// assert_eq!(ended.compensated()[0].as_str(), "reserve");
/// assert_eq!(ended.result::<String>("reserve")?, "r-1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SagaState {
    /// Its id.
    pub id: SagaId,
    /// The definition's name.
    pub definition: String,
    /// The definition's version.
    pub version: u32,
    /// Where it stands.
    pub status: Status,
    /// Whether it is paused.
    pub paused: bool,
    /// The number of its newest event.
    pub seq: u64,
    /// What its definition keeps with it.
    pub metadata: Option<Payload>,
    /// What it was started with.
    pub input: Payload,
    /// The caller's own id.
    pub correlation_id: Option<String>,
    /// What it can be searched by.
    pub attributes: BTreeMap<String, String>,
    /// Rolled back if not finished by then.
    pub deadline: Option<Timestamp>,
    /// Its steps, in the order of the definition.
    pub steps: Vec<StepView>,
    /// The step that failed; none when all is well, or when the saga was cancelled or late.
    pub failed_step: Option<StepId>,
    /// Why it is, or was, rolled back.
    pub error: Option<StepError>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When its newest event was decided.
    pub updated_at: Timestamp,
}

/// A step of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepView {
    /// Its id.
    pub id: StepId,
    /// Where it stands.
    pub status: StepStatus,
    /// Attempts of its action so far.
    pub attempts: u32,
    /// Attempts of its compensation so far.
    pub compensation_attempts: u32,
    /// What its action gave.
    pub result: Option<Payload>,
    /// What its compensation gave.
    pub compensation_result: Option<Payload>,
    /// Why its action failed last.
    pub error: Option<StepError>,
    /// Why its compensation failed last.
    pub compensation_error: Option<StepError>,
}

impl SagaState {
    pub(crate) fn of(id: SagaId, definition: &Definition, state: &State) -> Self {
        let steps = definition.steps().iter().zip(&state.steps);
        let cause = state.cause.as_deref();
        Self {
            id,
            definition: state.started.definition.clone(),
            version: state.started.version,
            status: state.status,
            paused: state.paused,
            seq: state.seq,
            metadata: definition.draft().metadata.clone(),
            input: state.started.input.clone(),
            correlation_id: state.started.correlation_id.clone(),
            attributes: state.started.attributes.clone(),
            deadline: state.started.deadline,
            steps: steps
                .map(|(step, state)| StepView {
                    id: step.id.clone(),
                    status: state.status(),
                    attempts: state.forward.attempts,
                    compensation_attempts: state.undo.attempts,
                    result: state.result.clone(),
                    compensation_result: state.compensation_result.clone(),
                    error: state.forward.error.clone(),
                    compensation_error: state.undo.error.clone(),
                })
                .collect(),
            failed_step: cause.and_then(|cause| cause.failed_step.clone()),
            error: cause.map(|cause| cause.error.clone()),
            created_at: state.created_at,
            updated_at: state.at,
        }
    }

    /// Whether every step succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.status == Status::Succeeded
    }

    /// One of its steps.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&StepView> {
        self.steps.iter().find(|step| step.id.as_str() == id)
    }

    /// What a step gave.
    ///
    /// # Errors
    /// When it gave something else than `T`. A step without a result reads as `null`.
    pub fn result<T: DeserializeOwned>(&self, step: &str) -> Result<T, serde_json::Error> {
        let result = self.step(step).and_then(|step| step.result.clone()).unwrap_or_default();
        result.decode()
    }

    /// What the definition keeps with the saga ([`Builder::metadata`](crate::Builder::metadata)).
    ///
    /// # Errors
    /// When it is something else than `T`. A definition without metadata reads as `null`.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.metadata.clone().unwrap_or_default().decode()
    }

    /// What the compensation of a step gave.
    ///
    /// # Errors
    /// When it gave something else than `T`. A step without such a result reads as `null`.
    pub fn compensation_result<T: DeserializeOwned>(&self, step: &str) -> Result<T, serde_json::Error> {
        let result = self.step(step).and_then(|step| step.compensation_result.clone()).unwrap_or_default();
        result.decode()
    }

    /// The steps that were undone.
    #[must_use]
    pub fn compensated(&self) -> Vec<&StepId> {
        self.in_status(StepStatus::Compensated)
    }

    /// The steps that could not be undone and wait for a person.
    #[must_use]
    pub fn stuck(&self) -> Vec<&StepId> {
        self.in_status(StepStatus::CompensationFailed)
    }

    fn in_status(&self, status: StepStatus) -> Vec<&StepId> {
        self.steps.iter().filter(|step| step.status == status).map(|step| &step.id).collect()
    }
}
