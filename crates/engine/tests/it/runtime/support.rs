//! An engine to be played with, and steps that note what they do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::TokioClock;
use backstitch::kernel::saga::draft::{Draft, DraftCompensation, DraftStep, Performer};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::Store;
use backstitch::store::sqlite::SqliteStore;
use backstitch::{
    Attempt, Caller, Context, Engine, Event, Options, Payload, Recorded, Retry, Run, Saga, SagaState, Step,
    StepError, StepResult, Undo,
};
use futures::StreamExt;
use tokio::time::Instant;

/// A store that engines can be opened on, one after the other.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(TokioClock::default());
        let mut options = Options { clock: clock.clone(), ..Options::default() };
        change(&mut options);
        Self { store: Arc::new(SqliteStore::in_memory(clock).unwrap()), options }
    }

    pub(crate) async fn open(&self) -> Engine {
        Engine::on_store(self.store.clone(), self.options.clone()).await.unwrap()
    }

    pub(crate) async fn open_with(&self, saga: Saga) -> Engine {
        let engine = self.open().await;
        engine.register(saga).unwrap();
        engine
    }
}

/// An engine with one saga.
pub(crate) async fn engine_with(saga: Saga) -> Engine {
    Bench::new().open_with(saga).await
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.said().iter().filter(|said| *said == what).count()
    }
}

/// A step that notes what it does, and is undone likewise.
pub(crate) fn noting(id: &'static str, trace: &Trace) -> Step<serde_json::Value, String> {
    acting(id, trace, |_| Ok(()))
}

/// A step that notes what it does and then answers as told, attempt by attempt.
pub(crate) fn acting(
    id: &'static str,
    trace: &Trace,
    answer: impl Fn(u32) -> Result<(), StepError> + Send + Sync + 'static,
) -> Step<serde_json::Value, String> {
    let (done, undone) = (trace.clone(), trace.clone());
    Step::new(id, move |ctx: Context<serde_json::Value>| {
        done.say(format!("do {id}"));
        let answer = answer(ctx.attempt());
        async move {
            answer?;
            Ok(format!("{id} done"))
        }
    })
    .compensate(move |_, undo: Undo<String>| {
        undone.say(format!("undo {id} {}", undo.result.as_deref().unwrap_or("in doubt")));
        async { Ok(()) }
    })
    .retry(Retry::none())
}

/// Panics when it is dropped, unless that comes of another panic.
pub(crate) struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// Never ends, and panics when it is given up.
pub(crate) async fn explode_when_dropped<T>() -> T {
    let _grenade = Grenade;
    std::future::pending().await
}

/// A step that refuses.
pub(crate) fn refusing(id: &'static str, trace: &Trace) -> Step<serde_json::Value, String> {
    acting(id, trace, |_| Err(StepError::refused("no").with_code("NOPE")))
}

/// A step that begins and never ends.
pub(crate) fn hanging(id: &'static str, trace: &Trace) -> Step<serde_json::Value, String> {
    let (done, undone) = (trace.clone(), trace.clone());
    Step::new(id, move |_: Context<serde_json::Value>| {
        done.say(format!("do {id}"));
        std::future::pending::<StepResult<String>>()
    })
    .compensate(move |_, undo: Undo<String>| {
        undone.say(format!("undo {id} {}", undo.result.as_deref().unwrap_or("in doubt")));
        async { Ok(()) }
    })
    .retry(Retry::none())
}

/// A compensation that fails as often as it is called.
pub(crate) fn stubborn(id: &'static str, trace: &Trace) -> Step<serde_json::Value, String> {
    let undone = trace.clone();
    noting(id, trace).compensate(move |_, _: Undo<String>| {
        undone.say(format!("undo {id} fails"));
        async { Err::<(), _>(StepError::refused("it stays").into()) }
    })
}

pub(crate) async fn start(engine: &Engine, saga: &str) -> Run {
    engine.start(saga, &serde_json::Value::Null).await.unwrap()
}

/// Starts a saga and waits for its end.
pub(crate) async fn execute(engine: &Engine, saga: &str) -> SagaState {
    start(engine, saga).await.outcome().await.unwrap()
}

/// Runs a saga on an engine of its own.
pub(crate) async fn run_alone(saga: Saga) -> SagaState {
    let name = saga.definition().name().to_owned();
    execute(&engine_with(saga).await, &name).await
}

pub(crate) async fn log(run: &Run) -> Vec<Recorded> {
    run.events().map(Result::unwrap).collect().await
}

