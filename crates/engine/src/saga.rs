//! Writing a saga down in Rust.

use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::saga::draft::{self, DraftCompensation};
use backstitch_kernel::saga::{Definition, Draft, DraftStep, Performer, Problem, Problems};
use backstitch_kernel::{Payload, Retry, StepError};
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Handler;
use crate::context::{Context, Undo};
use crate::defaults::{Defaults, Unsaid, UnsaidInPhase, UnsaidInStep};
use crate::limit::Limit;
use crate::step_failure::StepResult;
use crate::view::SagaState;

/// Called when a saga has ended.
pub(crate) type Hook = Arc<dyn Fn(SagaState) -> BoxFuture<'static, StepResult<()>> + Send + Sync>;

/// A saga that can be registered with an engine: its definition, and the code of its steps.
pub struct Saga {
    pub(crate) definition: Definition,
    pub(crate) handlers: Vec<Handlers>,
    pub(crate) on_success: Option<Hook>,
    pub(crate) on_failure: Option<Hook>,
    pub(crate) unsaid: Unsaid,
}

/// The code of one step.
pub(crate) struct Handlers {
    /// None for what is left to outside workers.
    pub(crate) action: Option<Handler>,
    pub(crate) compensation: Option<Handler>,
    /// The limit of the host that the action calls.
    pub(crate) action_limit: Option<Limit>,
    /// The limit of the host that the compensation calls.
    pub(crate) compensation_limit: Option<Limit>,
}

impl Saga {
    /// Begins a saga of this name.
    ///
    /// ```
    /// use backstitch::{Context, Retry, Saga, Step, secs};
    ///
    /// let saga = Saga::builder("release")
    ///     .title("Release a version")
    ///     .step_timeout(secs(120))
    ///     .retry(Retry::fixed(1, secs(10)))
    ///     .step(Step::new("build", |ctx: Context<String>| async move { Ok(format!("{}.tar", ctx.input())) }))
    ///     .step(Step::new("publish", |_: Context<String>| async { Ok(()) }).timeout(secs(30)))
    ///     .build()?;
    /// assert_eq!(saga.definition().steps().len(), 2);
    /// assert_eq!(saga.definition().steps()[1].timeout, secs(30));
    /// # Ok::<(), backstitch::Problems>(())
    /// ```
    #[must_use]
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            draft: Draft::new(name),
            defaults: Defaults::default(),
            steps: Vec::new(),
            on_success: None,
            on_failure: None,
            problems: Vec::new(),
        }
    }

    /// What it does, checked.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }
}

/// Puts a saga together.
pub struct Builder {
    draft: Draft,
    defaults: Defaults,
    steps: Vec<AnyStep>,
    on_success: Option<Hook>,
    on_failure: Option<Hook>,
    problems: Vec<Problem>,
}

