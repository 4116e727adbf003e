//! Long waits: a saga with nothing to do for long takes no room in the process.

use backstitch::{Retry, Saga, Status, StepError, secs};
use tokio::time::Instant;

use crate::support::*;

fn waiting_for_an_hour(trace: &Trace) -> Saga {
    let answer = |attempt| if attempt == 1 { Err(StepError::failed("closed")) } else { Ok(()) };
    let step = acting("b", trace, answer).retry(Retry::fixed(1, secs(3600)));
    Saga::builder("s").step(noting("a", trace)).step(step).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_long_is_let_go_and_woken_in_time() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let begun = Instant::now();
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(engine.active(), 0);
    let state = engine.load(run.id()).await.unwrap().unwrap();
    assert_eq!(state.status, Status::Running);
    assert!(run.outcome().await.unwrap().succeeded());
    let took = begun.elapsed().as_secs();
    assert!((3600..3602).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn waiting_sagas_take_no_room_from_others() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench.open_with(waiting_for_an_hour(&trace)).await;
    let begun = Instant::now();
    let runs: Vec<_> = futures::future::join_all((0..10).map(|_| start(&engine, "s"))).await;
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert!(begun.elapsed().as_secs() < 3610);
}

#[tokio::test(start_paused = true)]
async fn a_request_wakes_a_saga_that_was_let_go() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    let begun = Instant::now();
    engine.cancel(run.id(), "no").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
    assert!(begun.elapsed().as_secs() < 2);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_was_woken_for_nothing_is_let_go_again() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench.open_with(waiting_for_an_hour(&trace)).await;
    engine.register(Saga::builder("other").step(noting("c", &trace)).build().unwrap()).unwrap();
    let begun = Instant::now();
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    for _ in 0..3 {
        engine.resume(run.id(), "it is not paused").await.unwrap();
        tokio::time::sleep(secs(5)).await;
        assert_eq!(engine.active(), 0, "it is let go again");
    }
    assert!(execute(&engine, "other").await.succeeded());
    assert!(begun.elapsed().as_secs() < 100);
    assert!(run.clone().outcome().await.unwrap().succeeded());
    let took = begun.elapsed().as_secs();
    assert!((3600..3602).contains(&took), "{took}");
    let taken_up = names(&log(&run).await).iter().filter(|name| **name == "saga.adopted").count();
    assert_eq!(taken_up, 4, "three times for nothing, and once for its next try");
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_is_let_go_and_resumed() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    wait_for(&run, |event| event.name() == "step.retry").await;
    engine.pause(run.id(), "wait").await.unwrap();
    tokio::time::sleep(secs(7200)).await;
    assert_eq!(engine.active(), 0);
    assert_eq!(trace.count("do b"), 1);
    let begun = Instant::now();
    engine.resume(run.id(), "go").await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert!(begun.elapsed().as_secs() < 2);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_is_not_called_stuck() {
    let trace = Trace::default();
    let engine = engine_with(waiting_for_an_hour(&trace)).await;
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(1800)).await;
    assert!(engine.health(backstitch::STUCK_AFTER).await.unwrap().stuck.is_empty());
    assert!(run.outcome().await.unwrap().succeeded());
}
