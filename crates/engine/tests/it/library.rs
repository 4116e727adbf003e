//! The library as its users see it, on the in-memory store with time that waits for nobody.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::clock::TokioClock;
use backstitch::{
    Context, Engine, Event, Options, Retry, Saga, Status, Step, StepError, StepStatus, Undo, secs,
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    customer: String,
    amount: u32,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    payment_id: String,
}

async fn engine() -> Engine {
    let options = Options { clock: Arc::new(TokioClock::default()), ..Options::default() };
    Engine::in_memory_with(options).await.unwrap()
}

type Trace = Arc<Mutex<Vec<String>>>;

fn say(trace: &Trace, what: impl Into<String>) {
    trace.lock().unwrap().push(what.into());
}

fn said(trace: &Trace) -> Vec<String> {
    trace.lock().unwrap().clone()
}

/// A step that notes what it does and fails as told.
fn noting(id: &'static str, trace: &Trace, fails: Option<StepError>) -> Step<serde_json::Value, String> {
    let (done, undone) = (trace.clone(), trace.clone());
    Step::new(id, move |_: Context<serde_json::Value>| {
        say(&done, format!("do {id}"));
        let fails = fails.clone();
        async move { fails.map_or_else(|| Ok(format!("{id} done")), |error| Err(error.into())) }
    })
    .compensate(move |_, undo: Undo<String>| {
        say(&undone, format!("undo {id} {:?}", undo.result));
        async { Ok(()) }
    })
    .retry(Retry::none())
}

#[tokio::test(start_paused = true)]
async fn a_saga_runs_its_steps_in_order_and_passes_results_on() {
    let engine = engine().await;
    let saga = Saga::builder("order")
        .step(Step::new("pay", |ctx: Context<Order>| async move {
            Ok(Payment { payment_id: format!("{}-{}", ctx.input().customer, ctx.input().amount) })
        }))
        .step(Step::new("mail", |ctx: Context<Order>| async move {
            let payment: Payment = ctx.result("pay")?;
            Ok(format!("{} {}", payment.payment_id, ctx.idempotency_key().ends_with(":mail:do")))
        }))
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let run = engine.start("order", &Order { customer: "ada".into(), amount: 7 }).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Succeeded);
    assert_eq!(outcome.result::<String>("mail").unwrap(), "ada-7 true");
}

