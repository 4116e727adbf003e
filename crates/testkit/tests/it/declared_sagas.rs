//! Declared sagas and outside workers on real databases: across restarts, and on several nodes at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstitch::clock::{Clock as _, SystemClock};
use backstitch::kernel::saga::draft::{Draft, DraftCompensation, DraftStep, Performer};
use backstitch::{
    Answered, Attempt, Caller, Engine, ErrorKind, Event, Options, Payload, Recorded, Retry, SagaId,
    SagaState, Status, StepError, StepStatus, Subject, Work, secs,
};
use backstitch_testkit::postgres::fresh_database;
use futures::StreamExt as _;
use serde_json::json;

/// Time limit of every wait.
const SOON: Duration = backstitch_testkit::PATIENCE;
/// Long enough for timely heartbeats on a busy machine, short enough to wait for a dead node.
const LEASE: Duration = Duration::from_secs(6);

/// Calls that succeed, except for those that hang.
struct Calls {
    node: &'static str,
    hangs: bool,
}

#[async_trait]
impl Caller for Calls {
    async fn call(&self, call: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError> {
        if self.hangs && call.as_str() == "\"hangs\"" {
            std::future::pending::<()>().await;
        }
        Ok(Payload::encode(&format!("{} by {}", attempt.step(), self.node)).unwrap())
    }
}

fn step(id: &str, action: Performer) -> DraftStep {
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: None,
        action,
        timeout: secs(3600),
        queue_timeout: None,
        retry: Retry::none(),
        compensate: None,
        concurrency: None,
    }
}

fn calling(id: &str) -> DraftStep {
    step(id, Performer::Call(Payload::encode(&id).unwrap()))
}

fn builders() -> Performer {
    Performer::Worker { queue: "builders".to_owned() }
}

fn working(id: &str) -> DraftStep {
    step(id, builders())
}

fn job(steps: impl IntoIterator<Item = DraftStep>) -> Draft {
    Draft { steps: steps.into_iter().collect(), ..Draft::new("job") }
}

fn options(node: &'static str, hangs: bool) -> Options {
    Options {
        node: node.to_owned(),
        lease: LEASE,
        tick: Duration::from_millis(100),
        caller: Some(Arc::new(Calls { node, hangs })),
        ..Options::default()
    }
}

async fn open(address: &str, node: &'static str) -> Engine {
    Engine::open_with(address, options(node, false)).await.unwrap()
}

async fn put(engine: &Engine, draft: Draft) -> u32 {
    engine.declare(draft).await.unwrap();
    engine.apply("job", None).await.unwrap().version
}

async fn start(engine: &Engine) -> SagaId {
    engine.start("job", &json!({"pr": 7})).await.unwrap().id()
}

async fn outcome(engine: &Engine, saga: SagaId) -> SagaState {
    let run = engine.find(saga).await.unwrap();
    tokio::time::timeout(SOON, run.outcome()).await.unwrap().unwrap()
}

async fn take(engine: &Engine) -> Work {
    engine.lease_work(&["builders".to_owned()], 1, secs(600), SOON).await.unwrap().pop().unwrap()
}

async fn complete(engine: &Engine, work: &Work) -> Answered {
    engine.complete_work(work.job, work.token, Payload::encode("built").unwrap()).await.unwrap()
}

/// Waits for a condition.
async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(began.elapsed() < SOON, "it never came to that");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn is_at(engine: &Engine, saga: SagaId, step: &str) {
    is_in(engine, saga, step, StepStatus::Running).await;
}

async fn is_waiting(engine: &Engine, saga: SagaId, step: &str) {
    is_in(engine, saga, step, StepStatus::Waiting).await;
}

async fn is_in(engine: &Engine, saga: SagaId, step: &str, status: StepStatus) {
    until(async || {
        let state = engine.load(saga).await.unwrap()?;
        (state.step(step)?.status == status).then_some(())
    })
    .await;
}

async fn log(engine: &Engine, saga: SagaId) -> Vec<Recorded> {
    engine.find(saga).await.unwrap().events().map(Result::unwrap).collect().await
}

