//! Monitoring.

use std::collections::BTreeMap;
use std::time::Duration;

use backstitch::{Cursor, Filter, STUCK_AFTER, Saga, Status, secs};

use crate::acceptance_seed_002::stage::{
    Trace, eventually, execute, hanging, noting, on_every_store, refusing, start,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_all_sagas_are_listed_with_status_and_time() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let engine = stage.engine(Saga::builder("good").step(noting("a", &trace)).build().unwrap()).await;
        engine.register(Saga::builder("bad").step(refusing("a", &trace)).build().unwrap()).unwrap();
        let (good, bad) = (execute(&engine, "good").await, execute(&engine, "bad").await);
        let page = engine.list(&Filter::default(), &Cursor { before: None, limit: 10 }).await.unwrap();
        let rows: Vec<_> = page.items.iter().map(|row| (row.id, row.status, row.updated_at)).collect();
        let expected =
            [(bad.id, Status::Compensated, bad.updated_at), (good.id, Status::Succeeded, good.updated_at)];
        assert_eq!(rows, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_one_saga_is_loaded_in_detail() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let ended = execute(&engine, "s").await;
        let state = engine.load(ended.id).await.unwrap().unwrap();
        assert_eq!(state, ended);
        let text = serde_json::to_string_pretty(&state).unwrap();
        for part in ["\"status\": \"compensated\"", "\"failed_step\": \"no\"", "\"code\": \"NOPE\""] {
            assert!(text.contains(part), "{text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_health_counts_active_and_stuck_sagas() {
    assert_eq!(STUCK_AFTER, secs(600));
    on_every_store(async |stage| {
        let trace = Trace::default();
        // The second one waits for the first, which has two hours, and nobody can say for how long.
        let one_at_a_time = hanging("a", &trace).timeout(secs(7200)).concurrency(1);
        // A shared store's clock is read with the lease, and the test moves this node's alone.
        let engine = stage.open_with(|options| options.lease = secs(24 * 3600)).await;
        engine.register(Saga::builder("s").step(one_at_a_time).build().unwrap()).unwrap();
        start(&engine, "s").await;
        trace.wait_for("do a").await;
        let waits = start(&engine, "s").await.id();
        let stuck = async |after| {
            let health = engine.health(after).await.unwrap();
            assert_eq!(health.active, BTreeMap::from([(Status::Pending, 1), (Status::Running, 1)]));
            health.stuck.iter().map(|row| row.id).collect::<Vec<_>>()
        };
        eventually("it waits", async || stuck(Duration::ZERO).await == [waits]).await;
        stage.clock.advance(secs(590));
        assert_eq!(stuck(STUCK_AFTER).await, []);
        stage.clock.advance(secs(20));
        assert_eq!(stuck(STUCK_AFTER).await, [waits]);
    })
    .await;
}