impl Builder {
    /// What people read.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.draft.title = Some(title.into());
        self
    }

    /// The version, 1 unless given. Give a new one when steps, their order or their compensations change: sagas
    /// that are under way go on with the version they were started with, so keep that one registered too.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.draft.version = version;
        self
    }

    /// Whatever you want to keep with the definition.
    #[must_use]
    pub fn metadata<T: Serialize + ?Sized>(mut self, metadata: &T) -> Self {
        match Payload::encode(metadata) {
            Ok(metadata) => self.draft.metadata = Some(metadata),
            Err(why) => {
                self.problems.push(Problem { place: "metadata".to_owned(), message: why.to_string() });
            }
        }
        self
    }

    /// How long an attempt of an action may take, for steps that do not say. 60 s unless given here or in [`Options::defaults`](crate::Options::defaults).
    #[must_use]
    pub fn step_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.step_timeout = Some(timeout);
        self
    }

    /// How actions are retried, for steps that do not say. Twice, 5 s apart, unless given here or in
    /// [`Options::defaults`](crate::Options::defaults).
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.defaults.retry = Some(retry);
        self
    }

    /// How long an attempt of a compensation may take, for steps that do not say. 120 s unless given here or in [`Options::defaults`](crate::Options::defaults).
    #[must_use]
    pub fn compensation_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.compensation_timeout = Some(timeout);
        self
    }

    /// How compensations are retried, for steps that do not say. Five times with growing waits unless given here or in [`Options::defaults`](crate::Options::defaults).
    #[must_use]
    pub fn compensation_retry(mut self, retry: Retry) -> Self {
        self.defaults.compensation_retry = Some(retry);
        self
    }

    /// Whether the other compensations still run after one failed for good. They do not unless you say so.
    #[must_use]
    pub fn continue_on_compensation_failure(mut self, on: bool) -> Self {
        self.defaults.continue_on_compensation_failure = Some(on);
        self
    }

    /// How many compensations may run at once, one unless given. The order of the steps is kept in any case.
    #[must_use]
    pub fn compensation_concurrency(mut self, limit: usize) -> Self {
        self.draft.compensation_concurrency = limit;
        self
    }

    /// Adds a step. It runs after the step before it, unless it says what it depends on.
    #[must_use]
    pub fn step<I, R>(mut self, step: Step<I, R>) -> Self {
        self.steps.push(step.inner);
        self
    }

    /// Called at least once after the saga succeeded, from any node that has it registered, whichever node ended the saga. It
    /// belongs to the version under which it was first registered: give the saga a new version to take it away.
    #[must_use]
    pub fn on_success<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(SagaState) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult<()>> + Send + 'static,
    {
        self.on_success = Some(Arc::new(move |ended| Box::pin(hook(ended))));
        self
    }

    /// Called at least once after the saga was rolled back, or its rollback failed, as [`on_success`](Self::on_success) is.
    /// An error has it called again, a few times with growing waits.
    ///
    /// ```
    /// # use backstitch::{Context, Saga, Step, Status};
    /// # let builder = Saga::builder("s").step(Step::new("a", |_: Context<()>| async { Ok(()) }));
    /// let saga = builder.on_failure(|ended| async move {
    ///     let code = ended.error.as_ref().and_then(|error| error.code.as_deref());
    ///     match (ended.status, code) {
    ///         (Status::Failed, _) => println!("{} is stuck at {:?}", ended.id, ended.stuck()),
    ///         (_, Some("NETWORK_ERROR")) => println!("worth another try"),
    ///         (_, other) => println!("rolled back: {other:?}"),
    ///     }
    ///     Ok(())
    /// });
    /// # assert!(saga.build().is_ok());
    /// ```
    #[must_use]
    pub fn on_failure<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(SagaState) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult<()>> + Send + 'static,
    {
        self.on_failure = Some(Arc::new(move |ended| Box::pin(hook(ended))));
        self
    }

    /// Checks it all.
    ///
    /// ```
    /// use backstitch::{Context, Saga, Step};
    ///
    /// let step = |id: &str| Step::new(id, |_: Context<()>| async { Ok(()) });
    /// let circle = Saga::builder("s").step(step("a").depends_on(["b"])).step(step("b").depends_on(["a"])).build();
    /// assert!(circle.is_err());
    /// ```
    ///
    /// # Errors
    /// Every mistake, each with its place.
    pub fn build(self) -> Result<Saga, Problems> {
        let Self { mut draft, defaults, steps, on_success, on_failure, problems } = self;
        draft.on_success = on_success.is_some();
        draft.on_failure = on_failure.is_some();
        let mut unsaid = Unsaid {
            continue_on_compensation_failure: defaults.continue_on_compensation_failure.is_none(),
            steps: Vec::new(),
        };
        draft.continue_on_compensation_failure =
            defaults.continue_on_compensation_failure.unwrap_or_default();
        let mut handlers = Vec::new();
        for step in steps {
            unsaid.steps.push(step.unsaid(&defaults));
            let (step, code) = step.resolve(&defaults);
            draft.steps.push(step);
            handlers.push(code);
        }
        match draft.check() {
            Ok(definition) if problems.is_empty() => {
                Ok(Saga { definition, handlers, on_success, on_failure, unsaid })
            }
            Ok(_) => Err(Problems(problems)),
            Err(Problems(found)) => Err(Problems(problems.into_iter().chain(found).collect())),
        }
    }
}

/// One step: an action that gives an `R`, and how it is undone. `I` is the saga's input as this step sees it.
pub struct Step<I, R> {
    inner: AnyStep,
    types: std::marker::PhantomData<fn(I) -> R>,
}

struct AnyStep {
    id: String,
    title: Option<String>,
    depends_on: Option<Vec<String>>,
    timeout: Option<Duration>,
    retry: Option<Retry>,
    concurrency: Option<u32>,
    compensation_timeout: Option<Duration>,
    compensation_retry: Option<Retry>,
    handlers: Handlers,
}

