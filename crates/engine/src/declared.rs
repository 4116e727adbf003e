//! Sagas that are written down as data: what performs their calls, and what a call gets to know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::{Definition, Draft, Performer, Phase, Problem, Problems, State};
use backstitch_kernel::{Payload, SagaId, StepError, StepId};

use crate::call::{Call, Handler, idempotency_key};
use crate::defaults::Unsaid;
use crate::limit::Limit;
use crate::saga::{Handlers, Saga};

/// Performs the calls of declared sagas.
#[async_trait]
pub trait Caller: Send + Sync + 'static {
    /// Makes one attempt. `call` is what the definition says about it. May be asked more than once for one step, as the
    /// action of [`Step::new`](crate::Step::new) may.
    ///
    /// # Errors
    /// What the service said, or that nobody knows; see [`StepError`].
    async fn call(&self, call: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError>;

    /// The limit that the action's or the compensation's calls count against, such as that of their host. The engine
    /// takes room there before it starts an attempt: waiting for it is no attempt and takes none of its time. Asked once,
    /// when the saga is registered. Give compensations a limit of their own, so that actions keep none from being made.
    fn limit(&self, call: &Payload, phase: Phase) -> Option<Limit> {
        let _ = (call, phase);
        None
    }

    /// The call as the store may keep it: without secrets that others could read there. [`Self::call`] gets it in this form.
    /// Protecting the same call again must give the same, and protecting what is protected changes nothing: definitions are
    /// compared in this form.
    ///
    /// # Errors
    /// Why the call cannot be kept, and what to do.
    fn protect(&self, call: &Payload) -> Result<Payload, String> {
        Ok(call.clone())
    }
}

impl Saga {
    /// A saga whose steps are calls that `caller` makes, or work for outside workers. Its definition has the calls as
    /// [`Caller::protect`] returns them.
    ///
    /// # Errors
    /// Every mistake of the draft at once; a step that says neither what to call nor which queue it goes to is one.
    pub fn declared(mut draft: Draft, caller: &Arc<dyn Caller>) -> Result<Self, Problems> {
        let problems = protect(&mut draft, &**caller);
        Self::with_calls(draft, caller, problems)
    }

    /// The same with calls as the store keeps them.
    pub(crate) fn stored(draft: Draft, caller: &Arc<dyn Caller>) -> Result<Self, Problems> {
        Self::with_calls(draft, caller, Vec::new())
    }

    fn with_calls(
        draft: Draft,
        caller: &Arc<dyn Caller>,
        mut problems: Vec<Problem>,
    ) -> Result<Self, Problems> {
        problems.extend(unsaid(&draft));
        match draft.check() {
            Ok(definition) if problems.is_empty() => {
                let steps = definition.draft().steps.iter();
                let handlers = steps.map(|step| Handlers {
                    action: handler(&step.action, caller),
                    compensation: step.compensate.as_ref().and_then(|undo| handler(&undo.action, caller)),
                    action_limit: limit(&step.action, Phase::Do, caller),
                    compensation_limit: step
                        .compensate
                        .as_ref()
                        .and_then(|undo| limit(&undo.action, Phase::Undo, caller)),
                });
                let handlers = handlers.collect();
                Ok(Self {
                    definition,
                    handlers,
                    on_success: None,
                    on_failure: None,
                    unsaid: Unsaid::default(),
                })
            }
            Ok(_) => Err(Problems(problems)),
            Err(Problems(found)) => {
                problems.extend(found);
                Err(Problems(problems))
            }
        }
    }
}

/// Protects every call of the draft; the problems of those that cannot be.
fn protect(draft: &mut Draft, caller: &dyn Caller) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (position, step) in draft.steps.iter_mut().enumerate() {
        let undo = step.compensate.as_mut().map(|undo| ("compensate", &mut undo.action));
        for (place, performer) in [("action", &mut step.action)].into_iter().chain(undo) {
            let Performer::Call(call) = performer else { continue };
            match caller.protect(call) {
                Ok(protected) => *call = protected,
                Err(message) => {
                    problems.push(Problem { place: format!("steps[{position}].{place}"), message });
                }
            }
        }
    }
    problems
}

