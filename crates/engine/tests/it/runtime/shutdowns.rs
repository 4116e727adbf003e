//! Stopping loses nothing.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use async_trait::async_trait;
use backstitch::outbox::Routes;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Context, Engine, Error, Saga, Status, Step, StepResult, Undo, secs};
use tokio::time::{Instant, timeout};

use crate::runtime::support::*;

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
async fn a_saga_with_a_deadline_goes_on_after_a_shutdown_and_not_at_its_deadline() {
    let trace = Trace::default();
    let bench = Bench::new();
    let engine = bench.open_with(sleeping(&trace)).await;
    let run = engine.start("s", &serde_json::json!({})).deadline_in(secs(3600)).await.unwrap();
    wait_for_start_of(&run, "sleeps").await;
    engine.shutdown().await.unwrap();
    let engine = bench.open_with(sleeping(&trace)).await;
    let begun = Instant::now();
    assert!(engine.find(run.id()).await.unwrap().outcome().await.unwrap().succeeded());
    assert!(begun.elapsed() < secs(60), "it was taken up at once");
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
    let busy = acting("b", &trace, |_| Err(backstitch::StepError::not_done("busy")));
    let busy = busy.retry(backstitch::Retry::fixed(2, secs(50)));
    let engine = engine_with(Saga::builder("s").step(busy).build().unwrap()).await;
    start(&engine, "s").await;
    tokio::time::sleep(secs(1)).await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 0);
}

/// A sink that never has what it is given.
struct Silent;

