//! Finding sagas: lists, filters, pages, one in detail, and how they all are.

use std::collections::BTreeMap;

use backstitch::{
    Cursor, Engine, Filter, Retry, STUCK_AFTER, Saga, SagaId, Status, StepError, StepStatus, secs,
};

use crate::support::*;

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

#[tokio::test(start_paused = true)]
async fn health_counts_the_active_and_names_the_stuck() {
    let trace = Trace::default();
    let engine =
        engine_with(Saga::builder("s").step(hanging("a", &trace).timeout(secs(3600))).build().unwrap()).await;
    engine.register(Saga::builder("ok").step(noting("b", &trace)).build().unwrap()).unwrap();
    let stuck = start(&engine, "s").await.id();
    execute(&engine, "ok").await;
    let health = engine.health(STUCK_AFTER).await.unwrap();
    assert_eq!(health.active, BTreeMap::from([(Status::Running, 1)]));
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
    let saga = Saga::builder("s").step(hanging("a", &trace).timeout(secs(3600)));
    let engine = engine_with(saga.build().unwrap()).await;
    let run = engine.start("s", &()).deadline_in(secs(24 * 3600)).await.unwrap();
    tokio::time::sleep(secs(601)).await;
    let stuck = engine.health(STUCK_AFTER).await.unwrap().stuck;
    assert_eq!(stuck.iter().map(|row| row.id).collect::<Vec<_>>(), [run.id()]);
}

#[tokio::test(start_paused = true)]
async fn the_waiting_do_not_hide_the_stuck() {
    let trace = Trace::default();
    let busy = acting("a", &trace, |_| Err(StepError::failed("busy"))).retry(Retry::fixed(100, secs(30)));
    let engine = engine_with(Saga::builder("busy").step(busy).build().unwrap()).await;
    let hangs = hanging("a", &trace).timeout(secs(7200));
    engine.register(Saga::builder("hangs").step(hangs).build().unwrap()).unwrap();
    for _ in 0..150 {
        start(&engine, "busy").await;
    }
    let stuck = start(&engine, "hangs").await.id();
    tokio::time::sleep(secs(1202)).await;
    let named = engine.health(STUCK_AFTER).await.unwrap().stuck;
    assert_eq!(named.iter().map(|row| row.id).collect::<Vec<_>>(), [stuck]);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_its_next_try_is_not_stuck() {
    let trace = Trace::default();
    let busy = acting("a", &trace, |_| Err(StepError::failed("busy"))).retry(Retry::fixed(100, secs(30)));
    let engine = engine_with(Saga::builder("s").step(busy).build().unwrap()).await;
    start(&engine, "s").await;
    tokio::time::sleep(secs(1202)).await;
    let health = engine.health(STUCK_AFTER).await.unwrap();
    assert_eq!(health.active, BTreeMap::from([(Status::Running, 1)]));
    assert!(health.stuck.is_empty(), "{:?}", health.stuck);
}
