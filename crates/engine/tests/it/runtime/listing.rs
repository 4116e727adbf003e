//! Finding sagas: lists, filters, pages, one in detail, and how they all are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use backstitch::kernel::saga::draft::Performer;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{
    Attempt, Caller, Context, Cursor, Engine, Filter, Limit, LimitScope, Payload, Phase, Retry, STUCK_AFTER,
    Saga, SagaId, Status, Step, StepError, StepResult, StepStatus, secs, store,
};

use crate::runtime::support::*;

async fn listed(engine: &Engine, filter: Filter) -> Vec<SagaId> {
    let page = engine.list(&filter, &Cursor { before: None, limit: 1000 }).await.unwrap();
    page.items.iter().map(|row| row.id).collect()
}

#[tokio::test(start_paused = true)]
async fn sagas_are_listed_newest_first_a_page_at_a_time() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).await;
    let mut started = Vec::new();
    for _ in 0..7 {
        started.push(execute(&engine, "s").await.id);
    }
    let mut cursor = Cursor { before: None, limit: 3 };
    let (mut found, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let page = engine.list(&Filter::default(), &cursor).await.unwrap();
        sizes.push(page.items.len());
        found.extend(page.items.iter().map(|row| row.id));
        let Some(next) = page.next else { break };
        cursor.before = Some(next);
    }
    started.reverse();
    assert_eq!(found, started);
    assert_eq!(sizes, [3, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn sagas_are_found_by_status_definition_correlation_and_attributes() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("good").step(noting("a", &trace)).build().unwrap()).await;
    engine.register(Saga::builder("bad").step(refusing("a", &trace)).build().unwrap()).unwrap();
    let good = engine.start("good", &()).correlation_id("c1").attribute("x", "1").attribute("y", "2");
    let good = good.await.unwrap().outcome().await.unwrap().id;
    let bad = engine.start("bad", &()).correlation_id("c2").attribute("x", "1");
    let bad = bad.await.unwrap().outcome().await.unwrap().id;
    let with = |change: fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        filter
    };
    assert_eq!(listed(&engine, Filter::default()).await, [bad, good]);
    assert_eq!(listed(&engine, with(|it| it.status = Some(Status::Compensated))).await, [bad]);
    assert_eq!(listed(&engine, with(|it| it.definition = Some("good".into()))).await, [good]);
    assert_eq!(listed(&engine, with(|it| it.correlation_id = Some("c1".into()))).await, [good]);
    let x = with(|it| it.attributes = BTreeMap::from([("x".into(), "1".into())]));
    assert_eq!(listed(&engine, x).await, [bad, good]);
    let xy = with(|it| it.attributes = BTreeMap::from([("x".into(), "1".into()), ("y".into(), "2".into())]));
    assert_eq!(listed(&engine, xy).await, [good]);
    let none = with(|it| (it.status, it.definition) = (Some(Status::Succeeded), Some("bad".into())));
    assert!(listed(&engine, none).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_saga_in_detail_shows_every_step_and_why_it_failed() {
    let trace = Trace::default();
    let saga =
        Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).step(noting("c", &trace));
    let engine = engine_with(saga.build().unwrap()).await;
    let id = execute(&engine, "s").await.id;
    let state = engine.load(id).await.unwrap().unwrap();
    let steps: Vec<_> = state.steps.iter().map(|step| (step.id.as_str(), step.status)).collect();
    let expected = [("a", StepStatus::Compensated), ("no", StepStatus::Failed), ("c", StepStatus::Pending)];
    assert_eq!(steps, expected);
    assert_eq!(state.result::<String>("a").unwrap(), "a done");
    let json = serde_json::to_value(&state).unwrap();
    assert_eq!(json["status"], "compensated");
    assert_eq!(json["failed_step"], "no");
    assert_eq!(json["error"]["code"], "NOPE");
    assert_eq!(json["steps"][0]["status"], "compensated");
}

