//! Steps of which nobody knows whether they took effect.

use backstitch::{Context, ErrorKind, Retry, Saga, Status, Step, StepError, StepStatus, secs};

use crate::runtime::support::*;

async fn with_last_step(step: Step<serde_json::Value, String>, trace: &Trace) -> backstitch::SagaState {
    run_alone(Saga::builder("s").step(noting("a", trace)).step(step).build().unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_step_is_undone_without_a_result() {
    let trace = Trace::default();
    let ended = with_last_step(hanging("b", &trace).timeout(secs(5)), &trace).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(trace.said(), ["do a", "do b", "undo b in doubt", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_panics_while_it_is_given_up_has_timed_out_and_its_siblings_go_on() {
    let trace = Trace::default();
    let explodes =
        Step::new("explodes", |_: Context<serde_json::Value>| explode_when_dropped::<Result<(), _>>());
    let noted = trace.clone();
    let sibling = Step::new("sibling", move |_: Context<serde_json::Value>| {
        let noted = noted.clone();
        async move {
            tokio::time::sleep(secs(10)).await;
            noted.say("do sibling");
            Ok(())
        }
    });
    let explodes = explodes.timeout(secs(5)).retry(Retry::none()).depends_on::<&str>([]);
    let saga = Saga::builder("s").step(explodes).step(sibling.depends_on::<&str>([])).build().unwrap();
    let engine = engine_with(saga).await;
    let ended = tokio::time::timeout(secs(60), execute(&engine, "s")).await.expect("the saga ends");
    assert_eq!(ended.error.unwrap().kind, ErrorKind::TimedOut);
    assert_eq!(trace.said(), ["do sibling"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_doubt_and_a_plain_failure_is_not() {
    let trace = Trace::default();
    let lost = acting("b", &trace, |_| Err(StepError::in_doubt("connection reset")));
    with_last_step(lost, &trace).await;
    assert_eq!(trace.count("undo b in doubt"), 1);
    let trace = Trace::default();
    let ended = with_last_step(acting("b", &trace, |_| Err(StepError::not_done("busy"))), &trace).await;
    assert_eq!(trace.said(), ["do a", "do b", "undo a a done"]);
    assert_eq!(ended.step("b").unwrap().status, StepStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_doubt_still_undoes_the_step() {
    let trace = Trace::default();
    let answer =
        |attempt| Err(if attempt == 1 { StepError::in_doubt("lost") } else { StepError::refused("no") });
    let step = acting("b", &trace, answer).retry(Retry::fixed(3, secs(1)));
    let ended = with_last_step(step, &trace).await;
    assert_eq!(ended.error.unwrap().kind, ErrorKind::Refused);
    assert_eq!(trace.said(), ["do a", "do b", "do b", "undo b in doubt", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn success_after_doubt_is_success() {
    let trace = Trace::default();
    let answer = |attempt| if attempt == 1 { Err(StepError::in_doubt("lost")) } else { Ok(()) };
    let step = acting("b", &trace, answer).retry(Retry::fixed(3, secs(1)));
    assert!(with_last_step(step, &trace).await.succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_doubt() {
    let trace = Trace::default();
    let step = acting("b", &trace, |_| panic!("half-way"));
    let ended = with_last_step(step, &trace).await;
    assert_eq!(ended.error.unwrap().kind, ErrorKind::Panicked);
    assert_eq!(trace.said(), ["do a", "do b", "undo b in doubt", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_leaves_doubt_and_is_not_tried_again() {
    let trace = Trace::default();
    let done = trace.clone();
    let step = Step::new("b", move |_: Context<serde_json::Value>| {
        done.say("do b");
        async { Ok("x".repeat(2000)) }
    });
    let undone = trace.clone();
    let step = step.compensate(move |_, undo| {
        undone.say(format!("undo b {:?}", undo.result));
        async { Ok(()) }
    });
    let saga = Saga::builder("s").step(step.retry(Retry::fixed(3, secs(1)))).build().unwrap();
    let engine = Bench::with(|options| options.max_payload = 1000).open_with(saga).await;
    let ended = execute(&engine, "s").await;
    assert_eq!(ended.error.as_ref().unwrap().kind, ErrorKind::Unusable);
    assert!(ended.error.unwrap().message.contains("the limit is 1000"));
    assert_eq!(trace.said(), ["do b", "undo b None"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_five_processes_did_not_survive_is_undone() {
    let trace = Trace::default();
    let saga = || Saga::builder("s").step(noting("a", &trace)).step(hanging("b", &trace)).build().unwrap();
    let bench = Bench::new();
    let mut engine = bench.open_with(saga()).await;
    let id = start(&engine, "s").await.id();
    for life in 1..=5 {
        eventually("b is running", async || trace.count("do b") == life).await;
        drop(engine);
        engine = bench.open_with(saga()).await;
    }
    let ended = engine.find(id).await.unwrap().outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.error.unwrap().kind, ErrorKind::Interrupted);
    assert_eq!(trace.count("do b"), 5);
    assert_eq!(trace.said()[6..], ["undo b in doubt", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_costs_no_retry() {
    let trace = Trace::default();
    let saga = || {
        let noted = trace.clone();
        let step = Step::new("b", move |ctx: Context<serde_json::Value>| {
            noted.say("do b");
            async move {
                match ctx.attempt() {
                    1 | 2 => std::future::pending().await,
                    3 => Err(StepError::not_done("busy").into()),
                    _ => Ok(()),
                }
            }
        });
        Saga::builder("s").step(step.retry(Retry::fixed(1, secs(1)))).build().unwrap()
    };
    let bench = Bench::new();
    let mut engine = bench.open_with(saga()).await;
    let id = start(&engine, "s").await.id();
    for life in 1..=2 {
        eventually("b is running", async || trace.count("do b") == life).await;
        drop(engine);
        engine = bench.open_with(saga()).await;
    }
    assert!(engine.find(id).await.unwrap().outcome().await.unwrap().succeeded());
    assert_eq!(trace.count("do b"), 4);
}
