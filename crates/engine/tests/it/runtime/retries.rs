//! Attempts, waits and timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use backstitch::clock::{Clock, TokioClock};
use backstitch::{
    Context, Engine, Event, Options, Retry, Saga, Status, Step, StepError, StepResult, StepStatus, Timestamp,
    secs,
};
use tokio::time::Instant;

use crate::runtime::support::*;

fn waits(log: &[backstitch::Recorded]) -> Vec<u64> {
    let waits = log.iter().filter_map(|recorded| match &recorded.event {
        Event::StepRetry { retry_at, .. } => Some(retry_at.since(recorded.at).as_secs()),
        _ => None,
    });
    waits.collect()
}

const AN_HOUR: i64 = 3_600_000_000;

/// Time as tokio tells it, and set ahead or back, by so many microseconds, whenever a test likes.
struct Adjusted {
    clock: TokioClock,
    by: AtomicI64,
}

impl Clock for Adjusted {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros() + self.by.load(Ordering::SeqCst))
    }
}

async fn engine_by_an_adjusted_clock() -> (Engine, Arc<Adjusted>) {
    let clock = Arc::new(Adjusted { clock: TokioClock::default(), by: 0.into() });
    let options = Options { clock: clock.clone(), ..Options::default() };
    (Engine::in_memory_with(options).await.unwrap(), clock)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_holds_nothing_up() {
    let trace = Trace::default();
    let (engine, clock) = engine_by_an_adjusted_clock().await;
    let answer = |attempt| if attempt < 3 { Err(StepError::not_done("busy")) } else { Ok(()) };
    let step = acting("a", &trace, answer).retry(Retry::fixed(2, secs(1)));
    engine.register(Saga::builder("s").step(step).build().unwrap()).unwrap();
    let begun = Instant::now();
    let run = start(&engine, "s").await;
    wait_for(&run, |event| event.name() == "step.retry").await;
    clock.by.store(-AN_HOUR, Ordering::SeqCst);
    assert!(run.clone().outcome().await.unwrap().succeeded());
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    let log = log(&run).await;
    assert!(log.is_sorted_by_key(|recorded| recorded.at), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumped_ahead_and_was_set_right_is_right_in_the_end() {
    let trace = Trace::default();
    let (engine, clock) = engine_by_an_adjusted_clock().await;
    engine.register(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).unwrap();
    clock.by.store(AN_HOUR, Ordering::SeqCst);
    let wrong = log(&start(&engine, "s").await).await;
    clock.by.store(0, Ordering::SeqCst);
    let still_wrong = log(&start(&engine, "s").await).await;
    assert!(still_wrong[0].at >= wrong[0].at, "time does not go back");
    tokio::time::sleep(secs(5 * 3600)).await;
    let right = log(&start(&engine, "s").await).await;
    assert_eq!(right[0].at, clock.now());
}

#[tokio::test(start_paused = true)]
async fn a_step_is_tried_as_often_as_its_policy_says_and_no_more() {
    let trace = Trace::default();
    let busy = acting("busy", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(3, secs(2)));
    let begun = Instant::now();
    let ended = run_alone(Saga::builder("s").step(busy).build().unwrap()).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("busy").unwrap().attempts, 4);
    assert_eq!(trace.count("do busy"), 4);
    assert_eq!(begun.elapsed().as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn waits_grow_as_the_policy_says() {
    let trace = Trace::default();
    let busy =
        acting("busy", &trace, |attempt| if attempt < 5 { Err(StepError::not_done("busy")) } else { Ok(()) });
    let busy = busy.retry(Retry::exponential(9, secs(1)).with_cap(secs(5)));
    let engine = engine_with(Saga::builder("s").step(busy).build().unwrap()).await;
    let log = log(&start(&engine, "s").await).await;
    assert_eq!(waits(&log), [1, 2, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_event_tells_the_attempt_how_many_there_can_be_and_why() {
    let trace = Trace::default();
    let busy = acting("busy", &trace, |attempt| {
        if attempt == 1 { Err(StepError::not_done("full").with_code("E1")) } else { Ok(()) }
    });
    let saga = Saga::builder("s").step(busy.retry(Retry::fixed(3, secs(2)))).build().unwrap();
    let engine = engine_with(saga).await;
    let log = log(&start(&engine, "s").await).await;
    let retry = log.iter().find_map(|recorded| match &recorded.event {
        Event::StepRetry { attempt, max_attempts, error, .. } => {
            Some((*attempt, *max_attempts, error.clone()))
        }
        _ => None,
    });
    let (attempt, max_attempts, error) = retry.unwrap();
    assert_eq!((attempt, max_attempts), (1, 4));
    assert_eq!((error.code.as_deref(), error.message.as_str()), (Some("E1"), "full"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_tried_again() {
    let trace = Trace::default();
    let saga =
        Saga::builder("s").step(refusing("no", &trace).retry(Retry::fixed(9, secs(1)))).build().unwrap();
    let ended = run_alone(saga).await;
    assert_eq!(ended.step("no").unwrap().status, StepStatus::Failed);
    assert_eq!(trace.said(), ["do no"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_asks_for_time_gets_it() {
    let trace = Trace::default();
    let asking = |attempt| {
        let error = StepError::not_done("later").with_retry_after(secs(40));
        if attempt == 1 { Err(error) } else { Ok(()) }
    };
    let saga =
        Saga::builder("s").step(acting("a", &trace, asking).retry(Retry::fixed(1, secs(2)))).build().unwrap();
    let begun = Instant::now();
    assert!(run_alone(saga).await.succeeded());
    assert_eq!(begun.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_for_one_attempt() {
    let trace = Trace::default();
    let slow = hanging("slow", &trace).timeout(secs(10)).retry(Retry::fixed(2, secs(3)));
    let begun = Instant::now();
    let ended = run_alone(Saga::builder("s").step(slow).build().unwrap()).await;
    assert_eq!(trace.count("do slow"), 3);
    assert_eq!(begun.elapsed().as_secs(), 3 * 10 + 2 * 3);
    assert_eq!(ended.step("slow").unwrap().error.as_ref().unwrap().message, "no answer within 10000 ms");
}

#[tokio::test(start_paused = true)]
async fn unless_told_otherwise_an_attempt_has_a_minute_and_two_retries_five_seconds_apart() {
    let hangs = Step::new("hangs", |_: Context<serde_json::Value>| std::future::pending::<StepResult<()>>());
    let begun = Instant::now();
    let ended = run_alone(Saga::builder("s").step(hangs).build().unwrap()).await;
    assert_eq!(ended.step("hangs").unwrap().attempts, 3);
    assert_eq!(begun.elapsed().as_secs(), 3 * 60 + 2 * 5);
}

#[tokio::test(start_paused = true)]
async fn defaults_of_the_saga_serve_steps_that_do_not_say() {
    let trace = Trace::default();
    let hangs = |id| Step::new(id, |_: Context<serde_json::Value>| std::future::pending::<StepResult<()>>());
    let saga = Saga::builder("s").step_timeout(secs(7)).retry(Retry::fixed(1, secs(1)));
    let begun = Instant::now();
    run_alone(saga.step(noting("a", &trace)).step(hangs("b")).build().unwrap()).await;
    assert_eq!(begun.elapsed().as_secs(), 7 + 1 + 7);
    let saga = Saga::builder("s").step_timeout(secs(7)).retry(Retry::fixed(1, secs(1)));
    let begun = Instant::now();
    run_alone(saga.step(hangs("b").timeout(secs(2)).retry(Retry::none())).build().unwrap()).await;
    assert_eq!(begun.elapsed().as_secs(), 2, "what a step says itself comes first");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_same_key_and_its_own_number() {
    let trace = Trace::default();
    let noted = trace.clone();
    let step = Step::new("pay", move |ctx: Context<serde_json::Value>| {
        let key = ctx.idempotency_key();
        assert_eq!(key, format!("{}:pay:do", ctx.saga_id()));
        noted.say(format!("{}", ctx.attempt()));
        async move { if ctx.attempt() < 3 { Err(StepError::in_doubt("lost").into()) } else { Ok(()) } }
    });
    assert!(run_alone(Saga::builder("s").step(step).build().unwrap()).await.succeeded());
    assert_eq!(trace.said(), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_error_is_worth_another_try() {
    let step = Step::new("parse", |ctx: Context<serde_json::Value>| async move {
        let text = if ctx.attempt() == 1 { "not a number" } else { "7" };
        Ok(text.parse::<u32>()?)
    });
    let ended = run_alone(Saga::builder("s").step(step).build().unwrap()).await;
    assert_eq!(ended.result::<u32>("parse").unwrap(), 7);
    assert_eq!(ended.step("parse").unwrap().attempts, 2);
}
