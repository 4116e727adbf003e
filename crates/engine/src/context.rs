//! What an action and a compensation get to see.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstitch_kernel::{ErrorKind, Payload, SagaId, StepError, StepId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{Call, idempotency_key};
use crate::start::{check_name, check_topic};
use crate::store::outbox::NewMessage;

/// What an action or a compensation can read: the saga's input as `I`, earlier results, and who is asking.
///
/// ```
/// use backstitch::{Context, StepResult};
///
/// async fn confirm(ctx: Context<String>) -> StepResult<()> {
///     let payment: u64 = ctx.result("charge")?;
///     // Sent if, and only if, this step succeeds.
///     ctx.publish("orders.confirmed", &ctx.idempotency_key(), &payment)?;
///     println!("attempt {} for {}", ctx.attempt(), ctx.input());
///     Ok(())
/// }
/// ```
pub struct Context<I> {
    input: I,
    call: Arc<Call>,
}

impl<I: DeserializeOwned> Context<I> {
    pub(crate) fn of(call: Arc<Call>) -> Result<Self, StepError> {
        let input = call.state.started.input.decode().map_err(|why| {
            let step = call.step();
            StepError::refused(format!("the saga's input is not what step `{step}` takes: {why}"))
        })?;
        Ok(Self { input, call })
    }
}

impl<I> Context<I> {
    /// The saga's input.
    #[must_use]
    pub fn input(&self) -> &I {
        &self.input
    }

    /// The result of an earlier step.
    ///
    /// # Errors
    /// When that step has no result yet, does not exist, or gave something else than `T`; the step then fails for
    /// good, since no retry can change it.
    pub fn result<T: DeserializeOwned>(&self, step: &str) -> Result<T, StepError> {
        let result = self.call.result_of(step).ok_or_else(|| {
            StepError::refused(format!(
                "there is no result of step `{step}`: depend on it to be run after it"
            ))
        })?;
        result.decode().map_err(|why| {
            StepError::refused(format!("the result of step `{step}` is something else: {why}"))
        })
    }

    /// Whether a step has succeeded so far; a compensation sees with it what had been done.
    #[must_use]
    pub fn has_result(&self, step: &str) -> bool {
        self.call.result_of(step).is_some()
    }

    /// The saga.
    #[must_use]
    pub fn saga_id(&self) -> SagaId {
        self.call.saga
    }

    /// The step.
    #[must_use]
    pub fn step(&self) -> &StepId {
        self.call.step()
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// The key to hand to the service so that it can tell a repeated call: the same on every attempt, and another
    /// one for the compensation.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        idempotency_key(self.call.saga, self.call.step(), self.call.phase)
    }

    /// The caller's own id for the work this saga belongs to.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.call.state.started.correlation_id.as_deref()
    }

    /// What the saga can be searched by.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.call.state.started.attributes
    }

    /// What the saga's definition keeps with it ([`Builder::metadata`](crate::Builder::metadata)).
    ///
    /// ```
    /// use backstitch::{Context, Engine, Saga, Step};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let step = Step::new("notify", |ctx: Context<()>| async move { Ok(ctx.metadata::<Vec<String>>()?) });
    /// let engine = Engine::in_memory().await?;
    /// engine.register(Saga::builder("release").metadata(&["team-a", "team-b"]).step(step).build()?)?;
    /// let ended = engine.start("release", &()).await?.outcome().await?;
    /// assert_eq!(ended.result::<Vec<String>>("notify")?, ["team-a", "team-b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When it is something else than `T`; the step then fails for good, since no retry can change it. A definition without
    /// metadata reads as `null`.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T, StepError> {
        let metadata = self.call.definition.definition.draft().metadata.clone().unwrap_or_default();
        metadata.decode().map_err(|why| {
            StepError::refused(format!("the definition's metadata is not what the step takes: {why}"))
        })
    }

    /// Whether the saga is being rolled back: what this attempt does will be undone, so it may stop early. For actions
    /// only: what it says inside a compensation means nothing.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.call.rollback.borrow()
    }

    /// Waits until the saga is being rolled back; never ends when it is not.
    pub async fn cancelled(&self) {
        let mut rollback = self.call.rollback.clone();
        if rollback.wait_for(|on| *on).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sends a message if, and only if, this attempt succeeds: it is written to the outbox in the same transaction
    /// as the step's success. `key` lets receivers tell a repeated message:
    /// a topic takes each key once, whichever saga brings it, so put the saga's id or your own into it.
    ///
    /// # Errors
    /// When the payload has no JSON form or is too large, or topic or key are empty or too long. The step then counts as
    /// in doubt, since it may have done its work before it had something to tell, and is not tried again.
    pub fn publish<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        key: &str,
        payload: &T,
    ) -> Result<(), StepError> {
        let unusable = |why: String| StepError::new(ErrorKind::Unusable, why);
        check_topic(topic).map_err(|why| unusable(why.to_string()))?;
        check_name("the key of a message", key).map_err(|why| unusable(why.to_string()))?;
        let payload = Payload::encode(payload).map_err(|why| unusable(why.to_string()))?;
        if payload.len() > self.call.max_payload {
            let (size, limit) = (payload.len(), self.call.max_payload);
            return Err(unusable(format!(
                "a message has {size} bytes, the limit is {limit}: keep it elsewhere"
            )));
        }
        self.call.publish(NewMessage {
            topic: topic.to_owned(),
            idempotency_key: key.to_owned(),
            ordering_key: None,
            payload,
            expires_at: None,
        });
        Ok(())
    }
}

/// What a compensation gets besides the context.
pub struct Undo<R> {
    /// What the action gave; `None` when it is in doubt, so nobody knows whether there is anything to undo.
    pub result: Option<R>,
    /// Why the saga is rolled back.
    pub error: StepError,
    /// The step that failed; `None` when the saga was cancelled or late.
    pub failed_step: Option<StepId>,
}

impl<R: DeserializeOwned> Undo<R> {
    pub(crate) fn of(call: &Call) -> Result<Self, StepError> {
        let result = call.own_result().map(Payload::decode).transpose().map_err(|why| {
            let step = call.step();
            StepError::refused(format!(
                "the kept result of step `{step}` is not what its compensation takes: {why}"
            ))
        })?;
        let cause = call.state.cause.as_deref();
        Ok(Self {
            result,
            error: cause.map_or_else(|| StepError::not_done("unknown"), |cause| cause.error.clone()),
            failed_step: cause.and_then(|cause| cause.failed_step.clone()),
        })
    }
}
