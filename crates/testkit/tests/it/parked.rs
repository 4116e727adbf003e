//! Rejected items are parked, and the rest of their batches continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::clock::{Clock as _, SystemClock};
use backstitch::retention::Retention;
use backstitch::store::nodes::{Known, Node};
use backstitch::store::parked::{self, ParkedFilter, ParkedItem};
use backstitch::{Announced, Context, Engine, Options, Saga, SagaId, Step};
use backstitch_testkit::obstacle::IN_THE_WAY;
use backstitch_testkit::shelf::Shelf;
use backstitch_testkit::{PATIENCE, reopen};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::pruning::stage::{Place, eventually, options, purchase, soon, soon_onto};

/// As after a crash before the item was parked.
const FORGET: &str = "delete from parked_items";

/// Waits until this item is the only parked one.
async fn is_parked(engine: &Engine, area: &str, item: &str) -> ParkedItem {
    let parked = async || engine.store().parked(Some(area), 10).await.unwrap();
    eventually("it is parked", async || !parked().await.is_empty()).await;
    let mut all = parked().await;
    assert_eq!(all.len(), 1, "{all:?}");
    let parked = all.remove(0);
    assert_eq!((&*parked.area, &*parked.item), (area, item));
    assert!(parked.reason.contains(IN_THE_WAY), "{parked:?}");
    parked
}