#[async_trait]
impl Sink for Silent {
    async fn send(&self, _: &Message) -> Result<Receipt, Undelivered> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_never_returns_holds_up_a_shutdown_beyond_its_grace() {
    let trace = Trace::default();
    let bench = Bench::with(|options| {
        options.grace = secs(5);
        options.routes = Routes::all_to(Arc::new(Silent));
        options.send_timeout = secs(3600);
    });
    let step = Saga::builder("step").step(hanging("a", &trace).timeout(secs(3600)));
    let engine = bench.open_with(step.build().unwrap()).await;
    let undone = trace.clone();
    let undo = noting("b", &trace).compensation_timeout(secs(3600)).compensate(move |_, _: Undo<String>| {
        undone.say("undo b");
        pending::<StepResult<()>>()
    });
    let undo = Saga::builder("undo").step(undo).step(refusing("no", &trace));
    engine.register(undo.build().unwrap()).unwrap();
    let told = trace.clone();
    let hook = Saga::builder("hook")
        .step(Step::new(
            "c",
            |ctx: Context<serde_json::Value>| async move { Ok(ctx.publish("t", "k", &())?) },
        ))
        .on_success(move |_| {
            told.say("hook");
            pending()
        });
    engine.register(hook.build().unwrap()).unwrap();
    for saga in ["step", "undo", "hook"] {
        start(&engine, saga).await;
    }
    eventually("all are under way", async || {
        ["do a", "undo b", "hook"].iter().all(|what| trace.count(what) == 1)
    })
    .await;
    let begun = Instant::now();
    timeout(secs(600), engine.shutdown()).await.unwrap().unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_blocks_its_thread_holds_up_a_shutdown_for_a_moment_only() {
    let (end, ended) = mpsc::channel::<()>();
    let (trace, ended) = (Trace::default(), Arc::new(Mutex::new(ended)));
    let said = trace.clone();
    let blocks = Step::new("a", move |_: Context<serde_json::Value>| {
        let (said, ended) = (said.clone(), ended.clone());
        async move {
            said.say("do a");
            let _ = ended.lock().unwrap().recv();
            Ok(())
        }
    });
    let bench = Bench::with(|options| options.grace = secs(0));
    let engine = bench.open_with(Saga::builder("s").step(blocks).build().unwrap()).await;
    start(&engine, "s").await;
    eventually("it blocks", async || trace.count("do a") == 1).await;
    let stopped = timeout(secs(60), engine.shutdown()).await;
    end.send(()).unwrap();
    stopped.unwrap().unwrap();
}

/// From the moment it is hushed a store never answers again.
#[derive(Clone, Default)]
struct Hush(Arc<AtomicBool>);

#[async_trait]
impl Watch for Hush {
    async fn at(&self, _: Moment<'_>) -> Result<(), store::Error> {
        if self.0.load(Ordering::SeqCst) { pending().await } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_holds_up_no_shutdown_and_loses_nothing_acknowledged() {
    let (trace, hush) = (Trace::default(), Hush::default());
    let bench = Bench::with(|options| options.grace = secs(5));
    let store = Arc::new(Watched::new(bench.store.clone(), hush.clone()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    let told = |trace: &Trace| with_slow_hook_named("told", trace);
    engine.register(sleeping(&trace)).unwrap();
    engine.register(told(&trace)).unwrap();
    execute(&engine, "told").await;
    eventually("the hook is called", async || trace.count("hook begins") == 1).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "sleeps").await;
    let acknowledged = run.id();
    drop(run);
    hush.0.store(true, Ordering::SeqCst);
    let unanswered = tokio::spawn({
        let engine = engine.clone();
        async move { engine.start("s", &()).await.map(|_| ()) }
    });
    // Time for the step and the hook to end, and for every loop to ask.
    tokio::time::sleep(secs(30)).await;

    let stopped = timeout(secs(600), engine.shutdown()).await.expect("the shutdown ends");
    assert!(matches!(stopped, Err(Error::Store(_))), "{stopped:?}");
    assert!(unanswered.await.unwrap().is_err());
    eventually("everybody lets go of the store", async || Arc::strong_count(&store) == 1).await;

    let engine = bench.open_with(sleeping(&trace)).await;
    engine.register(told(&trace)).unwrap();
    assert!(engine.find(acknowledged).await.unwrap().outcome().await.unwrap().succeeded());
    eventually("the hook is called again", async || trace.count("hook ends") == 2).await;
}

fn with_slow_hook(trace: &Trace) -> Saga {
    with_slow_hook_named("s", trace)
}

fn with_slow_hook_named(name: &str, trace: &Trace) -> Saga {
    let told = trace.clone();
    let saga = Saga::builder(name).step(noting("a", trace)).on_success(move |_| {
        let told = told.clone();
        async move {
            told.say("hook begins");
            tokio::time::sleep(secs(20)).await;
            told.say("hook ends");
            Ok(())
        }
    });
    saga.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_hook_in_flight_finishes() {
    let trace = Trace::default();
    let bench = Bench::new();
    let engine = bench.open_with(with_slow_hook(&trace)).await;
    execute(&engine, "s").await;
    eventually("the hook is called", async || trace.count("hook begins") == 1).await;
    engine.shutdown().await.unwrap();
    assert_eq!(trace.count("hook ends"), 1);
    let _engine = bench.open_with(with_slow_hook(&trace)).await;
    tokio::time::sleep(secs(600)).await;
    assert_eq!(trace.count("hook begins"), 1, "it is not called again");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_does_not_finish_in_time_is_called_by_the_next_process_at_once() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.grace = secs(5));
    let engine = bench.open_with(with_slow_hook(&trace)).await;
    execute(&engine, "s").await;
    eventually("the hook is called", async || trace.count("hook begins") == 1).await;
    let begun = Instant::now();
    engine.shutdown().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
    let _engine = bench.open_with(with_slow_hook(&trace)).await;
    tokio::time::sleep(secs(3)).await;
    assert_eq!(trace.count("hook begins"), 2);
    tokio::time::sleep(secs(600)).await;
    assert_eq!((trace.count("hook begins"), trace.count("hook ends")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hook_survives_any_number_of_shutdowns() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.grace = secs(5));
    let mut engine = bench.open_with(with_slow_hook(&trace)).await;
    execute(&engine, "s").await;
    for life in 1..=8 {
        eventually("the hook is called", async || trace.count("hook begins") == life).await;
        engine.shutdown().await.unwrap();
        engine = bench.open_with(with_slow_hook(&trace)).await;
    }
    eventually("the hook runs to its end", async || trace.count("hook ends") == 1).await;
}