#[tokio::test(start_paused = true)]
async fn a_failing_step_undoes_the_earlier_ones_in_reverse_order() {
    let trace = Trace::default();
    let engine = engine().await;
    let saga = Saga::builder("three")
        .step(noting("a", &trace, None))
        .step(noting("b", &trace, None))
        .step(noting("c", &trace, Some(StepError::refused("no").with_code("NOPE"))))
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let outcome = engine.start("three", &()).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(outcome.failed_step.as_ref().unwrap().as_str(), "c");
    assert_eq!(outcome.error.as_ref().unwrap().code.as_deref(), Some("NOPE"));
    assert_eq!(outcome.step("c").unwrap().status, StepStatus::Failed);
    let expected = ["do a", "do b", "do c", "undo b Some(\"b done\")", "undo a Some(\"a done\")"];
    assert_eq!(said(&trace), expected);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_now_and_then_is_retried_with_its_waits() {
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let engine = engine().await;
    let saga = Saga::builder("flaky")
        .step(
            Step::new("call", move |_: Context<()>| {
                let turn = seen.fetch_add(1, Ordering::SeqCst);
                async move { if turn < 3 { Err(StepError::not_done("busy").into()) } else { Ok(turn) } }
            })
            .retry(Retry::fixed(3, secs(2))),
        )
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let run = engine.start("flaky", &()).await.unwrap();
    let events: Vec<_> = run.events().map(|event| event.unwrap().event.name()).collect().await;
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!(events.iter().filter(|name| **name == "step.retry").count(), 3);
    assert_eq!(*events.last().unwrap(), "saga.succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_never_returns_times_out_and_is_compensated_too() {
    let trace = Trace::default();
    let undone = trace.clone();
    let engine = engine().await;
    let saga = Saga::builder("hang")
        .step(noting("a", &trace, None))
        .step(
            Step::new("never", |_: Context<serde_json::Value>| async {
                std::future::pending::<()>().await;
                Ok(())
            })
            .compensate(move |_, undo: Undo<()>| {
                say(&undone, format!("undo never {:?}", undo.result));
                async { Ok(()) }
            })
            .timeout(secs(30))
            .retry(Retry::none()),
        )
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let outcome = engine.start("hang", &()).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(said(&trace), ["do a", "undo never None", "undo a Some(\"a done\")"]);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_step_fails_its_saga_and_nothing_else() {
    let trace = Trace::default();
    let engine = engine().await;
    let bad = Saga::builder("bad")
        .step(
            Step::new("boom", |_: Context<()>| async { Ok("not a number".parse::<u32>().expect("kaboom")) })
                .retry(Retry::none()),
        )
        .build()
        .unwrap();
    engine.register(bad).unwrap();
    engine.register(Saga::builder("good").step(noting("a", &trace, None)).build().unwrap()).unwrap();
    let outcome = engine.start("bad", &()).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Compensated);
    assert!(outcome.error.unwrap().message.contains("kaboom"));
    assert!(engine.start("good", &()).await.unwrap().outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn independent_steps_run_at_the_same_time() {
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let step = |id: &'static str| {
        let barrier = barrier.clone();
        Step::new(id, move |_: Context<()>| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Ok(())
            }
        })
        .depends_on(Vec::<String>::new())
        .timeout(secs(5))
    };
    let engine = engine().await;
    engine.register(Saga::builder("pair").step(step("left")).step(step("right")).build().unwrap()).unwrap();
    assert!(engine.start("pair", &()).await.unwrap().outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_saga_and_another_input_is_refused() {
    let trace = Trace::default();
    let engine = engine().await;
    engine.register(Saga::builder("once").step(noting("a", &trace, None)).build().unwrap()).unwrap();
    let first = engine.start("once", &serde_json::json!({"a": 1, "b": 2})).key("k").await.unwrap();
    let again = engine.start("once", &serde_json::json!({"b": 2, "a": 1})).key("k").await.unwrap();
    assert_eq!(first.id(), again.id());
    assert!(again.outcome().await.unwrap().succeeded());
    let other = engine.start("once", &serde_json::json!({"a": 9})).key("k").await;
    assert!(matches!(other, Err(backstitch::Error::KeyConflict { saga, .. }) if saga == first.id()));
    assert_eq!(said(&trace), ["do a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_stands_for_all_that_a_saga_is_started_with_but_for_a_time_from_now() {
    let trace = Trace::default();
    let engine = engine().await;
    engine.register(Saga::builder("once").step(noting("a", &trace, None)).build().unwrap()).unwrap();
    let start = || engine.start("once", &1).key("k").correlation_id("c").attribute("a", "1");
    let first = start().deadline_in(secs(60)).await.unwrap();
    tokio::time::advance(secs(5)).await;
    assert_eq!(start().deadline_in(secs(90)).await.unwrap().id(), first.id());
    let later = backstitch::Timestamp::from_micros(i64::MAX);
    for other in [
        start().correlation_id("d"),
        start().attribute("b", "2"),
        start().deadline(later),
        engine.start("once", &1).key("k"),
    ] {
        assert!(matches!(other.await, Err(backstitch::Error::KeyConflict { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_saga_is_rolled_back_and_its_running_step_is_told() {
    let trace = Trace::default();
    let heard = trace.clone();
    let engine = engine().await;
    let saga = Saga::builder("slow")
        .step(noting("a", &trace, None))
        .step(Step::new("wait", move |ctx: Context<serde_json::Value>| {
            let heard = heard.clone();
            async move {
                ctx.cancelled().await;
                say(&heard, "heard");
                Ok(())
            }
        }))
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let run = engine.start("slow", &()).await.unwrap();
    let mut events = Box::pin(run.events());
    while let Some(event) = events.next().await {
        if matches!(&event.unwrap().event, Event::StepStarted { step, .. } if step.as_str() == "wait") {
            break;
        }
    }
    engine.cancel(run.id(), "changed my mind").await.unwrap();
    let outcome = run.clone().outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Compensated);
    assert_eq!(said(&trace), ["do a", "heard", "undo a Some(\"a done\")"]);
    let again = engine.cancel(run.id(), "again").await;
    assert!(matches!(again, Err(backstitch::Error::Ended { status: Status::Compensated, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_starts_nothing_until_it_is_resumed() {
    let trace = Trace::default();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let held = gate.clone();
    let engine = engine().await;
    let saga = Saga::builder("pausing")
        .step(Step::new("first", move |_: Context<serde_json::Value>| {
            let held = held.clone();
            async move {
                held.acquire().await?.forget();
                Ok(())
            }
        }))
        .step(noting("second", &trace, None))
        .build()
        .unwrap();
    engine.register(saga).unwrap();
    let run = engine.start("pausing", &()).await.unwrap();
    engine.pause(run.id(), "wait").await.unwrap();
    gate.add_permits(1);
    while engine.load(run.id()).await.unwrap().unwrap().step("first").unwrap().status != StepStatus::Succeeded
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(secs(120)).await;
    assert_eq!(said(&trace), Vec::<String>::new());
    assert!(engine.load(run.id()).await.unwrap().unwrap().paused);
    engine.resume(run.id(), "go").await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
}
