//! What is called when a saga has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstitch::store::documents::SAGA;
use backstitch::{Resolution, Retry, Saga, Status, StepError, secs};
use tokio::time::Instant;

use crate::runtime::support::*;

#[tokio::test(start_paused = true)]
async fn success_is_told_once_with_the_results() {
    let trace = Trace::default();
    let (told, wrong) = (trace.clone(), trace.clone());
    let saga = Saga::builder("s")
        .step(noting("a", &trace))
        .on_success(move |ended| {
            told.say(format!("success {} {}", ended.status, ended.result::<String>("a").unwrap()));
            async { Ok(()) }
        })
        .on_failure(move |_| {
            wrong.say("failure");
            async { Ok(()) }
        });
    let engine = engine_with(saga.build().unwrap()).await;
    execute(&engine, "s").await;
    tokio::time::sleep(secs(600)).await;
    assert_eq!(trace.said(), ["do a", "success succeeded a done"]);
}

#[tokio::test(start_paused = true)]
async fn failure_is_told_with_the_step_and_the_error_after_the_rollback() {
    let trace = Trace::default();
    let told = trace.clone();
    let saga =
        Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).on_failure(move |ended| {
            let (step, error) = (ended.failed_step.unwrap(), ended.error.unwrap());
            told.say(format!("{} at {step}: {error}", ended.status));
            async { Ok(()) }
        });
    let engine = engine_with(saga.build().unwrap()).await;
    execute(&engine, "s").await;
    tokio::time::sleep(secs(600)).await;
    assert_eq!(trace.said(), ["do a", "do no", "undo a a done", "compensated at no: NOPE: no"]);
}