impl AnyStep {
    fn unsaid(&self, defaults: &Defaults) -> UnsaidInStep {
        UnsaidInStep {
            action: UnsaidInPhase {
                timeout: self.timeout.or(defaults.step_timeout).is_none(),
                retry: self.retry.is_none() && defaults.retry.is_none(),
            },
            compensation: UnsaidInPhase {
                timeout: self.compensation_timeout.or(defaults.compensation_timeout).is_none(),
                retry: self.compensation_retry.is_none() && defaults.compensation_retry.is_none(),
            },
        }
    }

    fn resolve(self, defaults: &Defaults) -> (DraftStep, Handlers) {
        let compensate = self.handlers.compensation.is_some().then(|| DraftCompensation {
            action: Performer::Code,
            timeout: self
                .compensation_timeout
                .or(defaults.compensation_timeout)
                .unwrap_or(draft::DEFAULT_COMPENSATION_TIMEOUT),
            queue_timeout: None,
            retry: self
                .compensation_retry
                .or_else(|| defaults.compensation_retry.clone())
                .unwrap_or_else(draft::default_compensation_retry),
        });
        let step = DraftStep {
            id: self.id,
            title: self.title,
            depends_on: self.depends_on,
            action: Performer::Code,
            timeout: self.timeout.or(defaults.step_timeout).unwrap_or(draft::DEFAULT_STEP_TIMEOUT),
            queue_timeout: None,
            retry: self.retry.or_else(|| defaults.retry.clone()).unwrap_or_else(draft::default_retry),
            compensate,
            concurrency: self.concurrency,
        };
        (step, self.handlers)
    }
}

