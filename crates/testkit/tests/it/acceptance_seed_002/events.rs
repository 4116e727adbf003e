//! Events.

use backstitch::{Context, Event, Retry, Saga, Step, StepError};
use serde_json::Value;

use crate::acceptance_seed_002::stage::{
    Trace, log, ms, names, noting, on_every_store, refusing, start, stubborn,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_of_a_success_are_started_and_succeeded_for_saga_and_steps() {
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
async fn s002_events_of_a_rollback_are_failed_compensating_and_compensated() {
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