#[tokio::test(start_paused = true)]
async fn hook_of_a_saga_that_ends_at_once_waits_for_no_poll() {
    let trace = Trace::default();
    let called = trace.clone();
    let saga = Saga::builder("s").step(noting("a", &trace)).on_failure(move |_| {
        called.say("called");
        async { Ok(()) }
    });
    let mut bench = Bench::new();
    bench.options.tick = secs(24 * 3600);
    let engine = bench.open_with(saga.build().unwrap()).await;
    tokio::time::sleep(secs(1)).await;
    engine.start("s", &()).deadline_in(secs(0)).await.unwrap().outcome().await.unwrap();
    eventually("its hook is called", async || trace.said() == ["called"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollback_is_told_and_so_is_its_end() {
    let trace = Trace::default();
    let told = trace.clone();
    let stuck = stubborn("a", &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").step(stuck).step(refusing("no", &trace)).on_failure(move |ended| {
        told.say(format!("told {}", ended.status));
        async { Ok(()) }
    });
    let engine = engine_with(saga.build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    assert_eq!(ended.status, Status::Failed);
    eventually("it is told", async || trace.count("told failed") == 1).await;
    engine.resolve(ended.id, "a", Resolution::Done, "by hand").await.unwrap();
    eventually("it is told again", async || trace.count("told compensated") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_called_again_until_it_succeeds() {
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let saga = Saga::builder("s").step(noting("a", &Trace::default())).on_success(move |_| {
        let turn = seen.fetch_add(1, Ordering::SeqCst);
        async move {
            match turn {
                0 => Err(StepError::not_done("busy").into()),
                1 => panic!("oh"),
                2 => std::future::pending().await,
                _ => Ok(()),
            }
        }
    });
    let engine = engine_with(saga.build().unwrap()).await;
    execute(&engine, "s").await;
    tokio::time::sleep(secs(3600)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn the_second_end_is_told_though_the_first_is_still_being_told() {
    let trace = Trace::default();
    let told = trace.clone();
    let stuck = stubborn("a", &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").step(stuck).step(refusing("no", &trace)).on_failure(move |ended| {
        let told = told.clone();
        async move {
            told.say(format!("hear {}", ended.status));
            tokio::time::sleep(secs(5)).await;
            told.say(format!("heard {}", ended.status));
            Ok(())
        }
    });
    let engine = engine_with(saga.build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    eventually("it is being told", async || trace.count("hear failed") == 1).await;
    engine.resolve(ended.id, "a", Resolution::Skip, "never mind").await.unwrap();
    eventually("the end is told", async || trace.count("heard compensated") == 1).await;
    assert_eq!(trace.count("heard failed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_while_it_is_given_up_has_failed_like_any_other() {
    let trace = Trace::default();
    let told = trace.clone();
    let saga = Saga::builder("s").step(noting("a", &trace)).on_success(move |_| {
        told.say("told");
        let first = told.count("told") == 1;
        async move { if first { explode_when_dropped().await } else { Ok(()) } }
    });
    let engine = engine_with(saga.build().unwrap()).await;
    execute(&engine, "s").await;
    // Its timeout and a second; a lease that runs out would take longer.
    tokio::time::sleep(secs(65)).await;
    assert_eq!(trace.count("told"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_not_called_for_ever() {
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let saga = Saga::builder("s").step(noting("a", &Trace::default())).on_success(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        async { Err(StepError::not_done("never").into()) }
    });
    let engine = engine_with(saga.build().unwrap()).await;
    let begun = Instant::now();
    assert!(execute(&engine, "s").await.succeeded(), "a hook does not change how the saga ended");
    assert_eq!(begun.elapsed().as_secs(), 0, "nor does anybody wait for it");
    tokio::time::sleep(secs(24 * 3600)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_the_process_did_not_live_to_call_is_called_by_the_next() {
    let trace = Trace::default();
    let saga = |hangs: bool| {
        let told = trace.clone();
        let saga = Saga::builder("s").step(noting("a", &trace)).on_success(move |_| {
            told.say("told");
            async move { if hangs { std::future::pending().await } else { Ok(()) } }
        });
        saga.build().unwrap()
    };
    let bench = Bench::new();
    let engine = bench.open_with(saga(true)).await;
    execute(&engine, "s").await;
    eventually("the hook is called", async || trace.count("told") == 1).await;
    drop(engine);
    let _engine = bench.open_with(saga(false)).await;
    eventually("the hook is called again", async || trace.count("told") == 2).await;
    tokio::time::sleep(secs(3600)).await;
    assert_eq!(trace.count("told"), 2);
}

/// A saga that fails, with the hooks that a program may have or not; `on_failure` succeeds from its second call on.
fn failing(trace: &Trace, on_success: bool, on_failure: bool) -> Saga {
    let mut saga = Saga::builder("s").step(refusing("no", &Trace::default()));
    if on_success {
        saga = saga.on_success(|_| async { Ok(()) });
    }
    if on_failure {
        let told = trace.clone();
        saga = saga.on_failure(move |_| {
            told.say("told");
            let busy = told.count("told") == 1;
            async move { if busy { Err(StepError::not_done("busy").into()) } else { Ok(()) } }
        });
    }
    saga.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_hook_waits_for_a_process_that_has_it_and_costs_no_tries_elsewhere() {
    let (trace, bench) = (Trace::default(), Bench::new());
    let engine = bench.open_with(failing(&trace, true, true)).await;
    execute(&engine, "s").await;
    eventually("it is told", async || trace.count("told") == 1).await;
    drop(engine);
    let without = bench.open_with(failing(&trace, true, false)).await;
    tokio::time::sleep(secs(24 * 3600)).await;
    drop(without);
    let _engine = bench.open_with(failing(&trace, true, true)).await;
    eventually("it is told again", async || trace.count("told") == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_called_though_the_process_that_ended_the_saga_does_not_have_it() {
    let (trace, bench) = (Trace::default(), Bench::new());
    let first = bench.open_with(failing(&trace, false, true)).await;
    eventually("it is written down", async || {
        bench.store.document_version(SAGA, "s", Some(1)).await.unwrap().is_some()
    })
    .await;
    drop(first);
    let without = bench.open_with(failing(&trace, false, false)).await;
    execute(&without, "s").await;
    drop(without);
    let _engine = bench.open_with(failing(&trace, false, true)).await;
    eventually("it is told", async || trace.count("told") == 2).await;
}