impl<I, R> Step<I, R>
where
    I: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
{
    /// A step with this id and action. The action may run more than once: after a failure, and after a crash.
    ///
    /// `?` turns any error into one whose outcome is unknown: the step is retried, and compensated if no attempt succeeds.
    /// Where you know that the attempt had no effect, return [`StepError::not_done`] (the step is retried) or
    /// [`StepError::refused`] (it is not). Neither leads to a compensation of this step. See
    /// [`StepFailure`](crate::StepFailure).
    ///
    /// As in any async code, work that blocks its thread belongs into `tokio::task::spawn_blocking`: while it blocks, no
    /// timeout can end it, and the saga's other steps wait.
    ///
    /// ```
    /// use backstitch::{Context, Step, StepError, StepResult};
    ///
    /// async fn charge(ctx: Context<u32>) -> StepResult<String> {
    ///     let amount = ctx.input();
    ///     if *amount == 0 {
    ///         return Err(StepError::refused("nothing to charge").with_code("VALIDATION_ERROR").into());
    ///     }
    ///     // The payment may have been made although no response arrived: `?` says so.
    ///     let payment = call_bank(*amount, &ctx.idempotency_key())?;
    ///     Ok(payment)
    /// }
    /// # fn call_bank(amount: u32, key: &str) -> std::io::Result<String> {
    /// #     Ok(format!("payment of {amount} under {key}"))
    /// # }
    ///
    /// let step = Step::new("charge", charge);
    /// ```
    #[must_use]
    pub fn new<F, Fut>(id: impl Into<String>, action: F) -> Self
    where
        F: Fn(Context<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult<R>> + Send + 'static,
    {
        let action = Arc::new(action);
        let handler: Handler = Arc::new(move |call| {
            let action = action.clone();
            Box::pin(async move {
                let result = action(Context::of(call)?).await?;
                Payload::encode(&result).map_err(unusable)
            })
        });
        Self {
            inner: AnyStep {
                id: id.into(),
                title: None,
                depends_on: None,
                timeout: None,
                retry: None,
                concurrency: None,
                compensation_timeout: None,
                compensation_retry: None,
                handlers: Handlers {
                    action: Some(handler),
                    compensation: None,
                    action_limit: None,
                    compensation_limit: None,
                },
            },
            types: std::marker::PhantomData,
        }
    }

    /// How it is undone. It must be safe to call twice, and before or without the action having taken effect.
    ///
    /// What it returns is kept in the log: [`SagaState::compensation_result`] and the events `step.compensated` and
    /// `saga.compensated` have it. A result that has no JSON form or exceeds
    /// [`Options::max_payload`](crate::Options::max_payload) is not kept; the compensation is done all the same.
    ///
    /// ```
    /// use backstitch::{Context, Step, StepResult, Undo};
    ///
    /// async fn refund(ctx: Context<u32>, undo: Undo<String>) -> StepResult<()> {
    ///     match undo.result {
    ///         Some(payment) => println!("refunding {payment}"),
    ///         // Nobody knows whether it was charged: ask the service to forget whatever has this key.
    ///         None => println!("voiding {}", ctx.idempotency_key()),
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let charge = Step::new("charge", |_: Context<u32>| async { Ok("payment 1".to_owned()) });
    /// let step = charge.compensate(refund);
    /// ```
    #[must_use]
    pub fn compensate<C, F, Fut>(mut self, compensation: F) -> Self
    where
        R: DeserializeOwned,
        C: Serialize,
        F: Fn(Context<I>, Undo<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult<C>> + Send + 'static,
    {
        let action = self.inner.handlers.action.take();
        self.inner.handlers.action = action.map(readable::<R>);
        let compensation = Arc::new(compensation);
        self.inner.handlers.compensation = Some(Arc::new(move |call| {
            let compensation = compensation.clone();
            Box::pin(async move {
                let (saga, step) = (call.saga, call.step().clone());
                let undo = Undo::of(&call)?;
                let result = compensation(Context::of(call)?, undo).await?;
                Ok(Payload::encode(&result).unwrap_or_else(|error| {
                    tracing::warn!(%saga, %step, %error, "a compensation's result has no JSON form; it is not kept");
                    Payload::null()
                }))
            })
        }));
        self
    }
}

impl<I, R> Step<I, R> {
    /// What people read.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.inner.title = Some(title.into());
        self
    }

    /// The steps that must have succeeded before; an empty list lets it start at once.
    ///
    /// ```
    /// use backstitch::{Context, Saga, Step};
    ///
    /// let step = |id: &str| Step::new(id, |_: Context<()>| async { Ok(()) });
    /// let saga = Saga::builder("diamond")
    ///     .step(step("design"))
    ///     .step(step("backend").depends_on(["design"]))
    ///     .step(step("frontend").depends_on(["design"])) // runs beside `backend`
    ///     .step(step("test").depends_on(["backend", "frontend"]))
    ///     .build();
    /// assert!(saga.is_ok());
    /// ```
    #[must_use]
    pub fn depends_on<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> Self {
        self.inner.depends_on = Some(steps.into_iter().map(Into::into).collect());
        self
    }

    /// How long one attempt of the action may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inner.timeout = Some(timeout);
        self
    }

    /// How often the action is tried again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.inner.retry = Some(retry);
        self
    }

    /// How many attempts of this action an engine runs at a time, over all sagas and versions that limit it. The number of
    /// the version that new sagas take counts, also for those under way; what runs already is let finish.
    #[must_use]
    pub fn concurrency(mut self, limit: u32) -> Self {
        self.inner.concurrency = Some(limit);
        self
    }

    /// How long one attempt of the compensation may take.
    #[must_use]
    pub fn compensation_timeout(mut self, timeout: Duration) -> Self {
        self.inner.compensation_timeout = Some(timeout);
        self
    }

    /// How often the compensation is tried again.
    #[must_use]
    pub fn compensation_retry(mut self, retry: Retry) -> Self {
        self.inner.compensation_retry = Some(retry);
        self
    }
}

/// What cannot be read back could never be handed to the compensation.
fn readable<R: DeserializeOwned>(action: Handler) -> Handler {
    Arc::new(move |call| {
        let acting = action(call);
        Box::pin(async move {
            let result = acting.await?;
            result.decode::<R>().map_err(unreadable)?;
            Ok(result)
        })
    })
}

#[expect(clippy::needless_pass_by_value, reason = "used as a plain function in map_err")]
fn unreadable(why: serde_json::Error) -> StepError {
    use backstitch_kernel::ErrorKind;
    StepError::new(ErrorKind::Unusable, format!("the step's result cannot be read back from its JSON: {why}"))
}

#[expect(clippy::needless_pass_by_value, reason = "used as a plain function in map_err")]
fn unusable(why: serde_json::Error) -> StepError {
    use backstitch_kernel::ErrorKind;
    StepError::new(ErrorKind::Unusable, format!("the step's result has no JSON form: {why}"))
}
