//! What is deleted, and what stays.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::SystemClock;
use backstitch::outbox;
use backstitch::retention::Retention;
use backstitch::store::Store;
use backstitch::store::sqlite::SqliteStore;
use backstitch::{Engine, Error, Options, SagaId, Status};
use backstitch_testkit::conformance::make::{apply, ended, saga, started};
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;

use crate::pruning::stage::{A_MOMENT, GATE, Place, all, audit_all, eventually, soon};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deleted_by_default() {
    for place in Place::each().await {
        let engine = place.open(Retention::default()).await;
        let run = engine.start("purchase", &json!({})).key("k").await.unwrap();
        run.outcome().await.unwrap();
        engine.shutdown().await.unwrap();
        // A later reader finds everything, whatever the ages of other kinds.
        let engine = place.open(Retention::default()).await;
        assert_eq!(all(&engine).await.len(), 1);
        assert_eq!(engine.removed(), backstitch::retention::Report::default());
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sagas_are_deleted_and_active_ones_stay() {
    for place in Place::each().await {
        let engine = place.open(soon()).await;
        let start = async |input| engine.start("purchase", &input).await.unwrap();
        let failed = start(json!({"declined": true, "stuck": true})).await;
        assert_eq!(failed.clone().outcome().await.unwrap().status, Status::Failed);
        let paused = start(json!({"wait_ms": 3_000})).await;
        engine.pause(paused.id(), "later").await.unwrap();
        eventually("it is paused", async || engine.load(paused.id()).await.unwrap().unwrap().paused).await;
        let live = start(json!({"wait_ms": 3_600_000})).await;
        let declined = start(json!({"declined": true})).await;
        let good = start(json!({})).await;
        let kept = [failed.id(), paused.id(), live.id()];
        eventually("what ended is gone", async || {
            let left: Vec<SagaId> = all(&engine).await.into_keys().collect();
            left == kept
        })
        .await;
        for gone in [good.id(), declined.id()] {
            assert!(engine.load(gone).await.unwrap().is_none());
            assert!(matches!(engine.find(gone).await, Err(Error::NotFound(_))));
            assert!(matches!(engine.log(gone, 0, 10).await, Err(Error::NotFound(_))));
            assert!(matches!(engine.cancel(gone, "late").await, Err(Error::NotFound(_))));
        }
        eventually("messages and their keys are gone, and sagas are counted", async || {
            let removed = engine.removed().removed;
            removed.contains_key("messages")
                && removed.get("sagas") == Some(&2)
                && removed.get("saga_events").is_some_and(|count| *count >= 10)
        })
        .await;
        eventually("a round is over", async || engine.removed().last_run.is_some()).await;
        audit_all(&engine).await;
        assert_eq!(all(&engine).await.len(), 3);
        engine.resume(paused.id(), "now").await.unwrap();
        eventually("it goes too once it has ended", async || all(&engine).await.len() == 2).await;
        engine.shutdown().await.unwrap();
    }
}

/// No active saga is lost, delayed for good, or read in part.
#[tokio::test(flavor = "multi_thread")]
async fn sagas_run_on_while_others_are_removed_beside_them() {
    for place in Place::each().await {
        let engine = place.open(soon()).await;
        let mut started = 0;
        for round in 0..6_u64 {
            let inputs = (0..50_u64).map(|nth| match nth % 3 {
                0 => json!({}),
                1 => json!({"declined": true}),
                _ => json!({"wait_ms": nth * round / 2}),
            });
            let runs = inputs.map(|input| {
                let engine = engine.clone();
                async move {
                    let run = engine.start("purchase", &input).await.unwrap();
                    let expected = if input["declined"].is_null() { "succeeded" } else { "compensated" };
                    // The waiter sees the end, even if the saga is deleted right afterwards.
                    assert_eq!(run.outcome().await.unwrap().status.as_str(), expected);
                }
            });
            started += join_all(runs).await.len();
            audit_all(&engine).await;
        }
        eventually("all have gone", async || all(&engine).await.is_empty()).await;
        // A batch is counted a moment after its commit.
        let counted = async || engine.removed().removed.get("sagas") == Some(&(started as u64));
        eventually("each is counted once", counted).await;
        assert_eq!(engine.removed().failed, 0);
        engine.shutdown().await.unwrap();
    }
}

/// A follower of a deleted saga has seen its end, and the stream ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_saga_that_goes_ends() {
    for place in Place::each().await {
        let engine = place.open(soon()).await;
        let run = engine.start("purchase", &json!({"gated": true})).await.unwrap();
        let mut events = Box::pin(run.events());
        assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
        GATE.add_permits(1);
        let rest: Vec<_> = events.collect().await;
        let last = rest.last().unwrap().as_ref().unwrap();
        assert_eq!(last.event.name(), "saga.succeeded");
        eventually("it is gone", async || all(&engine).await.is_empty()).await;
        assert!(matches!(engine.find(run.id()).await, Err(Error::NotFound(_))));
        engine.shutdown().await.unwrap();
    }
}

/// A watcher of another process's saga, which ends and is deleted between two polls, is informed.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_learns_of_a_saga_deleted_by_another_node() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).unwrap());
    let engine = Engine::on_store(store.clone(), Options::default()).await.unwrap();
    let (id, now) = (saga(1), engine.clock().now());
    apply(&*store, started(id, now)).await;
    let mut events = Box::pin(engine.find(id).await.unwrap().events());
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    let waits = tokio::spawn(async move { events.collect::<Vec<_>>().await });
    tokio::task::yield_now().await;
    apply(&*store, ended(id, 2, now)).await;
    eventually("it is old enough", async || {
        store.remove_sagas(&[id], Status::Succeeded, Duration::ZERO).await.unwrap().sagas == 1
    })
    .await;
    let rest =
        tokio::time::timeout(backstitch_testkit::PATIENCE, waits).await.expect("it never ends").unwrap();
    match rest.last() {
        Some(Ok(last)) => assert_eq!(last.seq, 2, "it was quick enough to see the end"),
        Some(Err(gone)) => assert!(matches!(gone, Error::NotFound(_)), "{gone}"),
        None => panic!("it ended without a word"),
    }
}

