//! Handlers of events, and readers of events that are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Engine, Event, Saga, SagaEvent, secs};
use futures::StreamExt;

use crate::runtime::support::*;

/// Sagas that write more events than are kept in memory for a reader: four each.
const MANY: usize = 1100;

fn short(trace: &Trace) -> Saga {
    Saga::builder("s").step(noting("a", trace)).build().unwrap()
}

/// Notes the names of the events it is called for.
fn listening(engine: &Engine, names: &str, trace: &Trace) {
    let heard = trace.clone();
    let handler = move |event: Arc<SagaEvent>| {
        heard.say(event.recorded.event.name());
        async {}
    };
    engine.on(names, handler).unwrap();
}

#[tokio::test(start_paused = true)]
async fn handler_gets_every_event_of_its_name_in_order() {
    let engine = engine_with(short(&Trace::default())).await;
    let (all, steps, ends) = (Trace::default(), Trace::default(), Trace::default());
    listening(&engine, "*", &all);
    listening(&engine, "step.*", &steps);
    listening(&engine, "saga.succeeded", &ends);
    execute(&engine, "s").await;
    eventually("all are called", async || ends.said().len() == 1 && all.said().len() == 4).await;
    assert_eq!(all.said(), ["saga.started", "step.started", "step.succeeded", "saga.succeeded"]);
    assert_eq!(steps.said(), ["step.started", "step.succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_event_name_is_refused_with_the_names() {
    let engine = engine_with(short(&Trace::default())).await;
    for name in ["step-succeeded", "saga.done", ""] {
        let Err(refused) = engine.on(name, |_| async {}) else { panic!("{name} is taken") };
        assert!(refused.to_string().contains("step.succeeded"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_handler_is_called_for_the_next_event() {
    let engine = engine_with(short(&Trace::default())).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let handler = move |_: Arc<SagaEvent>| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        // Before there is a future, and while it runs.
        assert!(call != 0, "the first call panics");
        async move { assert!(call != 1, "the second call panics") }
    };
    engine.on("*", handler).unwrap();
    assert!(execute(&engine, "s").await.succeeded());
    eventually("it is called four times", async || calls.load(Ordering::SeqCst) == 4).await;
}

#[tokio::test(start_paused = true)]
async fn hanging_handler_delays_neither_sagas_nor_other_handlers() {
    let engine = engine_with(short(&Trace::default())).await;
    let (begun, other) = (Trace::default(), Trace::default());
    let noted = begun.clone();
    let handler = move |event: Arc<SagaEvent>| {
        noted.say(event.recorded.event.name());
        explode_when_dropped()
    };
    engine.on("saga.*", handler).unwrap();
    listening(&engine, "saga.*", &other);
    assert!(execute(&engine, "s").await.succeeded());
    eventually("the other handler is called", async || other.said().len() == 2).await;
    assert_eq!(begun.said(), ["saga.started"]);
    eventually("the hanging call is given up", async || begun.said().len() == 2).await;
    assert_eq!(begun.said(), ["saga.started", "saga.succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn unsubscribed_handler_is_not_called_again() {
    let engine = engine_with(short(&Trace::default())).await;
    let (heard, other) = (Trace::default(), Trace::default());
    let noted = heard.clone();
    let subscription = engine.on("saga.*", move |event| {
        noted.say(event.recorded.event.name());
        async {}
    });
    listening(&engine, "saga.succeeded", &other);
    execute(&engine, "s").await;
    eventually("both are called", async || heard.said().len() == 2 && other.said().len() == 1).await;
    subscription.unwrap().unsubscribe();
    execute(&engine, "s").await;
    eventually("the other handler is called", async || other.said().len() == 2).await;
    assert_eq!(heard.said().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_event_handlers() {
    let engine = engine_with(short(&Trace::default())).await;
    let heard = Trace::default();
    let noted = heard.clone();
    let handler = move |event: Arc<SagaEvent>| {
        let noted = noted.clone();
        async move {
            tokio::time::sleep(secs(1)).await;
            noted.say(event.recorded.event.name());
        }
    };
    engine.on("*", handler).unwrap();
    execute(&engine, "s").await;
    engine.shutdown().await.unwrap();
    assert_eq!(heard.said().len(), 4, "{:?}", heard.said());
}

#[tokio::test(start_paused = true)]
async fn slow_handler_misses_nothing() {
    let engine = engine_with(short(&Trace::default())).await;
    let heard = Trace::default();
    let (noted, gate) = (heard.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
    let opened = gate.clone();
    let handler = move |event: Arc<SagaEvent>| {
        let (noted, gate) = (noted.clone(), opened.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            noted.say(format!("{} {}", event.saga, event.recorded.seq));
        }
    };
    engine.on("saga.*", handler).unwrap();
    let mut expected = Vec::new();
    for _ in 0..MANY * 2 {
        let saga = execute(&engine, "s").await.id;
        expected.extend([format!("{saga} 1"), format!("{saga} 4")]);
    }
    gate.add_permits(MANY * 4);
    eventually("it is called for all", async || heard.said().len() == expected.len()).await;
    assert_eq!(heard.said(), expected);
}

/// A store that does not tell of logs for a while.
#[derive(Clone, Default)]
struct Away(Arc<AtomicUsize>);

#[async_trait]
impl Watch for Away {
    async fn at(&self, moment: Moment<'_>) -> Result<(), backstitch::store::Error> {
        let fails = matches!(moment, Moment::BeforeLog)
            && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails { Err(backstitch::store::Error::Unavailable("away".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_reader_waits_for_a_store_that_is_away() {
    let (away, bench) = (Away::default(), Bench::new());
    let store = Arc::new(Watched::new(bench.store.clone(), away.clone()));
    let engine = Engine::on_store(store, bench.options.clone()).await.unwrap();
    engine.register(short(&Trace::default())).unwrap();
    let mut events = Box::pin(engine.events_and_gaps());
    for _ in 0..MANY {
        execute(&engine, "s").await;
    }
    away.0.store(5, Ordering::SeqCst);
    for _ in 0..MANY {
        for seq in 1..=4 {
            assert_eq!(events.next().await.unwrap().unwrap().recorded.seq, seq);
        }
    }
    assert_eq!(away.0.load(Ordering::SeqCst), 0, "the log was read");
}

#[tokio::test(start_paused = true)]
async fn reader_of_an_ended_engine_is_told_of_its_gap() {
    let engine = engine_with(short(&Trace::default())).await;
    let events = engine.events_and_gaps();
    for _ in 0..MANY {
        execute(&engine, "s").await;
    }
    engine.shutdown().await.unwrap();
    let read: Vec<_> = events.collect().await;
    let missed: u64 = read.iter().filter_map(|event| event.as_ref().err()).map(|gap| gap.missed).sum();
    let got = read.iter().filter(|event| event.is_ok()).count() as u64;
    assert_eq!(got + missed, 4 * MANY as u64);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_commit_share_their_record() {
    let engine = engine_with(short(&Trace::default())).await;
    let events = engine.events();
    let ended = execute(&engine, "s").await;
    let events: Vec<_> = events.take(4).collect().await;
    for pair in events.chunks(2) {
        assert_eq!(pair[0].record(), pair[1].record());
        assert_eq!(pair[1].record().seq, pair[1].recorded.seq);
    }
    assert_eq!(*events[3].record(), ended);
    assert!(matches!(events[3].recorded.event, Event::SagaSucceeded));
}
