//! An engine whose sagas call services.

use std::sync::Arc;

use backstitch::clock::SystemClock;
use backstitch::{Caller, Engine, Run, Saga, SagaState, StepError};
use backstitch_modules::declaration::{Declaration, Format};
use backstitch_modules::http_call::{HttpCaller, Limits};
use serde_json::json;

pub(crate) struct Stage {
    engine: Engine,
    caller: Arc<dyn Caller>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::within(&Limits::default()).await
    }

    pub(crate) async fn within(limits: &Limits) -> Self {
        let caller = Arc::new(HttpCaller::new(limits, Arc::new(SystemClock)).unwrap());
        Self { engine: Engine::in_memory().await.unwrap(), caller }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Makes a definition known.
    pub(crate) fn declare(&self, yaml: &str) {
        let draft = Declaration::read(yaml.as_bytes(), Format::Yaml).unwrap_or_else(|why| panic!("{why}"));
        self.register(draft);
    }

    pub(crate) fn register(&self, draft: backstitch::Draft) {
        self.engine.register(Saga::declared(draft, &self.caller).unwrap()).unwrap();
    }

    pub(crate) async fn start(&self, name: &str) -> Run {
        self.engine.start(name, &json!({"amount": 7})).await.unwrap()
    }

    pub(crate) async fn run(&self, name: &str) -> SagaState {
        self.start(name).await.outcome().await.unwrap()
    }
}

/// A saga `once` of one step `call` that is tried once.
pub(crate) fn once(url: &str) -> String {
    one_step(url, "retry: 0")
}

/// A saga `once` of one step `call`.
pub(crate) fn one_step(url: &str, more: &str) -> String {
    format!("{{name: once, steps: [{{id: call, action: {{http: {{url: '{url}'}}}}, {more}}}]}}")
}

/// What comes of a call that is made once.
pub(crate) async fn outcome(url: &str) -> SagaState {
    let stage = Stage::new().await;
    stage.declare(&once(url));
    stage.run("once").await
}

/// Why a call that is made once does not succeed.
pub(crate) async fn error(url: &str) -> StepError {
    let ended = outcome(url).await;
    ended.error.unwrap_or_else(|| panic!("it succeeded: {:?}", ended.steps))
}
