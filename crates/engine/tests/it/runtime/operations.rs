//! Cancelling, pausing, resuming and resolving.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstitch::store::watched::Watched;
use backstitch::{
    Engine, Error, Event, Resolution, Retry, Run, Saga, SagaId, Status, StepError, StepStatus, secs,
};
use tokio::time::Instant;

use crate::runtime::listing::Reader;
use crate::runtime::support::*;

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_is_not_waited_out() {
    let trace = Trace::default();
    let busy = acting("b", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(5, secs(50)));
    let engine = engine_with(Saga::builder("s").step(noting("a", &trace)).step(busy).build().unwrap()).await;
    let run = start(&engine, "s").await;
    wait_for(&run, |event| matches!(event, Event::StepRetry { .. })).await;
    let begun = Instant::now();
    engine.cancel(run.id(), "enough").await.unwrap();
    let ended = run.outcome().await.unwrap();
    assert_eq!((ended.status, ended.failed_step), (Status::Compensated, None));
    assert_eq!(ended.error.unwrap().message, "enough");
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(trace.said(), ["do a", "do b", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_saga_never_succeeds() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).await;
    for _ in 0..50 {
        let run = start(&engine, "s").await;
        let cancelled = engine.cancel(run.id(), "stop").await;
        let ended = run.outcome().await.unwrap();
        match cancelled {
            Ok(()) => assert_eq!(ended.status, Status::Compensated),
            Err(error) => {
                assert!(matches!(error, Error::Ended { status: Status::Succeeded, .. }), "{error}");
                assert!(ended.succeeded());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_at_its_end_or_unknown_takes_no_requests() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).await;
    let id = execute(&engine, "s").await.id;
    for asked in [engine.cancel(id, "").await, engine.pause(id, "").await, engine.resume(id, "").await] {
        assert!(matches!(asked, Err(Error::Ended { status: Status::Succeeded, .. })));
    }
    let nobody = SagaId(uuid::Uuid::nil());
    assert!(matches!(engine.cancel(nobody, "").await, Err(Error::NotFound(saga)) if saga == nobody));
    assert!(matches!(engine.find(nobody).await, Err(Error::NotFound(_))));
    assert!(engine.load(nobody).await.unwrap().is_none());
    let resolved = engine.resolve(nobody, "a", Resolution::Done, "a note").await;
    assert!(matches!(resolved, Err(Error::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_holds_its_rollback_too() {
    let trace = Trace::default();
    let engine = engine_with(
        Saga::builder("s")
            .step(noting("a", &trace))
            .step(hanging("b", &trace).timeout(secs(30)))
            .build()
            .unwrap(),
    )
    .await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "b").await;
    engine.pause(run.id(), "look first").await.unwrap();
    tokio::time::sleep(secs(600)).await;
    let state = engine.load(run.id()).await.unwrap().unwrap();
    assert_eq!((state.status, state.paused), (Status::Compensating, true));
    assert_eq!(trace.said(), ["do a", "do b"], "what was in flight has finished, nothing new has started");
    engine.resume(run.id(), "go on").await.unwrap();
    assert_eq!(run.clone().outcome().await.unwrap().status, Status::Compensated);
    assert_eq!(trace.said(), ["do a", "do b", "undo b in doubt", "undo a a done"]);
    let names = names(&log(&run).await);
    assert!(names.contains(&"saga.paused") && names.contains(&"saga.resumed"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_can_be_cancelled() {
    let trace = Trace::default();
    let engine =
        engine_with(Saga::builder("s").step(noting("a", &trace)).step(hanging("b", &trace)).build().unwrap())
            .await;
    let run = start(&engine, "s").await;
    engine.pause(run.id(), "wait").await.unwrap();
    engine.cancel(run.id(), "no more").await.unwrap();
    engine.resume(run.id(), "roll back").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

/// A saga whose rollback is stuck at step `b`, with `a` still to be undone.
async fn stuck(trace: &Trace) -> (Engine, Run) {
    let undone = trace.clone();
    let b = noting("b", trace).compensate(move |ctx, _| {
        undone.say("undo b");
        async move { if ctx.attempt() == 1 { Err(StepError::not_done("stuck").into()) } else { Ok(()) } }
    });
    let saga = Saga::builder("s").step(noting("a", trace)).step(b.compensation_retry(Retry::none()));
    let engine = engine_with(saga.step(refusing("no", trace)).build().unwrap()).await;
    let run = start(&engine, "s").await;
    assert_eq!(run.clone().outcome().await.unwrap().status, Status::Failed);
    (engine, run)
}

async fn resolved(engine: &Engine, id: SagaId, action: Resolution) -> backstitch::SagaState {
    engine.resolve(id, "b", action, "by me").await.unwrap();
    engine.find(id).await.unwrap().outcome().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stuck_compensation_can_be_tried_again() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    let ended = resolved(&engine, run.id(), Resolution::Retry).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("b").unwrap().status, StepStatus::Compensated);
    assert_eq!(trace.said()[3..], ["undo b", "undo b", "undo a a done"]);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_compensation_can_be_left_undone() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    let ended = resolved(&engine, run.id(), Resolution::Skip).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("b").unwrap().status, StepStatus::Skipped);
    assert_eq!(trace.count("undo b"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_compensation_can_be_done_by_hand_and_the_log_says_who_did_it() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    let ended = resolved(&engine, run.id(), Resolution::Done).await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("b").unwrap().status, StepStatus::Compensated);
    assert_eq!(trace.count("undo b"), 1);
    let log = log(&run).await;
    let note = log.iter().find_map(|recorded| match &recorded.event {
        Event::StepResolved { note, action: Resolution::Done, .. } => Some(note.clone()),
        _ => None,
    });
    assert_eq!(note.as_deref(), Some("by me"));
}

#[tokio::test(start_paused = true)]
async fn only_what_is_stuck_can_be_resolved() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    for step in ["a", "no", "nowhere"] {
        let resolved = engine.resolve(run.id(), step, Resolution::Done, "a note").await;
        assert!(matches!(resolved, Err(Error::Rejected { .. })), "{step}");
    }
    resolved(&engine, run.id(), Resolution::Done).await;
    let again = engine.resolve(run.id(), "b", Resolution::Done, "again").await;
    assert!(matches!(again, Err(Error::Rejected { .. })), "it is compensated now");
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_on_a_rollback_that_has_moved_on_is_not_done() {
    let trace = Trace::default();
    let saga = stubborn("a", &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").step(saga).step(refusing("no", &trace)).build().unwrap();
    let engine = engine_with(saga).await;
    let run = start(&engine, "s").await;
    assert_eq!(run.clone().outcome().await.unwrap().status, Status::Failed);
    let seen = engine.insight(run.id()).await.unwrap().unwrap().seq;
    let retry = async || engine.resolve_as_seen(run.id(), seen, "a", Resolution::Retry, "a note").await;
    retry().await.unwrap();
    assert_eq!(engine.find(run.id()).await.unwrap().outcome().await.unwrap().status, Status::Failed);
    let again = retry().await;
    assert!(matches!(again, Err(Error::Raced(_))), "it has failed again since: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_resolves_anything_without_a_word() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    let silent = engine.resolve(run.id(), "b", Resolution::Done, " ").await;
    assert!(matches!(silent, Err(Error::NoteMissing)), "{silent:?}");
    assert_eq!(engine.load(run.id()).await.unwrap().unwrap().status, Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_full_engine_still_answers_who_resolves() {
    let trace = Trace::default();
    let saga = Saga::builder("s").step(hanging("a", &trace)).build().unwrap();
    let engine = Bench::with(|options| options.max_active = 1).open_with(saga).await;
    start(&engine, "s").await;
    let nobody = SagaId(uuid::Uuid::nil());
    let resolved = tokio::time::timeout(secs(1), engine.resolve(nobody, "a", Resolution::Done, "a note"));
    assert!(matches!(resolved.await, Ok(Err(Error::NotFound(_)))));
}

#[tokio::test(start_paused = true)]
async fn two_people_cannot_resolve_the_same_thing() {
    let trace = Trace::default();
    let (engine, run) = stuck(&trace).await;
    let one = engine.resolve(run.id(), "b", Resolution::Done, "one");
    let other = engine.resolve(run.id(), "b", Resolution::Skip, "other");
    let (one, other) = futures::join!(one, other);
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn an_engine_with_room_for_one_saga_can_be_told_how_to_go_on() {
    let trace = Trace::default();
    let stuck = stubborn("a", &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").step(stuck).step(refusing("no", &trace)).build().unwrap();
    let engine = Bench::with(|options| options.max_active = 1).open_with(saga).await;
    let run = start(&engine, "s").await;
    assert_eq!(run.clone().outcome().await.unwrap().status, Status::Failed);
    engine.resolve(run.id(), "a", Resolution::Skip, "never mind").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_changed_nothing_has_its_saga_read_no_more_than_once() {
    let (trace, bench) = (Trace::default(), Bench::new());
    let store = Arc::new(Watched::new(bench.store.clone(), Reader::default()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    let hangs = Saga::builder("s").step(hanging("a", &trace).timeout(secs(7200))).build().unwrap();
    engine.register(hangs).unwrap();
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "a").await;
    let read = store.0.load(Ordering::Relaxed);
    engine.resume(run.id(), "it is not paused").await.unwrap();
    tokio::time::sleep(secs(3600)).await;
    assert_eq!(bench.store.load(&[run.id()]).await.unwrap()[0].inbox.len(), 1, "nothing was decided since");
    assert_eq!(store.0.load(Ordering::Relaxed) - read, 1, "it was read again and again");
    engine.cancel(run.id(), "enough").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().status, Status::Compensated);
}
