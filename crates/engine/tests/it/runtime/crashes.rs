//! A process dies, and the next one opens the same store.

use backstitch::store::Unregistered;
use backstitch::{Engine, Error, Saga, SagaId, Status, secs};

use futures::StreamExt;

use crate::runtime::support::*;

async fn outcome(engine: &Engine, id: SagaId) -> backstitch::SagaState {
    engine.find(id).await.unwrap().outcome().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_next_process_takes_up_what_the_last_one_left() {
    let trace = Trace::default();
    let saga = |hangs: bool| {
        let b = if hangs { hanging("b", &trace) } else { noting("b", &trace) };
        Saga::builder("s").step(noting("a", &trace)).step(b).build().unwrap()
    };
    let bench = Bench::new();
    let engine = bench.open_with(saga(true)).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "b").await;
    let created_at = engine.load(run.id()).await.unwrap().unwrap().created_at;
    drop(engine);
    let engine = bench.open_with(saga(false)).await;
    let mut live = Box::pin(engine.events());
    let ended = outcome(&engine, run.id()).await;
    assert!(ended.succeeded());
    assert_eq!(ended.created_at, created_at);
    assert_eq!(live.next().await.unwrap().recorded.event.name(), "saga.adopted");
    assert_eq!(ended.step("b").unwrap().attempts, 2);
    assert_eq!(trace.said(), ["do a", "do b", "do b"], "the step that was in flight is done again");
    let log = log(&engine.find(run.id()).await.unwrap()).await;
    assert_eq!(names(&log).iter().filter(|name| **name == "saga.adopted").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_taken_up_where_it_was() {
    let trace = Trace::default();
    let saga = |hangs: bool| {
        let undone = trace.clone();
        let b = noting("b", &trace).compensate(move |_, _| {
            undone.say("undo b");
            async move { if hangs { std::future::pending().await } else { Ok(()) } }
        });
        let saga = Saga::builder("s").step(noting("a", &trace)).step(b).step(noting("c", &trace));
        saga.step(refusing("no", &trace)).build().unwrap()
    };
    let bench = Bench::new();
    let engine = bench.open_with(saga(true)).await;
    let id = start(&engine, "s").await.id();
    eventually("b is being undone", async || trace.count("undo b") == 1).await;
    drop(engine);
    let engine = bench.open_with(saga(false)).await;
    assert_eq!(outcome(&engine, id).await.status, Status::Compensated);
    assert_eq!(trace.said()[4..], ["undo c c done", "undo b", "undo b", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_still_runs_after_its_successor_came_changes_nothing() {
    let trace = Trace::default();
    let bench = Bench::new();
    let slow = |trace: &Trace| {
        let noted = trace.clone();
        let step = backstitch::Step::new("b", move |_: backstitch::Context<serde_json::Value>| {
            let noted = noted.clone();
            async move {
                noted.say("do b");
                tokio::time::sleep(secs(10)).await;
                Ok(())
            }
        });
        Saga::builder("s").step(step).build().unwrap()
    };
    let old = bench.open_with(slow(&trace)).await;
    let run = start(&old, "s").await;
    wait_for_start_of(&run, "b").await;
    let new = bench.open_with(slow(&trace)).await;
    assert!(outcome(&new, run.id()).await.succeeded());
    let log = log(&new.find(run.id()).await.unwrap()).await;
    assert_eq!(names(&log).iter().filter(|name| **name == "step.succeeded").count(), 1);
    assert_eq!(trace.count("do b"), 2);
    drop(old);
}

#[tokio::test(start_paused = true)]
async fn sagas_of_a_definition_that_is_not_registered_wait_where_everybody_sees_them() {
    let trace = Trace::default();
    let saga = || Saga::builder("s").version(3).step(hanging("a", &trace)).build().unwrap();
    let bench = Bench::new();
    let engine = bench.open_with(saga()).await;
    let id = start(&engine, "s").await.id();
    drop(engine);
    let engine = bench.open().await;
    let waiting = Unregistered { definition: "s".to_owned(), version: 3, sagas: 1 };
    assert_eq!(engine.health(secs(600)).await.unwrap().unregistered, [waiting]);
    let state = engine.load(id).await.unwrap().unwrap();
    assert_eq!(state.status, Status::Running, "it can be read without its code");
    engine.register(Saga::builder("s").version(3).step(noting("a", &trace)).build().unwrap()).unwrap();
    assert!(outcome(&engine, id).await.succeeded());
    assert!(engine.health(secs(600)).await.unwrap().unregistered.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sagas_that_were_handed_back_wait_for_their_definition_too() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.grace = secs(1));
    let engine = bench.open_with(Saga::builder("s").step(hanging("a", &trace)).build().unwrap()).await;
    start(&engine, "s").await;
    engine.shutdown().await.unwrap();
    let engine = bench.open().await;
    assert_eq!(engine.health(secs(600)).await.unwrap().unregistered.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_saga_keeps_its_version_to_the_end() {
    let trace = Trace::default();
    let old = || Saga::builder("s").step(noting("a", &trace)).step(hanging("b", &trace)).build().unwrap();
    let new = || Saga::builder("s").version(2).step(noting("new", &trace)).build().unwrap();
    let bench = Bench::new();
    let engine = bench.open_with(old()).await;
    let first = start(&engine, "s").await;
    engine.register(new()).unwrap();
    let second = start(&engine, "s").await;
    assert_eq!(second.clone().outcome().await.unwrap().version, 2, "a start takes the newest");
    engine.cancel(first.id(), "enough").await.unwrap();
    drop(engine);
    let engine = bench.open_with(new()).await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(engine.load(first.id()).await.unwrap().unwrap().version, 1);
    assert_eq!(trace.count("undo a a done"), 0, "version 2 does not touch it");
    engine.register(old()).unwrap();
    assert_eq!(outcome(&engine, first.id()).await.status, Status::Compensated);
    assert_eq!(trace.count("undo a a done"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_means_the_same_steps_for_ever() {
    let trace = Trace::default();
    let bench = Bench::new();
    let engine = bench.open_with(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).await;
    let again = engine.register(Saga::builder("s").step(noting("a", &trace)).build().unwrap());
    assert!(matches!(again, Err(Error::AlreadyRegistered { version: 1, .. })));
    execute(&engine, "s").await;
    drop(engine);
    let engine = bench.open_with(Saga::builder("s").step(noting("z", &trace)).build().unwrap()).await;
    let refused = engine.start("s", &()).await;
    assert!(matches!(refused, Err(Error::VersionTaken { version: 1, .. })));
    let engine =
        bench.open_with(Saga::builder("s").step(noting("a", &trace).timeout(secs(1))).build().unwrap()).await;
    assert!(execute(&engine, "s").await.succeeded(), "times and retries may change");
}