fn handler(performer: &Performer, caller: &Arc<dyn Caller>) -> Option<Handler> {
    let Performer::Call(call) = performer else { return None };
    let (call, caller) = (call.clone(), caller.clone());
    Some(Arc::new(move |attempt| {
        let (call, caller) = (call.clone(), caller.clone());
        Box::pin(async move { caller.call(&call, &Attempt::of(&attempt)).await })
    }))
}

fn limit(performer: &Performer, phase: Phase, caller: &Arc<dyn Caller>) -> Option<Limit> {
    let Performer::Call(call) = performer else { return None };
    caller.limit(call, phase)
}

/// The steps that nobody could perform.
fn unsaid(draft: &Draft) -> Vec<Problem> {
    let message = "says neither what to call nor which queue it goes to";
    let mut problems = Vec::new();
    for (position, step) in draft.steps.iter().enumerate() {
        let undo = step.compensate.as_ref().map(|undo| ("compensate", &undo.action));
        for (place, performer) in [("action", &step.action)].into_iter().chain(undo) {
            if *performer == Performer::Code {
                let place = format!("steps[{position}].{place}");
                problems.push(Problem { place, message: message.to_owned() });
            }
        }
    }
    problems
}

/// One attempt of one step, as whoever performs it sees it.
pub struct Attempt<'a> {
    pub(crate) saga: SagaId,
    pub(crate) definition: &'a Definition,
    pub(crate) position: usize,
    pub(crate) phase: Phase,
    pub(crate) number: u32,
    pub(crate) state: &'a State,
}

impl<'a> Attempt<'a> {
    fn of(call: &'a Call) -> Self {
        Self {
            saga: call.saga,
            definition: &call.definition.definition,
            position: call.position,
            phase: call.phase,
            number: call.attempt,
            state: &call.state,
        }
    }

    /// The saga.
    #[must_use]
    pub fn saga_id(&self) -> SagaId {
        self.saga
    }

    /// The step.
    #[must_use]
    pub fn step(&self) -> &'a StepId {
        &self.definition.steps()[self.position].id
    }

    /// Whether its action or its compensation is wanted.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long it may take before it is given up and its outcome unknown.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let step = &self.definition.steps()[self.position];
        let state = &self.state.steps[self.position];
        step.time_of_attempt(self.phase, state, self.state.at).unwrap_or(step.timeout)
    }

    /// What the service tells a repeated call by: the same on every attempt, and another one for the compensation.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        idempotency_key(self.saga, self.step(), self.phase)
    }

    /// The caller's own id for the work this saga belongs to.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&'a str> {
        self.state.started.correlation_id.as_deref()
    }

    /// What the saga can be searched by.
    #[must_use]
    pub fn attributes(&self) -> &'a BTreeMap<String, String> {
        &self.state.started.attributes
    }

    /// Whether an earlier attempt of this action may have taken effect.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.state.steps[self.position].in_doubt
    }

    /// Everything a service gets to know, as one JSON object: `saga_id`, `step`, `phase`, `attempt`, `input`, `results` of
    /// the steps that have succeeded, and for a compensation the step's own `result` (null when in doubt) and the `error`
    /// that caused the rollback.
    ///
    /// # Errors
    /// When an error has no JSON form, which cannot be.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        let step = serde_json::to_string(self.step().as_str())?;
        // Put together by hand: input and results are JSON already, and are not read for it.
        let mut body = format!(
            r#"{{"saga_id":"{}","step":{step},"phase":"{}","attempt":{},"input":{},"results":{{"#,
            self.saga,
            self.phase.as_str(),
            self.number,
            self.state.started.input.as_str(),
        );
        let mut separator = "";
        for (step, state) in self.definition.steps().iter().zip(&self.state.steps) {
            if let Some(result) = &state.result {
                body.push_str(separator);
                body.push_str(&serde_json::to_string(step.id.as_str())?);
                body.push(':');
                body.push_str(result.as_str());
                separator = ",";
            }
        }
        body.push('}');
        if self.phase == Phase::Undo {
            body.push_str(r#","result":"#);
            body.push_str(self.state.steps[self.position].result.as_ref().map_or("null", Payload::as_str));
            if let Some(cause) = &self.state.cause {
                body.push_str(r#","error":"#);
                body.push_str(&serde_json::to_string(&cause.error)?);
            }
        }
        body.push('}');
        Ok(body)
    }
}
