//! Events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use backstitch::{
    Context, Event, EventView, Retry, Saga, SagaEvent, SagaId, Status, Step, StepError, StepStatus, Undo,
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::acceptance_seed_002::stage::{
    Trace, ended, eventually, execute, log, ms, names, noting, on_every_store, refusing, start, stubborn,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_of_a_success_are_started_and_succeeded() {
    on_every_store(async |stage| {
        let engine =
            stage.engine(Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap()).await;
        let log = log(&start(&engine, "s").await).await;
        assert_eq!(names(&log), ["saga.started", "step.started", "step.succeeded", "saga.succeeded"]);
        assert!(matches!(&log[2].event, Event::StepSucceeded { step, result, .. }
            if step.as_str() == "a" && result.as_str() == "\"a done\""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_of_a_rollback_are_in_order() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        let expected = [
            "saga.started",
            "step.started",
            "step.succeeded",
            "step.started",
            "step.failed",
            "saga.compensating",
            "step.compensating",
            "step.compensated",
            "saga.compensated",
        ];
        assert_eq!(names(&log), expected);
        assert!(matches!(&log[4].event, Event::StepFailed { step, error, .. }
            if step.as_str() == "no" && error.message == "no"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_tell_each_retry_with_its_number_and_error() {
    on_every_store(async |stage| {
        let busy = Step::new("busy", |ctx: Context<Value>| async move {
            if ctx.attempt() < 3 { Err(StepError::not_done("busy").into()) } else { Ok(()) }
        });
        let saga = Saga::builder("s").step(busy.retry(Retry::fixed(2, ms(1)))).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        let retries: Vec<_> = log
            .iter()
            .filter_map(|recorded| match &recorded.event {
                Event::StepRetry { step, attempt, max_attempts, error, .. } => {
                    Some(format!("{step} {attempt}/{max_attempts} {error}"))
                }
                _ => None,
            })
            .collect();
        assert_eq!(retries, ["busy 1/3 busy", "busy 2/3 busy"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_tell_a_failed_compensation_and_the_failed_saga() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga =
            Saga::builder("s").step(stubborn("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        assert!(log.iter().any(|recorded| matches!(&recorded.event,
            Event::StepCompensationFailed { step, error, .. }
                if step.as_str() == "a" && error.message == "it stays")));
        assert_eq!(*names(&log).last().unwrap(), "saga.failed");
    })
    .await;
}

/// A step whose compensation gives something.
fn refunded(id: &'static str) -> Step<Value, u32> {
    let step = Step::new(id, |_: Context<Value>| async { Ok(7) });
    step.compensate(move |_, undo: Undo<u32>| async move { Ok(json!({"refund": undo.result, "of": id})) })
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_carry_the_results_of_compensations() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = || {
            let steps = Saga::builder("s").step(refunded("a")).step(noting("silent", &trace));
            steps.step(refunded("b")).step(refusing("no", &trace)).build().unwrap()
        };
        let engine = stage.engine(saga()).await;
        let run = start(&engine, "s").await;
        let result = |id: &str| json!({"refund": 7, "of": id});
        let events = log(&run).await;
        let told: Vec<_> =
            events.iter().map(|event| serde_json::to_value(EventView::of(event)).unwrap()).collect();
        let compensated: Vec<_> = told.iter().filter(|event| event["type"] == "step.compensated").collect();
        let results: Vec<_> = compensated.iter().map(|event| (&event["step"], event.get("result"))).collect();
        let expected =
            [(&json!("b"), Some(&result("b"))), (&json!("silent"), None), (&json!("a"), Some(&result("a")))];
        assert_eq!(results, expected);
        let end = told.last().unwrap();
        assert_eq!(end["type"], "saga.compensated");
        assert_eq!(end["results"], json!({"a": result("a"), "b": result("b")}));
        let id = run.id();
        drop(run);
        engine.shutdown().await.unwrap();
        let engine = stage.engine(saga()).await;
        let state = engine.load(id).await.unwrap().unwrap();
        assert_eq!(state.compensation_result::<Value>("b").unwrap(), result("b"));
        assert_eq!(state.compensation_result::<Value>("silent").unwrap(), Value::Null);
        assert_eq!(log(&engine.find(id).await.unwrap()).await, events, "as it is read from the log");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_a_compensation_is_done_although_its_result_is_not_kept() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let plain = |id| Step::new(id, |_: Context<Value>| async { Ok(()) });
        // Keys of JSON objects are text.
        let odd = plain("odd").compensate(|_, _: Undo<()>| async { Ok(BTreeMap::from([((1, 2), 3)])) });
        let large = plain("large").compensate(|_, _: Undo<()>| async { Ok("x".repeat(4096)) });
        let saga = Saga::builder("s").step(odd).step(large).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.open_with(|options| options.max_payload = 1024).await;
        engine.register(saga).unwrap();
        let end = execute(&engine, "s").await;
        assert_eq!(end.status, Status::Compensated);
        assert!(end.steps.iter().all(|step| step.compensation_attempts <= 1), "{end:?}");
        assert!(end.compensation_result::<Value>("large").unwrap().is_null());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_every_event_comes_with_the_record_of_its_saga() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let events = engine.events();
        let end = execute(&engine, "s").await;
        let events: Vec<_> = events.take(9).collect().await;
        for event in &events {
            assert_eq!((event.record().id, &*event.record().definition), (end.id, "s"));
            assert!(event.record().seq >= event.recorded.seq);
        }
        let record = |name| events.iter().find(|event| event.recorded.event.name() == name).unwrap().record();
        assert_eq!(record("saga.started").step("a").unwrap().status, StepStatus::Running);
        assert_eq!(record("step.succeeded").result::<String>("a").unwrap(), "a done");
        assert_eq!(record("saga.compensating").status, Status::Compensating);
        assert_eq!(record("saga.compensating").failed_step.as_ref().unwrap().as_str(), "no");
        assert_eq!(*record("saga.compensated"), end);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_on_calls_a_handler_with_event_and_record() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let heard = Trace::default();
        for name in ["saga.started", "step.succeeded", "step.failed", "saga.compensating", "saga.compensated"]
        {
            let heard = heard.clone();
            let handler = move |event: Arc<SagaEvent>| {
                let step = event.recorded.event.step().map(ToString::to_string).unwrap_or_default();
                heard.say(format!("{name} {step} {}", event.record().seq >= event.recorded.seq));
                async {}
            };
            engine.on(name, handler).unwrap();
        }
        ended(start(&engine, "s").await).await;
        engine.shutdown().await.unwrap();
        let mut said = heard.said();
        said.sort();
        let expected = [
            "saga.compensated  true",
            "saga.compensating no true",
            "saga.started  true",
            "step.failed no true",
            "step.succeeded a true",
        ];
        assert_eq!(said, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_a_slow_reader_gets_every_event_in_order_and_once() {
    // Four events each: more than are kept in memory for a reader.
    const SAGAS: usize = 1200;
    on_every_store(async |stage| {
        let engine =
            stage.engine(Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap()).await;
        let mut events = Box::pin(engine.events_and_gaps());
        let runs = futures::future::join_all((0..SAGAS).map(|_| start(&engine, "s"))).await;
        let ends: HashMap<SagaId, _> = futures::future::join_all(runs.into_iter().map(ended))
            .await
            .into_iter()
            .map(|end| (end.id, end))
            .collect();
        let mut seen: HashMap<SagaId, u64> = HashMap::new();
        for _ in 0..4 * SAGAS {
            let event = events.next().await.unwrap().expect("nothing is missing");
            let seen = seen.entry(event.saga).or_default();
            assert_eq!(event.recorded.seq, *seen + 1);
            *seen += 1;
            if event.recorded.event.is_terminal() {
                assert_eq!(*event.record(), ends[&event.saga]);
            }
        }
        assert_eq!(seen.len(), SAGAS);
        let another = execute(&engine, "s").await.id;
        assert_eq!(events.next().await.unwrap().unwrap().saga, another, "it has caught up");
        eventually("nothing is left over", async || engine.active() == 0).await;
    })
    .await;
}
