//! Sagas that have to be finished by some time.

use backstitch::{Context, ErrorKind, Saga, Status, Step, StepStatus, secs};
use tokio::time::Instant;

use crate::runtime::support::*;

fn pausable(trace: &Trace) -> Saga {
    let sleeps = Step::new("sleeps", |_: Context<serde_json::Value>| async {
        tokio::time::sleep(secs(30)).await;
        Ok(())
    });
    Saga::builder("s").step(noting("a", trace)).step(sleeps).step(noting("c", trace)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_is_late_is_rolled_back() {
    let trace = Trace::default();
    let engine = engine_with(pausable(&trace)).await;
    let begun = Instant::now();
    let run = engine.start("s", &()).deadline_in(secs(10)).await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert_eq!((ended.status, ended.failed_step), (Status::Compensated, None));
    assert_eq!(ended.error.unwrap().kind, ErrorKind::DeadlineExceeded);
    assert_eq!(begun.elapsed().as_secs(), 30, "what is in flight is awaited");
    assert_eq!(trace.said(), ["do a", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_is_in_time_never_hears_of_its_deadline() {
    let trace = Trace::default();
    let engine = engine_with(pausable(&trace)).await;
    let run = engine.start("s", &()).deadline_in(secs(31)).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    tokio::time::sleep(secs(60)).await;
    assert_eq!(trace.said(), ["do a", "do c"]);
}

#[tokio::test(start_paused = true)]
async fn deadlines_run_on_while_a_saga_is_paused() {
    let trace = Trace::default();
    let engine = engine_with(pausable(&trace)).await;
    let run = engine.start("s", &()).deadline_in(secs(600)).await.unwrap();
    engine.pause(run.id(), "wait").await.unwrap();
    tokio::time::sleep(secs(700)).await;
    assert_eq!(engine.load(run.id()).await.unwrap().unwrap().status, Status::Compensating);
    engine.resume(run.id(), "go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_is_late_before_it_begins_does_nothing() {
    let trace = Trace::default();
    let engine = engine_with(pausable(&trace)).await;
    let run = engine.start("s", &()).deadline_in(secs(0)).await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert!(ended.steps.iter().all(|step| step.status == StepStatus::Pending));
    assert!(trace.said().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_far_away_is_kept_by_the_next_process() {
    let trace = Trace::default();
    let bench = Bench::new();
    let saga = || {
        Saga::builder("s")
            .step(noting("a", &trace))
            .step(hanging("b", &trace).timeout(secs(7200)))
            .build()
            .unwrap()
    };
    let engine = bench.open_with(saga()).await;
    let run = engine.start("s", &()).deadline_in(secs(3600)).await.unwrap();
    let begun = Instant::now();
    wait_for_start_of(&run, "b").await;
    drop(engine);
    tokio::time::sleep(secs(1800)).await;
    let engine = bench.open_with(saga()).await;
    let run = engine.find(run.id()).await.unwrap();
    wait_for(&run, |event| event.name() == "saga.compensating").await;
    assert_eq!(begun.elapsed().as_secs(), 3600);
}