async fn buy(engine: &Engine) {
    engine.start("purchase", &json!({})).await.unwrap().outcome().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_end_of_a_send_is_parked_and_others_go_on() {
    for place in Place::each().await {
        let options = Options { send_timeout: Duration::from_secs(1), ..options(Retention::default()) };
        let engine = Engine::open_with(&place.address(), options).await.unwrap();
        engine.register(purchase()).unwrap();
        place.obstruct("outbox", "update", "new.id = 1 and new.status <> 'sending'").await;
        for _ in 0..3 {
            buy(&engine).await;
        }
        let sent = "select count(*) from outbox where status = 'succeeded'";
        eventually("the others are sent", async || place.number(sent).await == 2).await;
        let parked = is_parked(&engine, parked::OUTBOX, "1").await;
        assert_eq!((parked.attempts, parked.retry_at), (1, parked.parked_at.plus(Duration::from_secs(60))));

        // As after a crash before it was parked: its sender is gone, and returning it is rejected too.
        place.execute(FORGET).await;
        place.execute("update outbox set leased_until = created_at where id = 1").await;
        is_parked(&engine, parked::OUTBOX, "1").await;
        buy(&engine).await;
        eventually("others are sent", async || place.number(sent).await == 3).await;

        place.clear("outbox").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        eventually("it is sent once nothing is in its way", async || place.number(sent).await == 4).await;
        assert!(engine.store().parked(None, 10).await.unwrap().is_empty());
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_of_a_message_is_parked_and_others_go_on() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        place.obstruct("outbox", "update", "new.id = 1").await;
        for _ in 0..3 {
            buy(&engine).await;
        }
        let sent = "select count(*) from outbox where status = 'succeeded'";
        eventually("the others are sent", async || place.number(sent).await == 2).await;
        is_parked(&engine, parked::OUTBOX, "1").await;
        let waiting = engine.store().waiting_topics().await.unwrap();
        assert_eq!(waiting, [], "it is not due before its time");
        place.clear("outbox").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        eventually("it is sent once nothing is in its way", async || place.number(sent).await == 3).await;
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_end_of_a_hook_is_parked_and_others_go_on() {
    for place in Place::each().await {
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let saga = Saga::builder("hooked").step(Step::new("a", |_: Context<Value>| async { Ok(()) }));
        let saga = saga.on_success(move |_| {
            called.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        });
        let engine = Engine::open_with(&place.address(), options(Retention::default())).await.unwrap();
        engine.register(saga.build().unwrap()).unwrap();
        place.obstruct("jobs", "update", "new.id = 1 and new.status <> 'Leased'").await;
        let run = async || engine.start("hooked", &()).await.unwrap().outcome().await.unwrap();
        let called = "select count(*) from jobs where status = 'Completed'";
        run().await;
        is_parked(&engine, parked::JOBS, "1").await;
        run().await;
        eventually("another hook is called", async || place.number(called).await == 1).await;

        // As after a crash before it was parked: its lease has expired, and requeueing it is rejected too.
        place.execute(FORGET).await;
        place.execute("update jobs set until = created_at where id = 1").await;
        is_parked(&engine, parked::JOBS, "1").await;
        run().await;
        eventually("another hook is called", async || place.number(called).await == 2).await;
        assert_eq!(calls.load(Ordering::SeqCst), 3, "a parked hook is not called again");

        place.clear("jobs").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        let over = async || place.number(called).await == 3;
        eventually("it is called again once nothing is in its way", over).await;
        assert_eq!(calls.load(Ordering::SeqCst), 4);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_result_of_a_step_is_kept_and_others_go_on() {
    for place in Place::each().await {
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let pay = Step::new("pay", move |_: Context<Value>| {
            called.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        });
        let engine = Engine::open_with(&place.address(), options(Retention::default())).await.unwrap();
        engine.register(Saga::builder("paying").step(pay).build().unwrap()).unwrap();
        engine.register(purchase()).unwrap();
        place.obstruct("saga_events", "insert", "new.type = 'step.succeeded' and new.step = 'pay'").await;
        let run = engine.start("paying", &()).await.unwrap();
        eventually("the saga is stalled", async || !engine.stalled().is_empty()).await;
        let stalled = engine.stalled().remove(0);
        assert_eq!(stalled.saga, run.id());
        assert!(stalled.why.contains(IN_THE_WAY), "{stalled:?}");
        buy(&engine).await;
        place.clear("saga_events").await;
        let ended = timeout(PATIENCE, run.outcome()).await.unwrap().unwrap();
        assert!(ended.succeeded(), "{:?}", ended.error);
        assert_eq!((calls.load(Ordering::SeqCst), engine.stalled()), (1, Vec::new()));
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_lease_of_a_job_is_parked_and_others_go_on() {
    for place in Place::each().await {
        let saga = Saga::builder("hooked").step(Step::new("a", |_: Context<Value>| async { Ok(()) }));
        let saga = saga.on_success(|_| async { Ok(()) });
        let engine = Engine::open_with(&place.address(), options(Retention::default())).await.unwrap();
        engine.register(saga.build().unwrap()).unwrap();
        place.obstruct("jobs", "update", "new.id = 1").await;
        for _ in 0..3 {
            engine.start("hooked", &()).await.unwrap().outcome().await.unwrap();
        }
        let called = "select count(*) from jobs where status = 'Completed'";
        eventually("the others are called", async || place.number(called).await == 2).await;
        is_parked(&engine, parked::JOBS, "1").await;
        place.clear("jobs").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        let over = async || place.number(called).await == 3;
        eventually("it is called once nothing is in its way", over).await;
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_removal_is_parked_and_others_are_removed() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let run = engine.start("purchase", &json!({})).await.unwrap();
        let first = run.id();
        run.outcome().await.unwrap();
        for _ in 0..2 {
            buy(&engine).await;
        }
        let sent = "select count(*) from outbox where status = 'succeeded'";
        eventually("all are sent", async || place.number(sent).await == 3).await;
        engine.shutdown().await.unwrap();
        let is_first = format!("old.id = {}", place.literal(first));
        place.obstruct("sagas", "delete", &is_first).await;
        place.obstruct("outbox", "delete", "old.id = 2").await;

        let engine = place.open(soon()).await;
        let sagas = "select count(*) from sagas";
        eventually("the other sagas are removed", async || place.number(sagas).await == 1).await;
        let third = "select count(*) from outbox where id = 3";
        eventually("another message is removed", async || place.number(third).await == 0).await;
        is_parked(&engine, parked::SAGA_RETENTION, &first.to_string()).await;
        is_parked(&engine, parked::MESSAGE_RETENTION, "2").await;

        place.clear("sagas").await;
        place.clear("outbox").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        eventually("it is removed once nothing is in its way", async || {
            place.number(sagas).await == 0 && place.number("select count(*) from outbox").await == 0
        })
        .await;
        engine.shutdown().await.unwrap();
    }
}

/// A saga with a step that waits for the gate.
fn gated(gate: &Arc<Semaphore>) -> Saga {
    let gate = gate.clone();
    let step = Step::new("a", move |_: Context<Value>| {
        let gate = gate.clone();
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    Saga::builder("gated").step(step.timeout(Duration::from_secs(3600))).build().unwrap()
}

/// Starts this many sagas that wait for the gate, then stops the process as in a crash.
async fn orphan(place: &Place, options: Options, gate: &Arc<Semaphore>, count: usize) -> Vec<SagaId> {
    let engine = Engine::open_with(&place.address(), options).await.unwrap();
    engine.register(gated(gate)).unwrap();
    let started = (0..count).map(|_| async { engine.start("gated", &()).await.unwrap().id() });
    let sagas = join_all(started).await;
    let store = Arc::downgrade(engine.store());
    drop(engine);
    while store.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    place.execute("delete from nodes").await;
    sagas
}

async fn rejected_adoption_keeps_no_other_from_being_taken_over(place: &Place, announced: Announced) {
    let is_announced = announced.includes("saga.adopted");
    let options = || Options { announced: announced.clone(), ..options(Retention::default()) };
    let gate = Arc::new(Semaphore::new(0));
    let mut sagas = orphan(place, options(), &gate, 5).await;
    let rejected = sagas.remove(2);
    place.obstruct("sagas", "update", &format!("new.id = {}", place.literal(rejected))).await;

    let engine = reopen(async || Engine::open_with(&place.address(), options()).await).await;
    engine.register(gated(&gate)).unwrap();
    gate.add_permits(5);
    let end = async |saga| engine.find(saga).await.unwrap().outcome().await.unwrap();
    for saga in sagas {
        assert!(timeout(PATIENCE, end(saga)).await.unwrap().succeeded());
    }
    is_parked(&engine, parked::ADOPTION, &rejected.to_string()).await;
    assert_eq!(engine.log(rejected, 0, 10).await.unwrap().len(), 2, "nothing was appended");

    place.clear("sagas").await;
    engine.retry_parked(&ParkedFilter::default()).await.unwrap();
    if is_announced {
        engine.look_for_work();
    }
    assert!(timeout(PATIENCE, end(rejected)).await.unwrap().succeeded());
    let told = "select count(*) from outbox where topic = 'backstitch.sagas'";
    assert_eq!(place.number(told).await, if is_announced { 5 } else { 0 });
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_adoption_is_parked_and_others_succeed() {
    for announced in [Announced::default(), Announced::matching(["saga.adopted"]).unwrap()] {
        for place in Place::each().await {
            rejected_adoption_keeps_no_other_from_being_taken_over(&place, announced.clone()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_parked_a_saga_says_that_more_may_wait() {
    for place in Place::each().await {
        let gate = Arc::new(Semaphore::new(0));
        let mut sagas = orphan(&place, options(Retention::default()), &gate, 5).await;
        sagas.sort_unstable();
        place.obstruct("sagas", "update", &format!("new.id = {}", place.literal(sagas[0]))).await;
        // It has no definition, so it adopts nothing by itself.
        let engine =
            reopen(async || Engine::open_with(&place.address(), options(Retention::default())).await).await;
        let store = engine.store();
        let node = Node { name: "heir".to_owned(), lease: PATIENCE, announced: Announced::default() };
        let epoch = store.join(&node).await.unwrap();
        let known = [Known { name: "gated".into(), version: 1 }];
        let mut adopted = Vec::new();
        let mut batches = 0;
        loop {
            let batch = store.adopt(&node, epoch, &known, SystemClock.now(), 3).await.unwrap();
            adopted.extend(batch.sagas.iter().map(|saga| saga.id));
            batches += 1;
            if !batch.more {
                break;
            }
            assert!(batches < 10, "{adopted:?}");
        }
        adopted.sort_unstable();
        assert_eq!(adopted, sagas[1..]);
        is_parked(&engine, parked::ADOPTION, &sagas[0].to_string()).await;
        engine.shutdown().await.unwrap();
    }
}

/// On SQLite, where rows are read before they are written.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_saga_is_parked_and_others_are_adopted() {
    let place = Place::sqlite();
    let gate = Arc::new(Semaphore::new(0));
    let mut sagas = orphan(&place, options(Retention::default()), &gate, 5).await;
    let (bad_log, bad_id) = (sagas.remove(1), sagas.remove(1));
    let unchecked = "pragma ignore_check_constraints = on; update";
    let negative =
        format!("{unchecked} saga_events set seq = -seq where saga_id = {}", place.literal(bad_log));
    place.scribble("saga_events", &negative).await;
    let cut = format!("{unchecked} sagas set id = substr(id, 1, 15) where id = {}", place.literal(bad_id));
    place.scribble("sagas", &cut).await;

    let engine =
        reopen(async || Engine::open_with(&place.address(), options(Retention::default())).await).await;
    engine.register(gated(&gate)).unwrap();
    gate.add_permits(5);
    for saga in sagas {
        let end = async { engine.find(saga).await.unwrap().outcome().await.unwrap() };
        assert!(timeout(PATIENCE, end).await.expect("a bad row holds up no other").succeeded());
    }
    let mut parked = engine.store().parked(Some(parked::ADOPTION), 10).await.unwrap();
    parked.sort_by_key(|parked| parked.item.len());
    let [by_bytes, by_id] = &parked[..] else { panic!("{parked:?}") };
    assert_eq!(by_bytes.item, bad_id.0.simple().to_string()[..30]);
    assert!(by_bytes.reason.contains("sagas.id"), "{by_bytes:?}");
    assert_eq!(by_id.item, bad_log.to_string());
    assert!(by_id.reason.contains("saga_events.seq"), "{by_id:?}");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_removal_is_exported_once_each_time_it_is_tried() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let run = engine.start("purchase", &json!({})).await.unwrap();
        let first = run.id();
        run.outcome().await.unwrap();
        for _ in 0..4 {
            buy(&engine).await;
        }
        let sent = "select count(*) from outbox where status = 'succeeded'";
        eventually("all are sent", async || place.number(sent).await == 5).await;
        engine.shutdown().await.unwrap();
        place.obstruct("sagas", "delete", &format!("old.id = {}", place.literal(first))).await;
        place.obstruct("outbox", "delete", "old.id = 2").await;

        let shelf = Arc::new(Shelf::default());
        let engine = place.open(soon_onto(&shelf)).await;
        is_parked(&engine, parked::SAGA_RETENTION, &first.to_string()).await;
        is_parked(&engine, parked::MESSAGE_RETENTION, "2").await;
        // A whole scan skips parked items.
        let parked_until = engine.removed().last_run;
        eventually("another round is over", async || engine.removed().last_run > parked_until).await;
        let again = engine.removed().last_run;
        eventually("another round is over", async || engine.removed().last_run > again).await;
        let messages = || {
            let mut messages: Vec<i64> =
                shelf.of_kind("message").iter().map(|message| message["id"].as_i64().unwrap()).collect();
            messages.sort_unstable();
            messages
        };
        let sagas = shelf.sagas();
        assert_eq!((sagas.len(), sagas.values().max()), (5, Some(&1)), "{sagas:?}: {:?}", engine.removed());
        assert_eq!(messages(), [1, 2, 3, 4, 5]);

        place.clear("sagas").await;
        place.clear("outbox").await;
        engine.retry_parked(&ParkedFilter::default()).await.unwrap();
        eventually("they are removed once nothing is in the way", async || {
            place.number("select count(*) from sagas").await == 0
                && place.number("select count(*) from outbox").await == 0
        })
        .await;
        assert_eq!(shelf.sagas()[&first.to_string()], 2, "it was tried twice");
        assert_eq!(messages(), [1, 2, 2, 3, 4, 5]);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_items_are_listed_by_filter_and_page() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let store = engine.store();
        let rejection =
            |item: &str, reason: &str| parked::Rejection { item: item.into(), reason: reason.into() };
        store.park("outbox", &[rejection("10", "Duplicate key"), rejection("9", "check")]).await.unwrap();
        // Twice, so it waits longer.
        for _ in 0..2 {
            store
                .park("jobs", &[rejection("9", "duplicate key"), rejection("a:b/c", "check")])
                .await
                .unwrap();
        }
        let listed = async |filter: ParkedFilter, limit| {
            let found = store.list_parked(&filter, limit).await.unwrap();
            found.into_iter().map(|it| format!("{}:{}", it.area, it.item)).collect::<Vec<_>>()
        };
        let none = ParkedFilter::default;
        let all = ["jobs:9", "jobs:a:b/c", "outbox:10", "outbox:9"];
        assert_eq!(listed(none(), 10).await, all);
        assert_eq!(listed(ParkedFilter { area: Some("jobs".into()), ..none() }, 10).await, all[..2]);
        assert_eq!(listed(ParkedFilter { item: Some("9".into()), ..none() }, 10).await, [all[0], all[3]]);
        let reason = Some("DUPLICATE".into());
        assert_eq!(listed(ParkedFilter { reason, ..none() }, 10).await, [all[0], all[2]]);
        let first = store.list_parked(&none(), 1).await.unwrap().remove(0);
        let last =
            store.list_parked(&ParkedFilter { area: Some("outbox".into()), ..none() }, 1).await.unwrap();
        let since = Some(first.parked_at);
        assert_eq!(listed(ParkedFilter { since, ..none() }, 10).await, all[..2], "parked last");
        let retry_before = Some(last[0].retry_at.plus(Duration::from_secs(30)));
        assert_eq!(listed(ParkedFilter { retry_before, ..none() }, 10).await, all[2..]);
        let after = Some(("jobs".into(), "a:b/c".into()));
        assert_eq!(listed(ParkedFilter { after, ..none() }, 1).await, ["outbox:10"]);

        let retried = engine.retry_parked(&ParkedFilter::one("jobs", "9")).await.unwrap();
        assert_eq!((retried.len(), retried[0].attempts), (1, 2));
        assert_eq!(listed(none(), 10).await, all[1..], "it is parked no longer");
        let again = engine.retry_parked(&ParkedFilter::one("jobs", "9")).await.unwrap();
        assert_eq!(again, [], "what is parked no longer is not retried");
        assert_eq!(engine.retry_parked(&ParkedFilter::one("jobs", "7")).await.unwrap(), []);
        let reason = Some("DUPLICATE".into());
        let retried = engine.retry_parked(&ParkedFilter { reason, ..none() }).await.unwrap();
        assert_eq!((retried.len(), &*retried[0].item), (1, "10"), "the others have another reason");
        assert_eq!(engine.retry_parked(&ParkedFilter::of_area("outbox")).await.unwrap().len(), 1);
        assert_eq!(listed(none(), 10).await, ["jobs:a:b/c"]);
        assert_eq!(engine.retry_parked(&ParkedFilter::default()).await.unwrap().len(), 1);
        store.park("jobs", &[rejection("9", "again")]).await.unwrap();
        let parked = store.parked(None, 10).await.unwrap();
        assert_eq!((parked.len(), parked[0].attempts), (1, 3), "it is known how often it was rejected");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_parked_items_come_first() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let store = engine.store();
        for (area, item) in [("outbox", "1"), ("jobs", "2"), ("zones", "3"), ("zones", "3")] {
            let rejected = parked::Rejection { item: item.to_owned(), reason: "no".to_owned() };
            store.park(area, &[rejected]).await.unwrap();
        }
        let found = async |area, limit| {
            let found = store.parked(area, limit).await.unwrap();
            found.into_iter().map(|parked| parked.item).collect::<Vec<_>>()
        };
        assert_eq!(found(None, 10).await, ["3", "1", "2"], "what was rejected twice has waited longest");
        assert_eq!(found(None, 2).await, ["3", "1"]);
        assert_eq!(found(Some("jobs"), 10).await, ["2"]);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_is_parked_longer_each_time_and_up_to_an_hour() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let store = engine.store();
        let rejected = parked::Rejection { item: "7".to_owned(), reason: "no".to_owned() };
        for (attempts, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60)] {
            store.park("somewhere", std::slice::from_ref(&rejected)).await.unwrap();
            let parked = store.parked(Some("somewhere"), 10).await.unwrap();
            let waits = parked[0].retry_at.since(parked[0].parked_at);
            assert_eq!((parked[0].attempts, waits), (attempts, Duration::from_secs(minutes * 60)));
        }
        assert!(store.parked(Some("elsewhere"), 10).await.unwrap().is_empty());
        engine.shutdown().await.unwrap();
    }
}
