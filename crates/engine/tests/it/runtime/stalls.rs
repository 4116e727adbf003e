//! A store that stalls delays decisions, not attempts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use async_trait::async_trait;
use backstitch::store;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Context, Engine, ErrorKind, Retry, Saga, Step, StepFailure, secs};
use tokio::sync::{Notify, oneshot};

use crate::runtime::support::*;

/// Holds up every commit after the first.
#[derive(Default)]
struct StalledCommits {
    held: AtomicU64,
    released: Notify,
}

#[async_trait]
impl Watch for StalledCommits {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        if matches!(moment, Moment::BeforeCommit(2)) {
            self.held.fetch_add(1, Ordering::SeqCst);
            self.released.notified().await;
        }
        Ok(())
    }
}

/// A step whose service sends its response in four pieces, a second apart.
fn in_pieces(trace: &Trace) -> Step<serde_json::Value, ()> {
    let trace = trace.clone();
    Step::new("pieces", move |_: Context<serde_json::Value>| {
        let trace = trace.clone();
        async move {
            for _ in 0..4 {
                tokio::time::sleep(secs(1)).await;
                trace.say("piece");
            }
            Ok(())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn attempts_run_on_while_their_saga_commits() {
    let trace = Trace::default();
    let bench = Bench::new();
    let store = Arc::new(Watched::new(bench.store.clone(), StalledCommits::default()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    let pieces = in_pieces(&trace).timeout(secs(5)).retry(Retry::none()).depends_on::<&str>([]);
    let saga = Saga::builder("s").step(noting("quick", &trace)).step(pieces).build().unwrap();
    engine.register(saga).unwrap();
    let run = start(&engine, "s").await;
    eventually("the commit of the quick step is held up", async || store.held.load(Ordering::SeqCst) == 1)
        .await;
    // Well beyond the timeout of the other step.
    tokio::time::sleep(secs(60)).await;
    assert_eq!(trace.count("piece"), 4, "the attempt went on");
    store.released.notify_one();
    assert!(run.outcome().await.unwrap().succeeded(), "the answer was there in time");
}

#[tokio::test(start_paused = true)]
async fn attempt_that_takes_too_long_during_a_commit_times_out() {
    let trace = Trace::default();
    let bench = Bench::new();
    let store = Arc::new(Watched::new(bench.store.clone(), StalledCommits::default()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    let timeout = std::time::Duration::from_millis(2500);
    let pieces = in_pieces(&trace).timeout(timeout).retry(Retry::none()).depends_on::<&str>([]);
    let saga = Saga::builder("s").step(noting("quick", &trace)).step(pieces).build().unwrap();
    engine.register(saga).unwrap();
    let run = start(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    store.released.notify_one();
    assert_eq!(run.outcome().await.unwrap().error.unwrap().kind, ErrorKind::TimedOut);
    assert_eq!(trace.count("piece"), 2);
}

/// An answer that reaches its reader through many tasks: the runtime looks at its timers before it arrives.
fn through_many_tasks(mut answer: oneshot::Receiver<()>) -> oneshot::Receiver<()> {
    for _ in 0..1000 {
        let (give, take) = oneshot::channel();
        tokio::spawn(async move {
            if answer.await.is_ok() {
                let _ = give.send(());
            }
        });
        answer = take;
    }
    answer
}

#[tokio::test]
async fn answer_that_arrives_while_the_process_is_suspended_counts() {
    let timeout = std::time::Duration::from_millis(200);
    let (answer, arrives) = oneshot::channel();
    let arrives = Arc::new(std::sync::Mutex::new(Some(arrives)));
    let started = Arc::new(Notify::new());
    let told = started.clone();
    let step = Step::new("a", move |_: Context<serde_json::Value>| {
        let arrives = arrives.lock().unwrap().take();
        told.notify_one();
        async move { through_many_tasks(arrives.unwrap()).await.map_err(StepFailure::from) }
    });
    let saga = Saga::builder("s").step(step.timeout(timeout).retry(Retry::none())).build().unwrap();
    let engine = Bench::new().open_with(saga).await;
    let run = start(&engine, "s").await;
    started.notified().await;
    tokio::task::yield_now().await;
    // Another thread brings the answer, and this one, which runs everything else, stands still until the time is over.
    let (go_on, wait) = mpsc::channel();
    let begun = Instant::now();
    let elsewhere = std::thread::spawn(move || {
        answer.send(()).unwrap();
        while begun.elapsed() < timeout * 2 {
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
    });
    wait.recv().unwrap();
    elsewhere.join().unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}
