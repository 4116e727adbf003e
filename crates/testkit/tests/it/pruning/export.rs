//! The export of deleted rows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use backstitch::clock::SystemClock;
use backstitch::kernel::saga::audit;
use backstitch::retention::Retention;
use backstitch::store::Error as StoreError;
use backstitch::store::outbox::{Listing, Status as MessageStatus};
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::{Engine, Options, SagaId};
use backstitch_testkit::shelf::Shelf;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::pruning::stage::{Place, all, eventually, log_of, options, purchase, soon, soon_onto};

async fn run(engine: &Engine, input: Value) -> SagaId {
    let run = engine.start("purchase", &input).await.unwrap();
    let id = run.id();
    run.outcome().await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_goes_is_exported_before_with_its_whole_log() {
    for place in Place::each().await {
        let shelf = Arc::new(Shelf::default());
        let engine = place.open(soon_onto(&shelf)).await;
        let start = engine.start("purchase", &json!({"wait_ms": 5, "note": "ünï\u{0}"}));
        let good = start.key("k-1").correlation_id("c-1").await.unwrap();
        good.clone().outcome().await.unwrap();
        let declined = run(&engine, json!({"declined": true})).await;
        eventually("all have gone", async || all(&engine).await.is_empty()).await;
        eventually("the messages, too", async || shelf.of_kind("message").len() == 2).await;

        assert_eq!(shelf.sagas().len(), 2);
        for line in shelf.of_kind("saga") {
            let log = log_of(&line);
            assert_eq!(audit(purchase().definition(), &log), [], "{line}");
            assert_eq!(line["version"], 1);
            if line["id"] == declined.to_string() {
                assert_eq!((&line["status"], &line["keys"]), (&json!("compensated"), &json!([])));
            } else {
                assert_eq!((&line["id"], &line["status"]), (&json!(good.id()), &json!("succeeded")));
                assert_eq!(line["keys"], json!([{"scope": "saga/purchase", "key": "k-1"}]));
                assert_eq!(line["correlation_id"], "c-1");
                assert_eq!(line["log"][0]["data"]["input"]["note"], "ünï\u{0}");
            }
        }
        let message = &shelf.of_kind("message")[0];
        assert_eq!((&message["topic"], &message["status"]), (&json!("stock"), &json!("succeeded")));
        assert_eq!(message["payload"], "one");
        eventually("both are counted, a moment after they are removed", async || {
            let report = engine.removed();
            (report.exported.get("sagas"), report.removed.get("sagas")) == (Some(&2), Some(&2))
        })
        .await;
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unexportable_row_is_kept_with_a_reason() {
    for place in Place::each().await {
        let shelf = Arc::new(Shelf::default());
        shelf.refuse(Some("the disk is full: make room there"));
        let engine = place.open(soon_onto(&shelf)).await;
        let ids = [run(&engine, json!({})).await, run(&engine, json!({})).await];
        eventually("it has been tried", async || engine.removed().failed >= 3).await;
        let report = engine.removed();
        assert!(report.held_up.as_ref().unwrap().contains("make room there"), "{report:?}");
        assert!(report.removed.is_empty() && report.exported.is_empty(), "{report:?}");
        assert!(all(&engine).await.into_keys().eq(ids));

        shelf.refuse(None);
        eventually("all have gone", async || all(&engine).await.is_empty()).await;
        eventually("nothing is in the way", async || engine.removed().held_up.is_none()).await;
        assert!(shelf.sagas().values().all(|count| *count == 1));
        engine.shutdown().await.unwrap();
    }
}

/// Crashes this many times between export and deletion.
struct Dying(AtomicUsize);

#[async_trait]
impl Watch for Dying {
    async fn at(&self, moment: Moment<'_>) -> Result<(), StoreError> {
        let dies = matches!(moment, Moment::BeforeRemoval(_))
            && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if dies { Err(StoreError::Unavailable("it has died".to_owned())) } else { Ok(()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_after_export_exports_again_and_loses_nothing() {
    let shelf = Arc::new(Shelf::default());
    let store = Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).unwrap());
    let dying = Arc::new(Watched::new(store, Dying(AtomicUsize::new(2))));
    let engine = Engine::on_store(dying, options(soon_onto(&shelf))).await.unwrap();
    engine.register(purchase()).unwrap();
    let id = run(&engine, json!({})).await;
    eventually("it is gone", async || all(&engine).await.is_empty()).await;
    assert_eq!(shelf.sagas()[&id.to_string()], 3, "each time it was to be removed");
    eventually("it is counted, a moment after it is removed", async || {
        engine.removed().removed.get("sagas") == Some(&1) && engine.removed().failed == 2
    })
    .await;
    engine.shutdown().await.unwrap();
}

/// Records how many sagas are deleted together.
#[derive(Default)]
struct Noting(Mutex<Vec<usize>>);

#[async_trait]
impl Watch for Noting {
    async fn at(&self, moment: Moment<'_>) -> Result<(), StoreError> {
        if let Moment::BeforeRemoval(sagas) = moment {
            self.0.lock().unwrap().push(sagas.len());
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_sagas_go_a_few_at_a_time() {
    let store = Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).unwrap());
    let noting = Arc::new(Watched::new(store, Noting::default()));
    let large = Options { max_payload: 4 << 20, ..options(Retention::default()) };
    let engine = Engine::on_store(noting.clone(), large.clone()).await.unwrap();
    engine.register(purchase()).unwrap();
    for _ in 0..6 {
        run(&engine, json!({ "note": "x".repeat(3 << 20) })).await;
    }
    engine.shutdown().await.unwrap();

    let shelf = Arc::new(Shelf::default());
    let removing = Options { retention: soon_onto(&shelf), ..large };
    let engine = Engine::on_store(noting.clone(), removing).await.unwrap();
    eventually("all have gone", async || all(&engine).await.is_empty()).await;
    let together = noting.0.lock().unwrap().clone();
    assert_eq!(together.iter().sum::<usize>(), 6);
    assert!(together.iter().all(|sagas| *sagas <= 2), "8 MiB at most go together: {together:?}");
    assert_eq!(shelf.sagas().len(), 6);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_saga_that_cannot_be_read_stays_and_keeps_nothing_else() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let bad = run(&engine, json!({})).await;
        let good = [run(&engine, json!({})).await, run(&engine, json!({"declined": true})).await];
        let sent = async || {
            let sent = Listing { status: Some(MessageStatus::Succeeded), ..Listing::default() };
            engine.messages(&sent, 10).await.unwrap().len()
        };
        eventually("the messages are out", async || sent().await == 3).await;
        engine.shutdown().await.unwrap();
        place.spoil(bad).await;

        let shelf = Arc::new(Shelf::default());
        let engine = place.open(soon_onto(&shelf)).await;
        eventually("the others are gone", async || all(&engine).await.into_keys().eq([bad])).await;
        eventually("the messages, too", async || {
            engine.messages(&Listing::default(), 10).await.unwrap().is_empty()
        })
        .await;
        let held_up = || engine.removed().held_up;
        eventually("it is told", async || held_up().is_some_and(|why| why.contains(&bad.to_string()))).await;
        assert!(good.iter().all(|id| shelf.sagas().contains_key(&id.to_string())));
        let told = engine.removed();
        eventually("it is tried again", async || engine.removed().failed > told.failed + 1).await;
        assert_eq!(engine.removed().last_run, told.last_run, "not everything that is old enough is gone");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_and_keys_delay_no_others() {
    // More than one batch, and the oldest of all.
    const BAD: usize = 120;
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        for (kind, count) in [("bad", BAD), ("lost", BAD), ("good", 3)] {
            let publish = |nth| {
                let engine = &engine;
                async move { engine.publish("orders", &format!("{kind}-{nth}"), &nth).await.unwrap() }
            };
            join_all((0..count).map(publish)).await;
        }
        let sent = Listing { status: Some(MessageStatus::Succeeded), ..Listing::default() };
        let all_out = async || engine.messages(&sent, 1000).await.unwrap().len() == 2 * BAD + 3;
        eventually("all are out", all_out).await;
        engine.shutdown().await.unwrap();
        place
            .scribble(
                "outbox",
                "update outbox set payload = '{' where idempotency_key like 'bad-%';
                 delete from outbox where idempotency_key like 'lost-%'",
            )
            .await;
        place
            .scribble(
                "idempotency_ledger",
                "update idempotency_ledger set result = '{' where key like 'lost-%'",
            )
            .await;

        let shelf = Arc::new(Shelf::default());
        let engine = place.open(soon_onto(&shelf)).await;
        let removed = |kind| engine.removed().removed.get(kind).copied();
        eventually("the other messages are gone", async || removed("messages") == Some(3)).await;
        eventually("so are their keys", async || removed("keys") == Some(3)).await;
        let kept = engine.messages(&Listing::default(), 1000).await.unwrap_err().to_string();
        assert!(kept.contains("outbox.payload"), "{kept}");
        let good: Vec<Value> = shelf.of_kind("key").into_iter().map(|key| key["key"].clone()).collect();
        assert_eq!(good, ["good-0", "good-1", "good-2"]);
        let told = engine.removed();
        eventually("they are tried again", async || engine.removed().failed > told.failed + 1).await;
        assert!(engine.removed().held_up.unwrap().contains("message "), "{told:?}");
        assert_eq!((removed("messages"), removed("keys")), (Some(3), Some(3)));
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_saga_is_deleted_without_an_export() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let start = engine.start("purchase", &json!({})).attribute("shop", "north");
        let run = start.await.unwrap();
        let bad = run.id();
        run.outcome().await.unwrap();
        engine.shutdown().await.unwrap();
        place.spoil(bad).await;

        let engine = place.open(soon()).await;
        eventually("it is gone", async || all(&engine).await.is_empty()).await;
        assert_eq!(place.number("select count(*) from saga_attributes").await, 0);
        assert_eq!(engine.removed().failed, 0, "{:?}", engine.removed());
        engine.shutdown().await.unwrap();
    }
}

/// Only the node with the turn reports what prevents deletion.
#[tokio::test(flavor = "multi_thread")]
async fn node_without_the_turn_reports_no_hold_up() {
    let place = Place::postgres().await;
    let shelf = Arc::new(Shelf::default());
    shelf.refuse(Some("the disk is full: make room there"));
    let engine = place.open(soon_onto(&shelf)).await;
    run(&engine, json!({})).await;
    eventually("it is held up", async || engine.removed().held_up.is_some()).await;
    place.scribble("turns", "update turns set holder = 'another', until = now() + interval '1 hour'").await;
    eventually("it has nothing to tell", async || engine.removed().held_up.is_none()).await;
    assert_eq!(all(&engine).await.len(), 1);
    engine.shutdown().await.unwrap();
}
