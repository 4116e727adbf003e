//! One attempt's view of its saga, without types: what the typed contexts are made from.

use std::sync::{Arc, Mutex, PoisonError};

use backstitch_kernel::saga::{Phase, State};
use backstitch_kernel::{Payload, SagaId, StepError, StepId};
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::registry::Registered;
use crate::store::outbox::NewMessage;

/// An action or a compensation with its types forgotten.
pub(crate) type Handler =
    Arc<dyn Fn(Arc<Call>) -> BoxFuture<'static, Result<Payload, StepError>> + Send + Sync>;

/// One attempt of one phase of one step.
pub(crate) struct Call {
    pub(crate) saga: SagaId,
    pub(crate) definition: Arc<Registered>,
    pub(crate) position: usize,
    pub(crate) phase: Phase,
    pub(crate) attempt: u32,
    pub(crate) state: Arc<State>,
    /// Turns true when the saga is being rolled back.
    pub(crate) rollback: watch::Receiver<bool>,
    /// The largest message it may leave.
    pub(crate) max_payload: usize,
    pub(crate) outgoing: Mutex<Vec<NewMessage>>,
}

/// What a service tells a repeated call by.
pub(crate) fn idempotency_key(saga: SagaId, step: &StepId, phase: Phase) -> String {
    format!("{saga}:{step}:{}", phase.as_str())
}

impl Call {
    pub(crate) fn step(&self) -> &StepId {
        &self.definition.definition.steps()[self.position].id
    }

    pub(crate) fn result_of(&self, step: &str) -> Option<&Payload> {
        let position = self.definition.definition.position(&StepId::from(step))?;
        self.state.steps[position].result.as_ref()
    }

    pub(crate) fn own_result(&self) -> Option<&Payload> {
        self.state.steps[self.position].result.as_ref()
    }

    pub(crate) fn take_outgoing(&self) -> Vec<NewMessage> {
        std::mem::take(&mut *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn publish(&self, message: NewMessage) {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}
