//! A hanging host: thousands of sagas may wait for it, and sagas of other hosts continue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstitch::kernel::saga::draft::{Draft, DraftCompensation, DraftStep, Performer};
use backstitch::{
    Attempt, Caller, Context, Engine, Limit, LimitScope, Options, Payload, Phase, Retry, Run, Saga, SagaId,
    Status, Step, StepError, StepStatus, secs,
};
use backstitch_testkit::postgres::fresh_database;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Sagas that wait for the host.
const SAGAS: usize = 200;
/// Shorter than the runner's time limit, so that a failure shows what is full.
const SOON: Duration = Duration::from_secs(45);
/// The limit of running sagas.
const SLOTS: usize = 8;

/// Calls to `hung` wait for the gate; all others succeed at once.
struct Hosts {
    gate: Arc<Semaphore>,
    hung: Limit,
    undo: Limit,
    healthy: Limit,
}

#[async_trait]
impl Caller for Hosts {
    async fn call(&self, call: &Payload, _: &Attempt<'_>) -> Result<Payload, StepError> {
        if call.as_str() == "\"hung\"" {
            self.gate.acquire().await.map_err(|_| StepError::not_done("closed"))?.forget();
        }
        Ok(Payload::null())
    }

    fn limit(&self, call: &Payload, phase: Phase) -> Option<Limit> {
        Some(match phase {
            _ if call.as_str() != "\"hung\"" => self.healthy.clone(),
            Phase::Do => self.hung.clone(),
            Phase::Undo => self.undo.clone(),
        })
    }
}

fn calling(id: &str, host: &str) -> DraftStep {
    let call = || Performer::Call(Payload::encode(host).unwrap());
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: None,
        action: call(),
        timeout: secs(3600),
        queue_timeout: None,
        retry: Retry::none(),
        compensate: Some(DraftCompensation { action: call(), ..DraftCompensation::default() }),
        concurrency: None,
    }
}

fn hung() -> LimitScope {
    LimitScope::Host("hung:80".into())
}

async fn open(address: &str, gate: &Arc<Semaphore>, max_active: usize, calls: usize) -> Engine {
    let limit = || Limit::new(hung(), calls);
    let healthy = Limit::new(LimitScope::Host("healthy:80".into()), calls);
    let caller = Hosts { gate: gate.clone(), hung: limit(), undo: limit(), healthy };
    let options = Options {
        max_active,
        tick: Duration::from_millis(100),
        caller: Some(Arc::new(caller)),
        ..Options::default()
    };
    let engine = Engine::open_with(address, options).await.unwrap();
    for (name, host) in [("hung", "hung"), ("healthy", "healthy")] {
        let steps = vec![calling("first", "healthy"), calling("second", host)];
        engine.declare(Draft { steps, ..Draft::new(name) }).await.unwrap();
        engine.apply(name, None).await.unwrap();
    }
    engine
}

async fn start(engine: &Engine, name: &str) -> Run {
    engine.start(name, &()).await.unwrap()
}

/// Waits for a saga's end. A failure shows what is full.
async fn end(engine: &Engine, run: &Run) -> Status {
    let ended = tokio::time::timeout(SOON, run.clone().outcome()).await;
    let late = |_| panic!("{} does not end within {SOON:?}; full: {:?}", run.id(), engine.full_limits());
    ended.unwrap_or_else(late).unwrap().status
}

async fn until(engine: &Engine, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}; full: {:?}", engine.full_limits());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn waiting(engine: &Engine) -> usize {
    engine.full_limits().iter().filter(|full| full.scope == hung()).map(|full| full.waiting).sum()
}

async fn second_step(engine: &Engine, saga: SagaId) -> (StepStatus, u32) {
    let saga = engine.load(saga).await.unwrap().unwrap();
    let second = saga.step("second").unwrap();
    (second.status, second.attempts)
}