/// A saga of one step that takes two hours and of which only one runs at a time: the next ones wait for room and nothing else.
fn one_at_a_time(trace: &Trace) -> Saga {
    let step = hanging("a", trace).timeout(secs(7200)).concurrency(1);
    Saga::builder("s").step(step).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn health_counts_the_active_and_names_the_stuck() {
    let trace = Trace::default();
    let engine = engine_with(one_at_a_time(&trace)).await;
    engine.register(Saga::builder("ok").step(noting("b", &trace)).build().unwrap()).unwrap();
    start(&engine, "s").await;
    let stuck = start(&engine, "s").await.id();
    execute(&engine, "ok").await;
    let health = engine.health(STUCK_AFTER).await.unwrap();
    assert_eq!(health.active, BTreeMap::from([(Status::Pending, 1), (Status::Running, 1)]));
    assert!(health.stuck.is_empty());
    tokio::time::sleep(secs(599)).await;
    assert!(engine.health(STUCK_AFTER).await.unwrap().stuck.is_empty());
    tokio::time::sleep(secs(2)).await;
    let named = engine.health(STUCK_AFTER).await.unwrap().stuck;
    assert_eq!(named.iter().map(|row| row.id).collect::<Vec<_>>(), [stuck]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_far_away_does_not_hide_that_a_saga_is_stuck() {
    let trace = Trace::default();
    let engine = engine_with(one_at_a_time(&trace)).await;
    start(&engine, "s").await;
    let run = engine.start("s", &()).deadline_in(secs(24 * 3600)).await.unwrap();
    tokio::time::sleep(secs(601)).await;
    let stuck = engine.health(STUCK_AFTER).await.unwrap().stuck;
    assert_eq!(stuck.iter().map(|row| row.id).collect::<Vec<_>>(), [run.id()]);
}

#[tokio::test(start_paused = true)]
async fn the_waiting_do_not_hide_the_stuck() {
    let trace = Trace::default();
    let busy = acting("a", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(100, secs(30)));
    let engine = engine_with(Saga::builder("busy").step(busy).build().unwrap()).await;
    engine.register(one_at_a_time(&trace)).unwrap();
    for _ in 0..150 {
        start(&engine, "busy").await;
    }
    start(&engine, "s").await;
    let stuck = start(&engine, "s").await.id();
    tokio::time::sleep(secs(1202)).await;
    let named = engine.health(STUCK_AFTER).await.unwrap().stuck;
    assert_eq!(named.iter().map(|row| row.id).collect::<Vec<_>>(), [stuck]);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_its_next_try_is_not_stuck() {
    let trace = Trace::default();
    let busy = acting("a", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(100, secs(30)));
    let engine = engine_with(Saga::builder("s").step(busy).build().unwrap()).await;
    start(&engine, "s").await;
    tokio::time::sleep(secs(1202)).await;
    let health = engine.health(STUCK_AFTER).await.unwrap();
    assert_eq!(health.active, BTreeMap::from([(Status::Running, 1)]));
    assert!(health.stuck.is_empty(), "{:?}", health.stuck);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_goes_on_or_whose_attempt_has_time_left_is_not_stuck() {
    let trace = Trace::default();
    let minutes = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];
    let minute = |id| {
        Step::new(id, async |_: Context<serde_json::Value>| -> StepResult<()> {
            tokio::time::sleep(secs(59)).await;
            Ok(())
        })
    };
    let steps = minutes.into_iter().fold(Saga::builder("long"), |saga, id| saga.step(minute(id)));
    let engine = engine_with(steps.build().unwrap()).await;
    let slow = Saga::builder("slow").step(hanging("a", &trace).timeout(secs(3600)));
    engine.register(slow.build().unwrap()).unwrap();
    let long = start(&engine, "long").await;
    start(&engine, "slow").await;
    for _ in 0..14 {
        tokio::time::sleep(secs(60)).await;
        let stuck = engine.health(STUCK_AFTER).await.unwrap().stuck;
        assert!(stuck.is_empty(), "{stuck:?}");
    }
    assert_eq!(engine.load(long.id()).await.unwrap().unwrap().status, Status::Running);
    assert!(long.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_a_place_in_this_process_is_stuck_when_that_takes_long() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let hangs = Saga::builder("s").step(hanging("a", &trace).timeout(secs(7200)));
    let engine = bench.open_with(hangs.build().unwrap()).await;
    start(&engine, "s").await;
    let waits = start(&engine, "s").await.id();
    tokio::time::sleep(secs(601)).await;
    let stuck = engine.stuck(STUCK_AFTER).await.unwrap();
    assert_eq!(stuck.iter().map(|row| row.id).collect::<Vec<_>>(), [waits]);
}

async fn named(engine: &Engine) -> Vec<SagaId> {
    engine.stuck(STUCK_AFTER).await.unwrap().iter().map(|row| row.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_slept_for_long_is_not_stuck_before_it_has_waited_for_a_place_for_long() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let hangs = Saga::builder("s").step(hanging("a", &trace).timeout(secs(7200)));
    let engine = bench.open_with(hangs.build().unwrap()).await;
    let busy = acting("b", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(2, secs(3600)));
    engine.register(Saga::builder("busy").step(busy).build().unwrap()).unwrap();
    let sleeps = start(&engine, "busy").await.id();
    eventually("it is let go", async || engine.active() == 0).await;
    start(&engine, "s").await;
    tokio::time::sleep(secs(3610)).await;
    assert!(bench.store.rows(&[sleeps]).await.unwrap()[0].owner.is_some(), "it waits for room");
    assert_eq!(named(&engine).await, [], "it has come due ten seconds ago");
    tokio::time::sleep(secs(601)).await;
    assert_eq!(named(&engine).await, [sleeps]);
}

#[tokio::test(start_paused = true)]
async fn what_has_been_stuck_for_longest_is_named_first_and_not_what_has_slept_for_longest() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench.open_with(one_at_a_time(&trace)).await;
    let busy = acting("b", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(2, secs(3600)));
    engine.register(Saga::builder("busy").step(busy).build().unwrap()).unwrap();
    let sleeps = start(&engine, "busy").await.id();
    eventually("it is let go", async || engine.active() == 0).await;
    start(&engine, "s").await;
    let waits = start(&engine, "s").await.id();
    tokio::time::sleep(secs(3600 + 700)).await;
    assert_eq!(named(&engine).await, [waits, sleeps]);
}

/// Calls of compensations count against this limit.
struct Limited(Calls, Limit);

#[async_trait]
impl Caller for Limited {
    async fn call(&self, call: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError> {
        self.0.call(call, attempt).await
    }

    fn limit(&self, _: &Payload, phase: Phase) -> Option<Limit> {
        (phase == Phase::Undo).then(|| self.1.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_that_waited_for_room_has_all_of_its_time() {
    let calls = Calls::answering(|call, _| match call {
        "do no" => Err(StepError::refused("no")),
        _ => Ok(serde_json::Value::Null),
    });
    let limit = Limit::new(LimitScope::Host("a:80".into()), 1);
    let caller = Arc::new(Limited(calls.clone(), limit.clone()));
    let bench = Bench::with(|options| options.caller = Some(caller));
    let engine = bench.open().await;
    let mut hangs = calling("a");
    let undo = hangs.compensate.as_mut().unwrap();
    undo.action = Performer::Call(Payload::encode("undo hangs").unwrap());
    undo.timeout = secs(3600);
    put(&engine, written("s", [hangs, calling("no")])).await;
    let held = limit.try_acquire().unwrap();
    let saga = start(&engine, "s").await.id();
    tokio::time::sleep(secs(3590)).await;
    assert_eq!(named(&engine).await, [saga], "it waits for the host");
    assert_eq!(engine.full_limits()[0].waiting, 1);
    assert_eq!(calls.trace.count("undo hangs"), 0);
    drop(held);
    tokio::time::sleep(secs(1800)).await;
    assert_eq!(calls.trace.count("undo hangs"), 1);
    assert_eq!(named(&engine).await, [], "it has begun half an hour ago and has an hour");
    assert!(engine.load(saga).await.unwrap().unwrap().status == Status::Compensating);
}

#[tokio::test(start_paused = true)]
async fn what_a_former_life_left_is_not_stuck_before_this_one_has_had_it_for_long() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let hangs = || Saga::builder("s").step(hanging("a", &trace).timeout(secs(7200))).build().unwrap();
    let engine = bench.open_with(hangs()).await;
    for _ in 0..2 {
        start(&engine, "s").await;
    }
    drop(engine);
    tokio::time::sleep(secs(3600)).await;
    let engine = bench.open().await;
    assert_eq!(named(&engine).await, [], "nobody has had time to take them up");
    engine.register(hangs()).unwrap();
    tokio::time::sleep(secs(30)).await;
    assert_eq!(named(&engine).await, [], "they have been here for half a minute");
    tokio::time::sleep(secs(601)).await;
    assert_eq!(named(&engine).await.len(), 1, "one of them has waited for room for long");
}

/// Counts the logs that are read.
#[derive(Default)]
pub(crate) struct Reader(pub(crate) AtomicUsize);

#[async_trait]
impl Watch for Reader {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        if let Moment::BeforeLoad(sagas) = moment {
            self.0.fetch_add(sagas.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn looking_for_what_is_stuck_reads_no_logs_however_many_wait() {
    let trace = Trace::default();
    let bench = Bench::new();
    let store = Arc::new(Watched::new(bench.store.clone(), Reader::default()));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    let busy = acting("a", &trace, |_| Err(StepError::not_done("busy"))).retry(Retry::fixed(500, secs(30)));
    engine.register(Saga::builder("busy").step(busy).build().unwrap()).unwrap();
    engine.register(one_at_a_time(&trace)).unwrap();
    for _ in 0..200 {
        start(&engine, "busy").await;
    }
    for _ in 0..3 {
        start(&engine, "s").await;
    }
    tokio::time::sleep(secs(3600)).await;
    let read = store.0.load(Ordering::Relaxed);
    assert_eq!(engine.health(STUCK_AFTER).await.unwrap().stuck.len(), 2);
    assert_eq!(store.0.load(Ordering::Relaxed) - read, 0, "logs were read");
}
