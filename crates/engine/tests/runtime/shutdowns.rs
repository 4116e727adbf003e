//! Stopping loses nothing.

use backstitch::{Context, Error, Saga, Status, Step, secs};
use tokio::time::Instant;

use crate::support::*;

fn sleeping(trace: &Trace) -> Saga {
    let noted = trace.clone();
    let sleeps = Step::new("sleeps", move |_: Context<serde_json::Value>| {
        let noted = noted.clone();
        async move {
            noted.say("do sleeps");
            tokio::time::sleep(secs(20)).await;
            Ok(())
        }
    });
    Saga::builder("s").step(noting("a", trace)).step(sleeps).step(noting("c", trace)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_finishes_and_nothing_new_starts() {
    let trace = Trace::default();
    let bench = Bench::new();
    let engine = bench.open_with(sleeping(&trace)).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "sleeps").await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert_eq!(trace.said(), ["do a", "do sleeps"]);
    assert!(matches!(run.clone().outcome().await, Err(Error::ShuttingDown)));
    let engine = bench.open_with(sleeping(&trace)).await;
    let ended = engine.find(run.id()).await.unwrap().outcome().await.unwrap();
    assert!(ended.succeeded());
    assert_eq!(trace.said(), ["do a", "do sleeps", "do c"], "the finished step is not done again");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_finish_in_time_is_done_again_by_the_next_process() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.grace = secs(5));
    let engine = bench.open_with(sleeping(&trace)).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "sleeps").await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
    let engine = bench.open_with(sleeping(&trace)).await;
    assert!(engine.find(run.id()).await.unwrap().outcome().await.unwrap().succeeded());
    assert_eq!(trace.said(), ["do a", "do sleeps", "do sleeps", "do c"]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_starts_nothing() {
    let trace = Trace::default();
    let engine = engine_with(sleeping(&trace)).await;
    let run = start(&engine, "s").await;
    let stopping = tokio::spawn(engine.clone().shutdown());
    tokio::time::sleep(secs(1)).await;
    assert!(matches!(engine.start("s", &()).await, Err(Error::ShuttingDown)));
    stopping.await.unwrap().unwrap();
    assert_ne!(engine.load(run.id()).await.unwrap().unwrap().status, Status::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_not_waited_out_by_a_shutdown() {
    let trace = Trace::default();
    let busy = acting("b", &trace, |_| Err(backstitch::StepError::failed("busy")));
    let busy = busy.retry(backstitch::Retry::fixed(2, secs(50)));
    let engine = engine_with(Saga::builder("s").step(busy).build().unwrap()).await;
    start(&engine, "s").await;
    tokio::time::sleep(secs(1)).await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 0);
}
