//! One attempt of a state's action, as whoever performs it sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::{Payload, SagaId, StepError};
use serde::Serialize;

use super::standing::Standing;

/// Performs the calls of states.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Makes one attempt. `call` is what the machine says about it. May be asked more than once for one state.
    ///
    /// # Errors
    /// What the service said, or that nobody knows; see [`StepError`].
    async fn call(&self, call: &Payload, errand: &Errand) -> Result<Payload, StepError>;

    /// The call as the database may keep it; see [`Caller::protect`](backstitch::Caller::protect).
    ///
    /// # Errors
    /// Why the call cannot be kept, and what to do.
    fn protect(&self, call: &Payload) -> Result<Payload, String> {
        Ok(call.clone())
    }
}

/// One attempt of a state's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// Whose state it is.
    pub id: SagaId,
    /// The state.
    pub state: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What a service tells a repeated call by: the same on every attempt, and another one when the state is entered again.
    pub idempotency_key: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether an earlier attempt, or a process that is gone, may have done it.
    pub is_in_doubt: bool,
    /// What a service gets to know.
    pub body: Payload,
}

#[derive(Serialize)]
struct Body<'a> {
    lifecycle_id: SagaId,
    machine: &'a str,
    key: &'a str,
    state: &'a str,
    /// Which attempt of the action this is, from 1.
    attempt: u32,
    /// How often it was started.
    starts: u32,
    correlation_id: Option<&'a str>,
    input: Option<&'a Payload>,
    /// What came of the states before.
    results: BTreeMap<String, Payload>,
}

impl Errand {
    pub(super) fn of(
        standing: &Standing,
        results: BTreeMap<String, Payload>,
        timeout: Duration,
    ) -> Result<Self, StepError> {
        let instance = &standing.instance;
        let attempt = instance.failures + 1;
        let body = Payload::encode(&Body {
            lifecycle_id: standing.id,
            machine: &standing.machine,
            key: &standing.key,
            state: &instance.state,
            attempt,
            starts: instance.attempt,
            correlation_id: instance.given.correlation_id.as_deref(),
            input: instance.given.input.as_ref(),
            results,
        });
        Ok(Self {
            id: standing.id,
            state: instance.state.to_string(),
            attempt,
            idempotency_key: format!("{}:{}:{}", standing.id, instance.state, instance.entry),
            timeout,
            is_in_doubt: attempt > 1 || standing.interruptions > 0,
            body: body.map_err(|why| StepError::refused(format!("it cannot be put into words: {why}")))?,
        })
    }
}
