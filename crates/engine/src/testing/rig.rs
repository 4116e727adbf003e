//! Runs a saga through a scenario.

use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::saga::{Definition, Phase};
use backstitch_kernel::{Backoff, ErrorKind, Payload, Retry, SagaId, StepError};
use futures::{Stream, StreamExt};

use super::Report;
use super::calls::Calls;
use super::halting::Halting;
use super::scenario::{Plot, Scenario};
use crate::call::Handler;
use crate::clock::TokioClock;
use crate::defaults::Unsaid;
use crate::engine::Engine;
use crate::options::Options;
use crate::saga::Saga;
use crate::store::sqlite::SqliteStore;
use crate::store::{Cursor, Filter, Store};
use crate::view::SagaState;
use crate::watch::SagaEvent;

/// Runs the saga to its end, in two lives if the scenario has a crash; says whether the first one died.
pub(super) async fn run(
    saga: &impl Fn() -> Saga,
    input: &Payload,
    scenario: &Scenario,
) -> Result<(Report, bool), String> {
    let stage = Stage::new(scenario)?;
    let rigged = stage.rig(saga())?;
    let limit = longest(&rigged.definition);
    let name = rigged.definition.name().to_owned();
    let in_time = |what: &str| format!("{what} does not end: {limit:?} and more have passed");

    let world = Arc::new(Halting::on(stage.store.clone(), scenario.crash));
    let engine = stage.engine(world.clone(), rigged).await?;
    let first = async {
        let run = engine.start(&name, input).await?;
        run.outcome().await
    };
    let ended = tokio::select! {
        biased;
        () = world.halted() => None,
        ended = tokio::time::timeout(limit, first) => Some(ended.map_err(|_| in_time("the saga"))?),
    };
    drop(engine);
    let ended = match ended {
        // An error that only shows the end of the world is no error of the saga.
        Some(ended) if !world.has_halted() => ended.map_err(|error| error.to_string())?,
        _ => {
            let second = stage.take_up_again(saga()).await?;
            tokio::time::timeout(limit, second)
                .await
                .map_err(|_| in_time("the saga, taken up again after the crash,"))??
        }
    };
    let log = stage.store.log(ended.id, 0, usize::MAX).await.map_err(|error| error.to_string())?;
    let report = Report { scenario: scenario.clone(), ended, log, calls: stage.calls.all() };
    Ok((report, world.has_halted()))
}

/// What outlives the process.
struct Stage {
    plot: Plot,
    store: Arc<dyn Store>,
    calls: Calls,
    options: Options,
}

impl Stage {
    fn new(scenario: &Scenario) -> Result<Self, String> {
        let clock = Arc::new(TokioClock::default());
        let store = SqliteStore::in_memory(clock.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            plot: scenario.plot.clone(),
            store: Arc::new(store),
            calls: Calls::default(),
            options: Options { clock, node: "test".to_owned(), ..Options::default() },
        })
    }

    async fn engine(&self, store: Arc<dyn Store>, saga: Saga) -> Result<Engine, String> {
        let engine =
            Engine::on_store(store, self.options.clone()).await.map_err(|error| error.to_string())?;
        engine.register(saga).map_err(|error| error.to_string())?;
        Ok(engine)
    }

    /// A second life on what the first one left behind.
    async fn take_up_again(
        &self,
        saga: Saga,
    ) -> Result<impl Future<Output = Result<SagaState, String>>, String> {
        let engine = Engine::on_store(self.store.clone(), self.options.clone());
        let engine = engine.await.map_err(|error| error.to_string())?;
        let events = engine.events();
        engine.register(self.rig(saga)?).map_err(|error| error.to_string())?;
        let saga = self.only_saga().await?;
        Ok(async move { end_of(&engine, saga, events).await })
    }

    async fn only_saga(&self) -> Result<SagaId, String> {
        let page = self.store.list(&Filter::default(), &Cursor { before: None, limit: 1 }).await;
        let page = page.map_err(|error| error.to_string())?;
        page.items.first().map(|row| row.id).ok_or_else(|| "the saga was never started".to_owned())
    }

    /// The saga with its handlers watched, one of them sabotaged, and nothing to wait for.
    fn rig(&self, saga: Saga) -> Result<Saga, String> {
        let mut draft = saga.definition.draft().clone();
        (draft.on_success, draft.on_failure) = (false, false);
        for step in &mut draft.steps {
            step.retry = quick(&step.retry);
            if let Some(undo) = &mut step.compensate {
                undo.retry = quick(&undo.retry);
            }
        }
        let definition = draft.check().map_err(|problems| problems.to_string())?;
        let mut handlers = saga.handlers;
        for (step, handlers) in definition.steps().iter().zip(&mut handlers) {
            let sabotage = match &self.plot {
                Plot::RefusedAt(failing) if *failing == step.id => Sabotage::Refuse,
                Plot::AnswerLostAt(failing) if *failing == step.id => Sabotage::LoseAnswer,
                Plot::Succeeds | Plot::RefusedAt(_) | Plot::AnswerLostAt(_) => Sabotage::None,
            };
            handlers.action = handlers.action.take().map(|action| self.watched(action, sabotage));
            if let Some(undo) = &mut handlers.compensation {
                *undo = self.watched(undo.clone(), Sabotage::None);
            }
        }
        Ok(Saga { definition, handlers, on_success: None, on_failure: None, unsaid: Unsaid::default() })
    }

    fn watched(&self, handler: Handler, sabotage: Sabotage) -> Handler {
        let calls = self.calls.clone();
        Arc::new(move |call| {
            calls.note(&call);
            debug_assert!(call.phase == Phase::Do || sabotage == Sabotage::None);
            match sabotage {
                Sabotage::None => handler(call),
                Sabotage::Refuse => Box::pin(async { Err(StepError::refused("refused by the test")) }),
                Sabotage::LoseAnswer => {
                    let work = handler(call);
                    Box::pin(async move {
                        work.await?;
                        Err(StepError::new(ErrorKind::Unusable, "the test lost the answer"))
                    })
                }
            }
        })
    }
}

/// What is done to an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    None,
    Refuse,
    LoseAnswer,
}

/// Waits for the end of a saga that this engine takes up. Live events are followed, not the clock: under paused
/// time a look every now and then would make a long wait many looks.
async fn end_of(
    engine: &Engine,
    saga: SagaId,
    events: impl Stream<Item = Arc<SagaEvent>>,
) -> Result<SagaState, String> {
    let mut events = std::pin::pin!(events);
    loop {
        let state = engine.load(saga).await.map_err(|error| error.to_string())?;
        if let Some(state) = state.filter(|state| state.status.is_terminal()) {
            return Ok(state);
        }
        while let Some(event) = events.next().await {
            if event.saga == saga && event.recorded.event.is_terminal() {
                break;
            }
        }
    }
}

/// As many retries, but soon: the test is about what happens, not about when.
fn quick(retry: &Retry) -> Retry {
    Retry {
        count: retry.count,
        backoff: Backoff::Fixed(Duration::from_millis(1)),
        jitter_percent: 0,
        within: None,
    }
}

/// Longer than the saga can take if every attempt of everything takes as long as it may.
fn longest(definition: &Definition) -> Duration {
    let steps = definition.steps().iter().map(|step| {
        let action = step.timeout.saturating_mul(step.retry.count.saturating_add(2));
        let undo = step.compensation.as_ref();
        let undo = undo.map(|undo| undo.timeout.saturating_mul(undo.retry.count.saturating_add(2)));
        action.saturating_add(undo.unwrap_or_default())
    });
    steps.fold(Duration::from_secs(60), Duration::saturating_add)
}