/// Checks on stores that survive their processes.
async fn a_worker_and_a_definition_outlive_the_process(address: &str) {
    let engine = open(address, "first").await;
    assert_eq!(put(&engine, job([working("build"), calling("ship")])).await, 1);
    let saga = start(&engine).await;
    let work = take(&engine).await;
    assert_eq!(put(&engine, job([calling("ship")])).await, 2);
    engine.shutdown().await.unwrap();
    let engine = open(address, "second").await;
    assert_eq!(engine.declared("job").await.unwrap().unwrap().active, Some(2));
    assert!(!engine.extend_lease(work.job, work.token, secs(600)).await.unwrap().cancelled);
    assert_eq!(complete(&engine, &work).await, Answered::Now);
    assert_eq!(complete(&engine, &work).await, Answered::Before);
    let ended = outcome(&engine, saga).await;
    assert_eq!((ended.status, ended.version), (Status::Succeeded, 1));
    assert_eq!(ended.step("build").unwrap().attempts, 1, "the restart did not interrupt it");
    assert_eq!(ended.result::<String>("ship").unwrap(), "ship by second");
    let newest = start(&engine).await;
    assert_eq!(outcome(&engine, newest).await.version, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_a_definition_outlive_the_process_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    a_worker_and_a_definition_outlive_the_process(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_a_definition_outlive_the_process_on_postgres() {
    a_worker_and_a_definition_outlive_the_process(&fresh_database().await).await;
}

/// A rollback withdraws jobs that no worker has leased.
async fn a_cancelled_saga_takes_its_offers_back(address: &str) {
    let engine = open(address, "first").await;
    put(&engine, job([calling("plan"), working("build")])).await;
    let saga = start(&engine).await;
    is_waiting(&engine, saga, "build").await;
    engine.cancel(saga, "changed my mind").await.unwrap();
    let ended = outcome(&engine, saga).await;
    assert_eq!(ended.status, Status::Compensated);
    let error = ended.step("build").unwrap().error.clone().unwrap();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Refused, "withdrawn before a worker took it"));
    let offered = engine.lease_work(&["builders".to_owned()], 1, LEASE, secs(0)).await.unwrap();
    assert!(offered.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_saga_takes_its_offers_back_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    a_cancelled_saga_takes_its_offers_back(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_saga_takes_its_offers_back_on_postgres() {
    a_cancelled_saga_takes_its_offers_back(&fresh_database().await).await;
}

/// When a worker's timeout begins, and how the queue timeout ends.
async fn worker_time_begins_with_the_lease(address: &str) {
    let engine = open(address, "only").await;
    let timeout = secs(600);
    put(&engine, job([DraftStep { timeout, ..working("build") }])).await;
    let saga = start(&engine).await;
    is_waiting(&engine, saga, "build").await;
    let before = SystemClock.now();
    let work = take(&engine).await;
    is_at(&engine, saga, "build").await;
    complete(&engine, &work).await;
    assert_eq!(outcome(&engine, saga).await.status, Status::Succeeded);
    let log = log(&engine, saga).await;
    let until = log.iter().find_map(|recorded| match recorded.event {
        Event::StepLeased { until, .. } => Some(until),
        _ => None,
    });
    assert!(until.unwrap() >= before.plus(timeout), "{log:?}");

    let impatient = DraftStep { queue_timeout: Some(Duration::from_millis(1)), ..working("build") };
    put(&engine, job([impatient])).await;
    let saga = start(&engine).await;
    let ended = outcome(&engine, saga).await;
    assert_eq!(ended.status, Status::Compensated);
    let build = ended.step("build").unwrap();
    assert_eq!(build.status, StepStatus::Failed, "nothing was done");
    assert_eq!(build.error.as_ref().unwrap().code.as_deref(), Some("QUEUE_TIMEOUT"));
    let offered = engine.lease_work(&["builders".to_owned()], 1, LEASE, secs(0)).await.unwrap();
    assert!(offered.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_time_begins_with_the_lease_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    worker_time_begins_with_the_lease(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_time_begins_with_the_lease_on_postgres() {
    worker_time_begins_with_the_lease(&fresh_database().await).await;
}

/// A worker learns of a rollback, and the log of a released saga stays complete.
async fn heartbeats_tell_workers_of_a_rollback(address: &str) {
    let engine = open(address, "only").await;
    let undo = DraftCompensation {
        action: builders(),
        timeout: secs(3600),
        queue_timeout: None,
        retry: Retry::none(),
    };
    put(&engine, job([DraftStep { compensate: Some(undo), ..working("build") }])).await;
    let saga = start(&engine).await;
    let work = take(&engine).await;
    until(async || (engine.active() == 0).then_some(())).await;
    assert!(!engine.extend_lease(work.job, work.token, secs(600)).await.unwrap().cancelled);
    engine.cancel(saga, "changed my mind").await.unwrap();
    until(async || {
        let extended = engine.extend_lease(work.job, work.token, secs(600)).await.unwrap();
        extended.cancelled.then_some(())
    })
    .await;
    complete(&engine, &work).await;
    let undo = take(&engine).await;
    assert!(!engine.extend_lease(undo.job, undo.token, secs(600)).await.unwrap().cancelled);
    until(async || (engine.active() == 0).then_some(())).await;
    complete(&engine, &undo).await;
    assert_eq!(outcome(&engine, saga).await.status, Status::Compensated);
    let log = log(&engine, saga).await;
    let adopted = log.iter().any(|recorded| recorded.event.name() == "saga.adopted");
    assert!(!adopted, "no other node had it: {log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_tell_workers_of_a_rollback_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("sagas.db").display());
    heartbeats_tell_workers_of_a_rollback(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_tell_workers_of_a_rollback_on_postgres() {
    heartbeats_tell_workers_of_a_rollback(&fresh_database().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_definition_is_used_by_another_node_at_once() {
    let address = fresh_database().await;
    let (a, b) = (open(&address, "a").await, open(&address, "b").await);
    put(&a, job([calling("plan")])).await;
    let first = start(&b).await;
    let ended = outcome(&b, first).await;
    assert_eq!((ended.version, ended.result::<String>("plan").unwrap()), (1, "plan by b".to_owned()));
    put(&a, job([calling("plan"), calling("ship")])).await;
    let newer = until(async || {
        let saga = start(&b).await;
        let ended = outcome(&b, saga).await;
        (ended.version == 2).then_some(ended)
    });
    assert_eq!(newer.await.result::<String>("ship").unwrap(), "ship by b");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_notice_is_needed_to_follow() {
    let address = fresh_database().await;
    let a = open(&address, "a").await;
    let slow = Options { tick: secs(3600), ..options("b", false) };
    let b = Engine::open_with(&address, slow).await.unwrap();
    put(&a, job([calling("plan")])).await;
    let first = start(&b).await;
    outcome(&b, first).await;
    put(&a, job([calling("plan"), calling("ship")])).await;
    until(async || {
        let saga = start(&b).await;
        (outcome(&b, saga).await.version == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_version_is_adopted_by_a_late_node() {
    let address = fresh_database().await;
    let a = Engine::open_with(&address, options("a", true)).await.unwrap();
    put(&a, job([calling("hangs"), calling("ship")])).await;
    let saga = start(&a).await;
    is_at(&a, saga, "hangs").await;
    put(&a, job([calling("ship")])).await;
    put(&a, job([calling("plan")])).await;
    let b = open(&address, "b").await;
    // Without a clean shutdown, as in a crash.
    drop(a);
    let ended = outcome(&b, saga).await;
    assert_eq!((ended.status, ended.version), (Status::Succeeded, 1));
    assert_eq!(ended.step("hangs").unwrap().attempts, 2, "what it did itself was interrupted");
    assert_eq!(ended.result::<String>("ship").unwrap(), "ship by b");
    let newest = start(&b).await;
    assert_eq!(outcome(&b, newest).await.version, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_takes_no_work_from_its_workers() {
    let address = fresh_database().await;
    let a = Engine::open_with(&address, options("a", true)).await.unwrap();
    let b = open(&address, "b").await;
    let roots = [working("build"), calling("hangs")];
    let roots = roots.map(|step| DraftStep { depends_on: Some(Vec::new()), ..step });
    put(&a, job(roots)).await;
    let saga = start(&a).await;
    let work = take(&b).await;
    assert!(matches!(work.subject, Subject::Step { saga: of, .. } if of == saga), "any node hands it out");
    is_at(&b, saga, "hangs").await;
    drop(a);
    until(async || (b.load(saga).await.unwrap()?.step("hangs")?.attempts == 2).then_some(())).await;
    assert_eq!(complete(&b, &work).await, Answered::Now);
    let ended = outcome(&b, saga).await;
    assert_eq!(ended.status, Status::Succeeded);
    assert_eq!(ended.step("build").unwrap().attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_takes_an_answer_for_a_saga_of_another() {
    let address = fresh_database().await;
    let (a, b) = (open(&address, "a").await, open(&address, "b").await);
    let short = DraftStep { timeout: secs(50), ..working("build") };
    put(&a, job([short, calling("ship")])).await;
    let saga = start(&a).await;
    let work = take(&b).await;
    assert_eq!(a.active(), 1);
    complete(&b, &work).await;
    let ended = outcome(&b, saga).await;
    assert_eq!(ended.result::<String>("ship").unwrap(), "ship by a", "its owner goes on with it");
}
