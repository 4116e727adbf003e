//! A host that never answers: thousands of sagas may wait for it, and sagas for other hosts go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstitch::kernel::saga::draft::{Draft, DraftCompensation, DraftStep, Performer};
use backstitch::{
    Attempt, Caller, Engine, Limit, LimitScope, Options, Payload, Phase, Retry, Run, SagaId, Status,
    StepError, StepStatus, secs,
};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::fresh_database;
use tokio::sync::Semaphore;

/// Sagas that wait for the host.
const SAGAS: usize = 200;
/// Calls that it gets at once.
const CALLS: usize = 2;
/// Sagas that run at once.
const SLOTS: usize = 4;

/// Calls to `hung` wait for the gate; all others are answered at once.
struct Hosts {
    gate: Arc<Semaphore>,
    hung: Limit,
    undo: Limit,
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
        (call.as_str() == "\"hung\"").then(|| match phase {
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

async fn open(address: &str, gate: &Arc<Semaphore>) -> Engine {
    let limit = || Limit::new(LimitScope::Host("hung:80".into()), CALLS);
    let caller = Hosts { gate: gate.clone(), hung: limit(), undo: limit() };
    let options = Options {
        max_active: SLOTS,
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

async fn end(run: &Run) -> Status {
    tokio::time::timeout(PATIENCE, run.clone().outcome()).await.unwrap().unwrap().status
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "never so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn waiting(engine: &Engine) -> usize {
    engine.full_limits().iter().map(|full| full.waiting).sum()
}

async fn second_step(engine: &Engine, saga: SagaId) -> (StepStatus, u32) {
    let saga = engine.load(saga).await.unwrap().unwrap();
    let second = saga.step("second").unwrap();
    (second.status, second.attempts)
}

async fn hung_host_holds_up_nothing_else(address: &str) {
    let gate = Arc::new(Semaphore::new(0));
    let engine = open(address, &gate).await;
    let mut runs = Vec::new();
    for _ in 0..SAGAS {
        runs.push(start(&engine, "hung").await);
    }
    let late = engine.start("hung", &()).deadline_in(secs(2)).await.unwrap();
    until("all wait", async || waiting(&engine) == SAGAS - CALLS + 1).await;
    assert_eq!(end(&start(&engine, "healthy").await).await, Status::Succeeded);

    let full = &engine.full_limits()[0];
    assert_eq!((full.scope.to_string(), full.waiting), ("host `hung:80`".to_owned(), SAGAS - CALLS + 1));
    assert!(engine.active() <= 2 * SLOTS, "{} sagas are in memory", engine.active());
    let last = runs.pop().unwrap();
    assert_eq!(second_step(&engine, last.id()).await, (StepStatus::Pending, 0), "a wait is no attempt");

    // What waits still answers to its deadline and to people.
    assert_eq!(end(&late).await, Status::Compensated);
    engine.cancel(last.id(), "no longer wanted").await.unwrap();
    assert_eq!(end(&last).await, Status::Compensated);
    until("neither waits", async || waiting(&engine) == SAGAS - CALLS - 1).await;

    gate.add_permits(SAGAS);
    for run in &runs {
        assert_eq!(end(run).await, Status::Succeeded);
    }
    assert_eq!(engine.full_limits(), []);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_holds_up_no_other_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    hung_host_holds_up_nothing_else(&format!("sqlite:{}", directory.path().join("s.db").display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_host_holds_up_no_other_on_postgres() {
    hung_host_holds_up_nothing_else(&fresh_database().await).await;
}