/// `at_once`: the number of its running calls.
async fn hung_host_holds_up_nothing_else(address: &str, calls: usize, at_once: usize) {
    let gate = Arc::new(Semaphore::new(0));
    let engine = open(address, &gate, SLOTS, calls).await;
    let mut runs = Vec::new();
    for _ in 0..SAGAS {
        runs.push(start(&engine, "hung").await);
    }
    let late = engine.start("hung", &()).deadline_in(secs(2)).await.unwrap();
    until(&engine, "all wait", async || waiting(&engine) == SAGAS - at_once + 1).await;
    assert_eq!(end(&engine, &start(&engine, "healthy").await).await, Status::Succeeded);

    let full = &engine.full_limits()[0];
    assert_eq!((full.scope.to_string(), full.waiting), ("host `hung:80`".to_owned(), SAGAS - at_once + 1));
    assert!(engine.active() <= 2 * SLOTS, "{} sagas are in memory", engine.active());
    let last = runs.pop().unwrap();
    assert_eq!(second_step(&engine, last.id()).await, (StepStatus::Pending, 0), "a wait is no attempt");

    // Waiting sagas still react to deadlines and operators.
    assert_eq!(end(&engine, &late).await, Status::Compensated);
    engine.cancel(last.id(), "no longer wanted").await.unwrap();
    assert_eq!(end(&engine, &last).await, Status::Compensated);
    until(&engine, "neither waits", async || waiting(&engine) == SAGAS - at_once - 1).await;

    gate.add_permits(SAGAS);
    for run in &runs {
        assert_eq!(end(&engine, run).await, Status::Succeeded);
    }
    assert_eq!(engine.full_limits(), []);
    engine.shutdown().await.unwrap();
}

/// A single slot cannot be shared.
async fn full_slots_are_blamed_on_their_holder(address: &str) {
    let gate = Arc::new(Semaphore::new(0));
    let engine = open(address, &gate, 1, 1).await;
    let holder = start(&engine, "hung").await;
    until(&engine, "it calls", async || second_step(&engine, holder.id()).await == (StepStatus::Running, 1))
        .await;
    let waiter = start(&engine, "healthy").await;
    until(&engine, "the other waits", async || !engine.full_limits().is_empty()).await;
    let full = engine.full_limits();
    let [only] = &full[..] else { panic!("{full:?}") };
    assert_eq!((&only.scope, only.waiting), (&LimitScope::Slots, 1), "its own host has room");
    assert_eq!(only.held_by, Some(hung()));
    gate.add_permits(1);
    assert_eq!(
        (end(&engine, &holder).await, end(&engine, &waiter).await),
        (Status::Succeeded, Status::Succeeded)
    );
    engine.shutdown().await.unwrap();
}

/// An attempt that counts against a host and a step uses one of three slots.
async fn full_slots_are_not_blamed_on_the_few(address: &str) {
    let (calls, code) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let engine = open(address, &calls, 3, 3).await;
    let limited = DraftStep { concurrency: Some(3), ..calling("first", "hung") };
    engine.declare(Draft { steps: vec![limited], ..Draft::new("limited") }).await.unwrap();
    engine.apply("limited", None).await.unwrap();
    let gate = code.clone();
    let step = Step::new("a", move |_: Context<Value>| {
        let gate = gate.clone();
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let unlimited = Saga::builder("unlimited").step(step.timeout(secs(3600))).build().unwrap();
    engine.register(unlimited).unwrap();
    let mut runs = Vec::new();
    for name in ["limited", "unlimited", "unlimited", "healthy"] {
        runs.push(start(&engine, name).await);
    }
    until(&engine, "one waits for a slot", async || !engine.full_limits().is_empty()).await;
    let held_by = || engine.full_limits().into_iter().map(|full| full.held_by).collect::<Vec<_>>();
    until(&engine, "two of three slots are held by unlimited steps", async || held_by() == [None]).await;
    calls.add_permits(1);
    code.add_permits(2);
    for run in &runs {
        assert_eq!(end(&engine, run).await, Status::Succeeded);
    }
    engine.shutdown().await.unwrap();
}

fn in_a_file(directory: &tempfile::TempDir) -> String {
    format!("sqlite:{}", directory.path().join("s.db").display())
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_holds_up_no_other_on_sqlite() {
    hung_host_holds_up_nothing_else(&in_a_file(&tempfile::tempdir().unwrap()), 2, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_holds_up_no_other_on_postgres() {
    hung_host_holds_up_nothing_else(&fresh_database().await, 2, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_with_a_limit_above_all_slots_leaves_some_on_sqlite() {
    hung_host_holds_up_nothing_else(&in_a_file(&tempfile::tempdir().unwrap()), SAGAS, SLOTS / 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_with_a_high_limit_leaves_slots_on_postgres() {
    hung_host_holds_up_nothing_else(&fresh_database().await, SAGAS, SLOTS / 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_slots_are_blamed_on_their_holder_on_sqlite() {
    full_slots_are_blamed_on_their_holder(&in_a_file(&tempfile::tempdir().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_slots_are_blamed_on_their_holder_on_postgres() {
    full_slots_are_blamed_on_their_holder(&fresh_database().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_slots_are_not_blamed_on_the_few_on_sqlite() {
    full_slots_are_not_blamed_on_the_few(&in_a_file(&tempfile::tempdir().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_slots_are_not_blamed_on_the_few_on_postgres() {
    full_slots_are_not_blamed_on_the_few(&fresh_database().await).await;
}
