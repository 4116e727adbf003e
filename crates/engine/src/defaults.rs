//! Defaults of an engine for what sagas and their steps do not say.

use std::time::Duration;

use backstitch_kernel::Retry;
use backstitch_kernel::saga::draft::DraftCompensation;
use backstitch_kernel::saga::{Draft, DraftStep, Performer, Problems, draft};

use crate::saga::Saga;

/// Defaults for sagas in Rust. A step's own value wins over that of its [`Builder`](crate::Builder), and that one over these;
/// what is `None` here is as the builder's methods say. Declared sagas say all of it themselves.
///
/// ```
/// use backstitch::{Context, Defaults, Engine, Options, Retry, Saga, Step, secs};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let defaults = Defaults {
///     step_timeout: Some(secs(10)),
///     retry: Some(Retry::fixed(3, secs(1))),
///     continue_on_compensation_failure: Some(true),
///     ..Defaults::default()
/// };
/// let engine = Engine::in_memory_with(Options { defaults, ..Options::default() }).await?;
/// let step = Step::new("build", |_: Context<()>| async { Ok(()) }).retry(Retry::none());
/// engine.register(Saga::builder("release").step(step).build()?)?; // 10 s an attempt, and no retry
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// How long an attempt of an action may take.
    pub step_timeout: Option<Duration>,
    /// How actions are retried.
    pub retry: Option<Retry>,
    /// How long an attempt of a compensation may take.
    pub compensation_timeout: Option<Duration>,
    /// How compensations are retried.
    pub compensation_retry: Option<Retry>,
    /// Whether the other compensations still run after one failed for good. This is part of what a version of a saga is:
    /// nodes that share a store must agree on it, and changing it needs new versions of the sagas that do not say.
    pub continue_on_compensation_failure: Option<bool>,
    /// Sagas that are started here without a deadline are rolled back if they have not finished this long after their start.
    /// Those started in SQL have the deadline that they are given there.
    pub deadline_in: Option<Duration>,
}

/// What a saga does not say itself, so that the engine's defaults decide.
#[derive(Default)]
pub(crate) struct Unsaid {
    pub(crate) continue_on_compensation_failure: bool,
    /// In the order of the steps; none where the draft says it all.
    pub(crate) steps: Vec<UnsaidInStep>,
}

/// The same for a step.
pub(crate) struct UnsaidInStep {
    pub(crate) action: UnsaidInPhase,
    pub(crate) compensation: UnsaidInPhase,
}

/// The same for a step's action or its compensation.
#[derive(Clone, Copy)]
pub(crate) struct UnsaidInPhase {
    pub(crate) timeout: bool,
    pub(crate) retry: bool,
}

impl Defaults {
    /// Everything that is wrong with them.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut draft = Draft::new("defaults");
        draft.steps.push(DraftStep {
            id: "step".to_owned(),
            title: None,
            depends_on: None,
            action: Performer::Code,
            timeout: draft::DEFAULT_STEP_TIMEOUT,
            queue_timeout: None,
            retry: draft::default_retry(),
            compensate: Some(DraftCompensation::default()),
            concurrency: None,
        });
        let phase = UnsaidInPhase { timeout: true, retry: true };
        let step = UnsaidInStep { action: phase, compensation: phase };
        self.apply(&mut draft, &Unsaid { continue_on_compensation_failure: true, steps: vec![step] });
        let mut mistakes = Vec::new();
        if let Err(Problems(problems)) = draft.check() {
            mistakes.extend(problems.iter().map(|problem| {
                let place = problem.place.replace("steps[0].compensate.", "compensation_");
                let place = place.replace("steps[0].timeout", "step_timeout").replace("steps[0].", "");
                format!("defaults.{place} {}", problem.message)
            }));
        }
        if self.deadline_in.is_some_and(|time| time.is_zero() || time > draft::MAX_DURATION) {
            mistakes
                .push(format!("defaults.deadline_in must be above 0 and at most {:?}", draft::MAX_DURATION));
        }
        mistakes
    }

    fn apply(&self, draft: &mut Draft, unsaid: &Unsaid) {
        if let Some(on) =
            self.continue_on_compensation_failure.filter(|_| unsaid.continue_on_compensation_failure)
        {
            draft.continue_on_compensation_failure = on;
        }
        for (step, unsaid) in draft.steps.iter_mut().zip(&unsaid.steps) {
            set(&mut step.timeout, unsaid.action.timeout, self.step_timeout.as_ref());
            set(&mut step.retry, unsaid.action.retry, self.retry.as_ref());
            if let Some(undo) = &mut step.compensate {
                set(&mut undo.timeout, unsaid.compensation.timeout, self.compensation_timeout.as_ref());
                set(&mut undo.retry, unsaid.compensation.retry, self.compensation_retry.as_ref());
            }
        }
    }
}

fn set<T: Clone>(value: &mut T, unsaid: bool, default: Option<&T>) {
    if let Some(default) = default.filter(|_| unsaid) {
        value.clone_from(default);
    }
}

impl Saga {
    /// The saga with these defaults for what it does not say.
    pub(crate) fn with_defaults(mut self, defaults: &Defaults) -> Result<Self, Problems> {
        let mut draft = self.definition.draft().clone();
        defaults.apply(&mut draft, &self.unsaid);
        if draft != *self.definition.draft() {
            self.definition = draft.check()?;
        }
        Ok(self)
    }
}