pub(crate) fn names(log: &[Recorded]) -> Vec<&'static str> {
    log.iter().map(|recorded| recorded.event.name()).collect()
}

/// Waits for the first event that is meant.
pub(crate) async fn wait_for(run: &Run, meant: impl Fn(&Event) -> bool) {
    let mut events = Box::pin(run.events());
    while let Some(recorded) = events.next().await {
        if meant(&recorded.unwrap().event) {
            return;
        }
    }
    panic!("the saga ended without it");
}

pub(crate) async fn wait_for_start_of(run: &Run, step: &str) {
    wait_for(
        run,
        |event| matches!(event, Event::StepStarted { step: started, .. } if started.as_str() == step),
    )
    .await;
}

/// Waits, in simulated time, until something holds; an hour is enough for everything here.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(3600), "never so: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A definition that is written down, with these steps one after the other.
pub(crate) fn written(name: &str, steps: impl IntoIterator<Item = DraftStep>) -> Draft {
    Draft { steps: steps.into_iter().collect(), ..Draft::new(name) }
}

/// A declared step, undone in the same manner and never tried again.
fn declared_step(id: &str, action: Performer, undo: Performer) -> DraftStep {
    let compensate = DraftCompensation {
        action: undo,
        timeout: Duration::from_secs(120),
        queue_timeout: None,
        retry: Retry::none(),
    };
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: None,
        action,
        timeout: Duration::from_secs(60),
        queue_timeout: None,
        retry: Retry::none(),
        compensate: Some(compensate),
        concurrency: None,
    }
}

/// A declared step whose calls say `do …` and `undo …`.
pub(crate) fn calling(id: &str) -> DraftStep {
    let call = |phase: &str| Performer::Call(Payload::encode(&format!("{phase} {id}")).unwrap());
    declared_step(id, call("do"), call("undo"))
}

/// A declared step that is left to the workers of `builders`, and undone by a call.
pub(crate) fn working(id: &str) -> DraftStep {
    let undo = Performer::Call(Payload::encode(&format!("undo {id}")).unwrap());
    declared_step(id, builders(), undo)
}

pub(crate) fn builders() -> Performer {
    Performer::Worker { queue: "builders".to_owned() }
}

type CallAnswer = dyn Fn(&str, u32) -> Result<serde_json::Value, StepError> + Send + Sync;

/// Makes declared calls: notes what each says and everything it gets to know, and answers as told.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) trace: Trace,
    pub(crate) bodies: Arc<Mutex<Vec<serde_json::Value>>>,
    answer: Arc<CallAnswer>,
}

impl Calls {
    /// All of them go well; their results say which they were.
    pub(crate) fn good() -> Self {
        Self::answering(|call, _| Ok(serde_json::Value::from(format!("{call} done"))))
    }

    pub(crate) fn answering(
        answer: impl Fn(&str, u32) -> Result<serde_json::Value, StepError> + Send + Sync + 'static,
    ) -> Self {
        Self { trace: Trace::default(), bodies: Arc::default(), answer: Arc::new(answer) }
    }

    /// An engine of their own, and the store under it.
    pub(crate) fn bench(&self) -> Bench {
        Bench::with(|options| options.caller = Some(Arc::new(self.clone())))
    }
}

#[async_trait]
impl Caller for Calls {
    async fn call(&self, call: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError> {
        let call: String = call.decode().unwrap();
        self.trace.say(&call);
        self.bodies.lock().unwrap().push(serde_json::from_str(&attempt.body().unwrap()).unwrap());
        if call.ends_with("hangs") {
            std::future::pending::<()>().await;
        }
        (self.answer)(&call, attempt.number()).map(|result| Payload::encode(&result).unwrap())
    }
}

/// Declares and applies at once.
pub(crate) async fn put(engine: &Engine, draft: Draft) -> u32 {
    let name = draft.name.clone();
    engine.declare(draft).await.unwrap();
    engine.apply(&name, None).await.unwrap().version
}

/// Keeps what is sent, and fails the first sends if told to.
#[derive(Clone, Default)]
pub(crate) struct Post {
    pub(crate) sent: Arc<Mutex<Vec<Message>>>,
    pub(crate) failures: Arc<Mutex<u32>>,
    pub(crate) tries: Arc<Mutex<u32>>,
}

#[async_trait]
impl Sink for Post {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        *self.tries.lock().unwrap() += 1;
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(Undelivered::new("down", "the broker is down"));
        }
        self.sent.lock().unwrap().push(message.clone());
        Ok(Receipt::default())
    }
}

impl Post {
    pub(crate) fn topics(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|message| message.topic.clone()).collect()
    }
}
