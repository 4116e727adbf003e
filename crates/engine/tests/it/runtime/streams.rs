//! Events as they happen, and as they happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Context, Engine, Retry, Saga, Step, StepError, secs};
use futures::StreamExt;

use crate::runtime::support::*;

fn retried(trace: &Trace) -> Saga {
    let busy =
        acting("b", trace, |attempt| if attempt < 3 { Err(StepError::not_done("busy")) } else { Ok(()) });
    let saga = Saga::builder("s").step(noting("a", trace)).step(busy.retry(Retry::fixed(2, secs(1))));
    saga.step(refusing("no", trace)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_holds_every_event_in_order_and_ends_with_the_saga() {
    let trace = Trace::default();
    let engine = engine_with(retried(&trace)).await;
    let log = log(&start(&engine, "s").await).await;
    assert!(log.iter().zip(1..).all(|(recorded, seq)| recorded.seq == seq));
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let expected = [
        "saga.started",
        "step.started",
        "step.succeeded",
        "step.started",
        "step.retry",
        "step.started",
        "step.retry",
        "step.started",
        "step.succeeded",
        "step.started",
        "step.failed",
        "saga.compensating",
        "step.compensating",
        "step.compensated",
        "step.compensating",
        "step.compensated",
        "saga.compensated",
    ];
    assert_eq!(names(&log), expected);
}

#[tokio::test(start_paused = true)]
async fn adoption_of_a_saga_that_is_released_again_is_told_once() {
    let trace = Trace::default();
    let saga = || Saga::builder("s").step(hanging("a", &trace).timeout(secs(72_000))).build().unwrap();
    let bench = Bench::new();
    let engine = bench.open_with(saga()).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "a").await;
    engine.pause(run.id(), "wait").await.unwrap();
    wait_for(&run, |event| event.name() == "saga.paused").await;
    let id = run.id();
    drop((run, engine));

    let engine = bench.open().await;
    let (told, mut events) = (Trace::default(), Box::pin(engine.events()));
    tokio::spawn({
        let told = told.clone();
        async move {
            while let Some(event) = events.next().await {
                told.say(event.recorded.event.name());
            }
        }
    });
    engine.register(saga()).unwrap();
    eventually("it is adopted", async || told.count("saga.adopted") == 1).await;
    // A message that changes nothing: the saga is released, and taken up for the next message without an event.
    engine.pause(id, "again").await.unwrap();
    eventually("it is released", async || engine.active() == 0).await;
    engine.resume(id, "go on").await.unwrap();
    eventually("it goes on", async || told.count("saga.resumed") == 1).await;
    assert_eq!(told.said(), ["saga.adopted", "saga.resumed", "step.started"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_gets_exactly_what_it_missed() {
    let trace = Trace::default();
    let engine = engine_with(retried(&trace)).await;
    let run = start(&engine, "s").await;
    let whole = log(&run).await;
    for seq in 0..=whole.len() {
        let rest: Vec<_> = run.events_after(seq as u64).map(Result::unwrap).collect().await;
        assert_eq!(rest, whole[seq..], "after {seq}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_in_the_middle_misses_nothing_that_follows() {
    let trace = Trace::default();
    let engine = engine_with(retried(&trace)).await;
    let run = start(&engine, "s").await;
    let mut first = Box::pin(run.events());
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(first.next().await.unwrap().unwrap());
    }
    drop(first);
    let rest: Vec<_> = run.events_after(5).map(Result::unwrap).collect().await;
    seen.extend(rest);
    assert_eq!(seen, log(&run).await);
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_across_a_long_wait() {
    let trace = Trace::default();
    let busy =
        acting("b", &trace, |attempt| if attempt == 1 { Err(StepError::not_done("busy")) } else { Ok(()) });
    let engine =
        engine_with(Saga::builder("s").step(busy.retry(Retry::fixed(1, secs(3600)))).build().unwrap()).await;
    let log = log(&start(&engine, "s").await).await;
    assert_eq!(*names(&log).last().unwrap(), "saga.succeeded");
    assert!(!names(&log).contains(&"saga.adopted"), "the node released it and took it up again");
}

#[tokio::test(start_paused = true)]
async fn many_readers_see_the_same() {
    let trace = Trace::default();
    let engine = engine_with(retried(&trace)).await;
    let run = start(&engine, "s").await;
    let logs = futures::future::join_all((0..20).map(|_| log(&run))).await;
    assert!(logs.iter().all(|log| log == &logs[0] && log.len() == 17));
}

/// Counts what readers ask: how far logs go, which is all that those who wait ask, and what is in them.
#[derive(Clone, Default)]
struct Questions {
    heads: Arc<AtomicUsize>,
    logs: Arc<AtomicUsize>,
}

#[async_trait]
impl Watch for Questions {
    async fn at(&self, moment: Moment<'_>) -> Result<(), backstitch::store::Error> {
        match moment {
            Moment::BeforeHeads => self.heads.fetch_add(1, Ordering::SeqCst),
            Moment::BeforeLog => self.logs.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_readers_of_a_saga_that_waits_ask_no_more_than_one() {
    let (trace, questions, bench) = (Trace::default(), Questions::default(), Bench::new());
    let store = Arc::new(Watched::new(bench.store.clone(), questions.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    let busy =
        acting("b", &trace, |attempt| if attempt == 1 { Err(StepError::not_done("busy")) } else { Ok(()) });
    let late = busy.retry(Retry::fixed(1, secs(3600)));
    engine.register(Saga::builder("s").step(late).build().unwrap()).unwrap();
    let run = start(&engine, "s").await;
    eventually("nobody runs it", async || engine.active() == 0).await;
    let readers: Vec<_> = (0..1000)
        .map(|_| {
            let run = run.clone();
            tokio::spawn(async move { log(&run).await.len() })
        })
        .collect();
    tokio::time::sleep(secs(60)).await;
    let asked = questions.heads.load(Ordering::SeqCst);
    tokio::time::sleep(secs(600)).await;
    let meanwhile = questions.heads.load(Ordering::SeqCst) - asked;
    assert!(meanwhile <= 200, "{meanwhile} questions in ten minutes, for a thousand readers");
    let whole = log(&run).await.len();
    let lengths = futures::future::join_all(readers).await;
    assert!(lengths.into_iter().all(|length| length.unwrap() == whole));
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_saga_that_runs_here_ask_the_store_nothing() {
    let (trace, questions, bench) = (Trace::default(), Questions::default(), Bench::new());
    let store = Arc::new(Watched::new(bench.store.clone(), questions.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    engine.register(retried(&trace)).unwrap();
    let run = engine.find(start(&engine, "s").await.id()).await.unwrap();
    assert_eq!(run.definition(), "s");
    let logs = futures::future::join_all((0..20).map(|_| log(&run))).await;
    assert_eq!(questions.logs.load(Ordering::SeqCst), 0);
    assert_eq!(questions.heads.load(Ordering::SeqCst), 0);
    assert!(logs.iter().all(|read| read.len() == 17));
    assert_eq!(log(&run).await, logs[0], "as it stands in the log");
    assert!(questions.logs.load(Ordering::SeqCst) > 0, "by then it is over");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_engine() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("s").step(hanging("a", &trace)).build().unwrap()).await;
    let run = start(&engine, "s").await;
    let events = Box::pin(run.events());
    engine.shutdown().await.unwrap();
    let told: Vec<_> = events.collect().await;
    assert!(matches!(told.last(), Some(Err(backstitch::Error::ShuttingDown))), "{told:?}");
    assert_eq!(told.iter().filter(|told| told.is_err()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_engine_tells_of_all_its_sagas() {
    let trace = Trace::default();
    let engine = engine_with(retried(&trace)).await;
    engine.register(Saga::builder("other").step(noting("z", &trace)).build().unwrap()).unwrap();
    let events = engine.events();
    let run = start(&engine, "s").await;
    let other = execute(&engine, "other").await;
    run.clone().outcome().await.unwrap();
    let told: Vec<_> = events.take_until(tokio::time::sleep(secs(1))).collect().await;
    let of = |id| told.iter().filter(move |event| event.saga == id).map(|event| event.recorded.clone());
    assert_eq!(of(run.id()).collect::<Vec<_>>(), log(&run).await);
    assert_eq!(of(other.id).count(), 4);
    assert!(told.iter().any(|event| &*event.definition == "other"));
}

#[tokio::test(start_paused = true)]
async fn nobody_needs_to_wait_for_a_saga_to_make_it_run() {
    let trace = Trace::default();
    let slow = Step::new("slow", |_: Context<serde_json::Value>| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    });
    let engine = engine_with(Saga::builder("s").step(slow).step(noting("a", &trace)).build().unwrap()).await;
    drop(start(&engine, "s").await);
    eventually("it is done", async || trace.count("do a") == 1).await;
}
