//! What is undone, in which order, and what happens when it cannot be.

use std::sync::{Arc, Mutex};

use backstitch::{Context, Retry, Saga, Status, Step, StepError, StepStatus, Undo, secs};
use tokio::time::Instant;

use crate::runtime::support::*;

#[tokio::test(start_paused = true)]
async fn a_step_without_a_compensation_has_nothing_to_undo() {
    let trace = Trace::default();
    let plain = Step::new("plain", |_: Context<serde_json::Value>| async { Ok(()) });
    let saga = Saga::builder("s").step(noting("a", &trace)).step(plain).step(refusing("no", &trace));
    let ended = run_alone(saga.build().unwrap()).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("plain").unwrap().status, StepStatus::Succeeded);
    assert_eq!(trace.said(), ["do a", "do no", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn failing_with_nothing_to_undo_ends_compensated() {
    let trace = Trace::default();
    let saga = Saga::builder("s").step(refusing("no", &trace)).step(noting("later", &trace)).build().unwrap();
    let ended = run_alone(saga).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("later").unwrap().status, StepStatus::Pending);
    assert!(ended.compensated().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_compensation_sees_its_result_the_input_other_results_and_the_reason() {
    let trace = Trace::default();
    let seen = trace.clone();
    let first = Step::new("first", |_: Context<String>| async { Ok(7_u32) });
    let second = Step::new("second", |_: Context<String>| async { Ok(8_u32) }).compensate(
        move |ctx, undo: Undo<u32>| {
            let first: u32 = ctx.result("first").unwrap();
            let failed = undo.failed_step.unwrap();
            seen.say(format!("{} {first} {:?} {failed} {}", ctx.input(), undo.result, undo.error));
            assert!(ctx.has_result("second") && !ctx.has_result("third"));
            assert_eq!(ctx.idempotency_key(), format!("{}:second:undo", ctx.saga_id()));
            async { Ok(()) }
        },
    );
    let third = Step::new("third", |_: Context<String>| async {
        Err::<(), _>(StepError::refused("no").with_code("E").into())
    });
    let engine = engine_with(Saga::builder("s").step(first).step(second).step(third).build().unwrap()).await;
    let ended = engine.start("s", "input").await.unwrap().outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated, "{ended:?}");
    assert_eq!(trace.said(), ["input 7 Some(8) third E: no"]);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_is_tried_six_times_even_when_it_is_refused() {
    let trace = Trace::default();
    let saga = Saga::builder("s").step(stubborn("a", &trace)).step(refusing("no", &trace)).build().unwrap();
    let ended = run_alone(saga).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.step("a").unwrap().status, StepStatus::CompensationFailed);
    assert_eq!(trace.count("undo a fails"), 6);
    assert_eq!(ended.stuck().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_works_in_the_end_makes_a_clean_rollback() {
    let trace = Trace::default();
    let undone = trace.clone();
    let late = noting("a", &trace).compensate(move |ctx, _: Undo<String>| {
        undone.say("undo a");
        async move { if ctx.attempt() < 4 { Err(StepError::refused("not yet").into()) } else { Ok(()) } }
    });
    let saga = Saga::builder("s").step(late).step(refusing("no", &trace)).build().unwrap();
    let ended = run_alone(saga).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("a").unwrap().compensation_attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn a_failed_compensation_stops_the_rollback() {
    let trace = Trace::default();
    let saga = Saga::builder("s")
        .step(noting("a", &trace))
        .step(stubborn("b", &trace).compensation_retry(Retry::none()))
        .step(noting("c", &trace))
        .step(refusing("no", &trace));
    let ended = run_alone(saga.build().unwrap()).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(trace.said(), ["do a", "do b", "do c", "do no", "undo c c done", "undo b fails"]);
    assert_eq!(ended.step("a").unwrap().status, StepStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_goes_on_past_a_failed_compensation_if_told_to() {
    let trace = Trace::default();
    let saga = Saga::builder("s")
        .continue_on_compensation_failure(true)
        .step(noting("a", &trace))
        .step(stubborn("b", &trace).compensation_retry(Retry::none()))
        .step(refusing("no", &trace));
    let ended = run_alone(saga.build().unwrap()).await;
    assert_eq!(ended.status, Status::Failed, "it is not called compensated all the same");
    assert_eq!(trace.said(), ["do a", "do b", "do no", "undo b fails", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_hangs_is_timed_out_and_tried_again() {
    let trace = Trace::default();
    let undone = trace.clone();
    let hangs_once = noting("a", &trace).compensate(move |ctx, _: Undo<String>| {
        undone.say("undo a");
        async move {
            if ctx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    });
    let hangs_once = hangs_once.compensation_timeout(secs(20)).compensation_retry(Retry::fixed(1, secs(4)));
    let begun = Instant::now();
    let saga = Saga::builder("s").step(hangs_once).step(refusing("no", &trace)).build().unwrap();
    assert_eq!(run_alone(saga).await.status, Status::Compensated);
    assert_eq!(begun.elapsed().as_secs(), 24);
}

#[tokio::test(start_paused = true)]
async fn running_siblings_are_awaited_told_and_then_undone() {
    let trace = Trace::default();
    let told = trace.clone();
    let sibling = noting("sibling", &trace);
    let slow = Step::new("slow", move |ctx: Context<serde_json::Value>| {
        let told = told.clone();
        async move {
            ctx.cancelled().await;
            told.say("told");
            tokio::time::sleep(secs(5)).await;
            Ok("late".to_owned())
        }
    });
    let undone = trace.clone();
    let slow = slow.compensate(move |_, undo: Undo<String>| {
        undone.say(format!("undo slow {:?}", undo.result));
        async { Ok(()) }
    });
    let saga = Saga::builder("s")
        .step(sibling.depends_on(Vec::<String>::new()))
        .step(slow.depends_on(Vec::<String>::new()))
        .step(refusing("no", &trace).depends_on(["sibling"]));
    let begun = Instant::now();
    assert_eq!(run_alone(saga.build().unwrap()).await.status, Status::Compensated);
    assert_eq!(begun.elapsed().as_secs(), 5);
    let expected = ["do sibling", "do no", "told", "undo slow Some(\"late\")", "undo sibling sibling done"];
    assert_eq!(trace.said(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_sibling_that_fails_after_the_rollback_began_gets_no_new_attempt() {
    let trace = Trace::default();
    let busy = Step::new("busy", {
        let trace = trace.clone();
        move |ctx: Context<serde_json::Value>| {
            trace.say("do busy");
            async move {
                ctx.cancelled().await;
                Err::<(), _>(StepError::not_done("busy").into())
            }
        }
    });
    let saga = Saga::builder("s")
        .step(busy.depends_on(Vec::<String>::new()).retry(Retry::fixed(5, secs(1))))
        .step(refusing("no", &trace).depends_on(Vec::<String>::new()));
    let ended = run_alone(saga.build().unwrap()).await;
    assert_eq!(trace.count("do busy"), 1);
    assert_eq!(ended.failed_step.unwrap().as_str(), "no");
    assert_eq!(ended.steps[0].status, StepStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn whatever_depended_on_a_step_is_undone_before_it() {
    let trace = Trace::default();
    let saga = Saga::builder("s")
        .step(noting("top", &trace))
        .step(noting("left", &trace).depends_on(["top"]))
        .step(noting("right", &trace).depends_on(["top"]))
        .step(noting("bottom", &trace).depends_on(["left", "right"]))
        .step(refusing("no", &trace));
    run_alone(saga.build().unwrap()).await;
    let undone: Vec<_> = trace.said().into_iter().filter(|said| said.starts_with("undo")).collect();
    assert_eq!(undone[0], "undo bottom bottom done");
    assert_eq!(undone[3], "undo top top done");
}

/// How many compensations of two independent steps run at once.
async fn most_at_once(concurrency: usize) -> usize {
    let busy = Arc::new(Mutex::new((0_usize, 0_usize)));
    let step = |id: &'static str| {
        let busy = busy.clone();
        let step = Step::new(id, |_: Context<serde_json::Value>| async { Ok(()) });
        step.depends_on(Vec::<String>::new()).compensate(move |_, _: Undo<()>| {
            let busy = busy.clone();
            async move {
                {
                    let mut busy = busy.lock().unwrap();
                    busy.0 += 1;
                    busy.1 = busy.1.max(busy.0);
                }
                tokio::time::sleep(secs(1)).await;
                busy.lock().unwrap().0 -= 1;
                Ok(())
            }
        })
    };
    let saga = Saga::builder("s").compensation_concurrency(concurrency).step(step("a")).step(step("b"));
    let no = refusing("no", &Trace::default()).depends_on(["a", "b"]);
    assert_eq!(run_alone(saga.step(no).build().unwrap()).await.compensated().len(), 2);
    busy.lock().unwrap().1
}

#[tokio::test(start_paused = true)]
async fn compensations_run_one_at_a_time_unless_more_are_allowed() {
    assert_eq!(most_at_once(1).await, 1);
    assert_eq!(most_at_once(2).await, 2);
}
