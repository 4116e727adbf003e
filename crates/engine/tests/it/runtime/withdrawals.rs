//! A rollback begins while work is offered: what no worker has is taken back, what one has is awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use backstitch::kernel::saga::draft::DraftStep;
use backstitch::store::Error as StoreError;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Answered, Engine, Error, ErrorKind, Payload, Retry, Status, StepError, StepStatus, secs};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::runtime::support::*;
use crate::runtime::workers::{lease, step_of, take};

/// Long enough for its saga to be let go.
fn patient(id: &str) -> DraftStep {
    DraftStep { timeout: secs(7200), retry: Retry::fixed(3, secs(5)), ..working(id) }
}

async fn engine(steps: impl IntoIterator<Item = DraftStep>) -> (Calls, Engine) {
    let calls = Calls::good();
    let engine = calls.bench().open().await;
    put(&engine, written("job", steps)).await;
    (calls, engine)
}

#[tokio::test(start_paused = true)]
async fn work_that_nobody_has_taken_is_withdrawn_and_leaves_nothing_to_undo() {
    for timeout in [secs(20), secs(7200)] {
        let (calls, engine) =
            engine([calling("plan"), DraftStep { timeout, ..patient("build") }, calling("ship")]).await;
        let run = start(&engine, "job").await;
        wait_for_start_of(&run, "build").await;
        let begun = Instant::now();
        engine.cancel(run.id(), "changed my mind").await.unwrap();
        let ended = run.outcome().await.unwrap();
        assert!(begun.elapsed() < secs(5), "long before its time is over");
        assert_eq!(ended.status, Status::Compensated);
        let build = ended.step("build").unwrap();
        assert_eq!((build.status, build.attempts), (StepStatus::Failed, 1));
        let error = build.error.as_ref().unwrap();
        let told = (error.kind, &*error.message);
        assert_eq!(told, (ErrorKind::Refused, "withdrawn before a worker took it"));
        assert_eq!(calls.trace.said(), ["do plan", "undo plan"]);
        assert!(lease(&engine).await.is_empty(), "and nobody gets it");
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_sibling_withdraws_it_too() {
    let calls = Calls::answering(|call, _| match call {
        "do test" => Err(StepError::refused("red")),
        call => Ok(call.into()),
    });
    let engine = calls.bench().open().await;
    let roots = [patient("build"), patient("paint"), calling("test")];
    let roots = roots.map(|step| DraftStep { depends_on: Some(Vec::new()), ..step });
    put(&engine, written("job", roots)).await;
    let begun = Instant::now();
    let ended = execute(&engine, "job").await;
    assert_eq!((ended.status, ended.failed_step.clone()), (Status::Compensated, Some("test".into())));
    for step in ["build", "paint"] {
        assert_eq!(ended.step(step).unwrap().status, StepStatus::Failed, "{ended:?}");
    }
    assert!(begun.elapsed() < secs(5));
}

#[tokio::test(start_paused = true)]
async fn work_that_a_worker_has_is_awaited_and_then_undone() {
    let (calls, engine) = engine([patient("build"), calling("ship")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.compensating").await;
    eventually("it is let go until then", async || engine.active() == 0).await;
    for _ in 0..5 {
        tokio::time::sleep(secs(20)).await;
        let extended = engine.extend_lease(work.job, work.token, secs(30)).await.unwrap();
        assert!(extended.cancelled, "the worker may stop early");
    }
    assert_eq!(calls.trace.said(), [""; 0]);
    let answered = engine.complete_work(work.job, work.token, Payload::null()).await.unwrap();
    assert_eq!(answered, Answered::Now);
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(calls.trace.said(), ["undo build"]);
}

#[tokio::test(start_paused = true)]
async fn work_whose_worker_has_fallen_silent_is_withdrawn_in_doubt() {
    let (calls, engine) = engine([patient("build")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    tokio::time::sleep(secs(31)).await;
    let begun = Instant::now();
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert!(begun.elapsed() < secs(5));
    assert_eq!(ended.step("build").unwrap().error.as_ref().unwrap().kind, ErrorKind::InDoubt);
    assert_eq!(calls.trace.said(), ["undo build"], "it may have been done");
    let late = engine.complete_work(work.job, work.token, Payload::null()).await;
    assert!(matches!(late, Err(Error::GivenUp { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn no_second_worker_gets_what_the_first_let_go_of_during_a_rollback() {
    let (calls, engine) = engine([patient("build")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.compensating").await;
    tokio::time::sleep(secs(31)).await;
    assert!(lease(&engine).await.is_empty());
    let ended = run.outcome().await.unwrap();
    assert_eq!((ended.status, ended.step("build").unwrap().attempts), (Status::Compensated, 1));
    assert_eq!(ended.step("build").unwrap().error.as_ref().unwrap().kind, ErrorKind::InDoubt);
    assert_eq!(calls.trace.said(), ["undo build"]);
    let late = engine.complete_work(work.job, work.token, Payload::null()).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_on_its_way_when_the_rollback_begins_counts() {
    let (calls, engine) = engine([patient("build"), calling("ship")]).await;
    let run = start(&engine, "job").await;
    let work = take(&engine).await;
    let (cancelled, answered) = tokio::join!(
        engine.cancel(run.id(), "changed my mind"),
        engine.complete_work(work.job, work.token, Payload::null())
    );
    cancelled.unwrap();
    answered.unwrap();
    let ended = run.outcome().await.unwrap();
    assert_eq!(
        (ended.status, ended.step("build").unwrap().status),
        (Status::Compensated, StepStatus::Compensated)
    );
    assert_eq!(calls.trace.count("undo build"), 1);
}

#[tokio::test(start_paused = true)]
async fn compensations_are_not_withdrawn() {
    let outside = backstitch::kernel::saga::draft::DraftCompensation {
        action: builders(),
        timeout: secs(7200),
        queue_timeout: None,
        retry: Retry::none(),
    };
    let plan = DraftStep { compensate: Some(outside), ..calling("plan") };
    let (_, engine) = engine([plan, patient("build")]).await;
    let run = start(&engine, "job").await;
    wait_for_start_of(&run, "build").await;
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    wait_for(&run, |event| event.name() == "step.compensating").await;
    let undo = take(&engine).await;
    assert_eq!(step_of(&undo).0, "plan");
    engine.complete_work(undo.job, undo.token, Payload::null()).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

/// Tells that a job is about to be withdrawn, and then keeps whoever does it.
#[derive(Default)]
struct Stuck {
    reached: Notify,
}

#[async_trait]
impl Watch for Stuck {
    async fn at(&self, moment: Moment<'_>) -> Result<(), StoreError> {
        if matches!(moment, Moment::BeforeWithdrawal) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_the_withdrawal_leaves_it_to_the_next_process() {
    let calls = Calls::good();
    let bench = calls.bench();
    let store = Arc::new(Watched::new(bench.store.clone(), Stuck::default()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    put(&engine, written("job", [calling("plan"), patient("build")])).await;
    let run = start(&engine, "job").await;
    wait_for_start_of(&run, "build").await;
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    store.reached.notified().await;
    assert_eq!(engine.load(run.id()).await.unwrap().unwrap().status, Status::Compensating);
    drop(engine);
    let engine = bench.open().await;
    let begun = Instant::now();
    let ended = engine.find(run.id()).await.unwrap().outcome().await.unwrap();
    assert!(begun.elapsed() < secs(5));
    let build = ended.step("build").unwrap();
    assert_eq!((ended.status, build.status, build.attempts), (Status::Compensated, StepStatus::Failed, 1));
    assert_eq!(calls.trace.said(), ["do plan", "undo plan"]);
}

/// Fails the first withdrawals: before they are made, or before their answer is there.
struct Flaky {
    answers_only: bool,
    withdrawals: AtomicU32,
}

#[async_trait]
impl Watch for Flaky {
    async fn at(&self, moment: Moment<'_>) -> Result<(), StoreError> {
        let now = match moment {
            Moment::BeforeWithdrawal => !self.answers_only,
            Moment::AfterWithdrawal => self.answers_only,
            _ => false,
        };
        if now && self.withdrawals.fetch_add(1, Ordering::Relaxed) < 2 {
            return Err(StoreError::Unavailable("the line is dead".to_owned()));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_asked_until_it_does() {
    for (answers_only, timeout) in
        [(false, secs(20)), (false, secs(7200)), (true, secs(20)), (true, secs(7200))]
    {
        let bench = Calls::good().bench();
        let store =
            Arc::new(Watched::new(bench.store.clone(), Flaky { answers_only, withdrawals: 0.into() }));
        let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
        put(&engine, written("job", [DraftStep { timeout, ..patient("build") }])).await;
        let run = start(&engine, "job").await;
        wait_for_start_of(&run, "build").await;
        engine.cancel(run.id(), "changed my mind").await.unwrap();
        let begun = Instant::now();
        let ended = run.outcome().await.unwrap();
        assert_eq!(ended.status, Status::Compensated);
        assert_eq!(ended.step("build").unwrap().status, StepStatus::Failed);
        assert!(begun.elapsed() < secs(5));
        assert_eq!(store.withdrawals.load(Ordering::Relaxed), 3);
    }
}