/// A key of a start is known as long as its saga exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_start_is_a_new_one_once_its_saga_is_gone() {
    for place in Place::each().await {
        let engine = place.open(soon()).await;
        let start = async || engine.start("purchase", &json!({"gated": true})).key("k").await.unwrap().id();
        let first = start().await;
        assert_eq!(start().await, first);
        GATE.add_permits(1);
        eventually("it is gone", async || all(&engine).await.is_empty()).await;
        let second = start().await;
        assert_ne!(second, first);
        assert_eq!(start().await, second);
        GATE.add_permits(1);
        engine.shutdown().await.unwrap();
    }
}

/// Of several nodes one deletes at a time, and another one continues when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn of_several_nodes_one_removes_at_a_time() {
    let place = Place::postgres().await;
    let engines = [place.open(soon()).await, place.open(soon()).await, place.open(soon()).await];
    let runs = (0..60).map(|nth| {
        let engine = engines[nth % 3].clone();
        async move { engine.start("purchase", &json!({})).await.unwrap().outcome().await.unwrap() }
    });
    join_all(runs).await;
    eventually("all have gone", async || all(&engines[0]).await.is_empty()).await;
    let removed =
        || engines.each_ref().map(|engine| engine.removed().removed.get("sagas").copied().unwrap_or(0));
    eventually("each is counted once", async || removed().iter().sum::<u64>() == 60).await;
    let removed = removed();
    assert_eq!(removed.iter().filter(|count| **count > 0).count(), 1, "{removed:?}");
    let store = engines[0].store();
    let held = store.take_turn("somebody else", Duration::from_secs(1)).await.unwrap();
    assert!(!held, "nobody takes the turn of a node that is there");
    for engine in engines {
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn turn_is_exclusive_until_it_expires() {
    use backstitch_testkit::conformance::{Fixture as _, PostgresFixture};
    let fixture = PostgresFixture::open().await;
    let store = fixture.store();
    let minute = Duration::from_secs(60);
    assert!(store.take_turn("a", minute).await.unwrap());
    assert!(!store.take_turn("b", minute).await.unwrap());
    fixture.advance(minute / 2).await;
    assert!(store.take_turn("a", minute).await.unwrap());
    fixture.advance(minute / 2).await;
    assert!(!store.take_turn("b", minute).await.unwrap());
    fixture.advance(minute / 2).await;
    assert!(store.take_turn("b", minute).await.unwrap());
    assert!(!store.take_turn("a", minute).await.unwrap());
}

#[tokio::test]
async fn a_time_of_nothing_is_refused() {
    let mut retention = Retention::default();
    retention.sagas.succeeded = Some(Duration::ZERO);
    retention.messages.sent = A_MOMENT;
    retention.messages.keys = Some(Duration::from_millis(1));
    let refused = refusal(retention).await.unwrap();
    assert!(refused.contains("retention.sagas.succeeded must be longer than nothing"), "{refused}");
    assert!(refused.contains("retention.messages.keys needs retention.messages.sent"), "{refused}");
}

/// The error for invalid retention options.
async fn refusal(retention: Retention) -> Option<String> {
    let options = Options { retention, ..Options::default() };
    Engine::in_memory_with(options).await.err().map(|why| why.to_string())
}

#[tokio::test]
async fn keys_go_only_where_messages_of_both_kinds_go_before_them() {
    let hour = |hours: u64| Some(Duration::from_secs(hours * 3600));
    for (sent, aborted, keys, is_refused) in [
        (None, None, hour(2), true),
        (hour(1), None, hour(2), true),
        (None, hour(1), hour(2), true),
        (hour(3), hour(1), hour(2), true),
        (hour(1), hour(3), hour(2), true),
        (hour(2), hour(1), hour(2), false),
        (hour(3), None, None, false),
    ] {
        let messages = outbox::Retention { sent, aborted, keys, besides: None };
        let retention = Retention { messages, ..Retention::default() };
        let refused = refusal(retention).await;
        assert_eq!(refused.is_some(), is_refused, "{sent:?} {aborted:?} {keys:?}: {refused:?}");
    }
}
