//! A database that accepts heartbeats and no decisions.

use std::time::Duration;

use backstitch::{Context, Cursor, Engine, Error, Filter, Options, Saga, Step, StepResult};
use tokio::time::{Instant, sleep};

use crate::postgres_store::support::{SOON, fresh_store, session};

async fn nothing(_: Context<()>) -> StepResult<()> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_writes_only_heartbeats_is_not_writable() {
    let (store, address) = fresh_store().await;
    // Many heartbeats per second.
    let options = Options { lease: Duration::from_secs(1), ..Options::default() };
    let engine = Engine::on_store(store, options).await.unwrap();
    engine.register(Saga::builder("s").step(Step::new("a", nothing)).build().unwrap()).unwrap();
    engine.start("s", &()).await.unwrap().outcome().await.unwrap();
    let beside = session(&address).await;
    beside.batch_execute("alter table backstitch.saga_events rename to lost").await.unwrap();
    assert!(engine.start("s", &()).await.is_err());
    // Long enough for heartbeats and a write probe.
    for _ in 0..8 {
        sleep(Duration::from_millis(500)).await;
        let told = engine.writable().await;
        assert!(matches!(told, Err(Error::Store(_))), "{told:?}");
    }

    beside.batch_execute("alter table backstitch.lost rename to saga_events").await.unwrap();
    let begun = Instant::now();
    while let Err(why) = engine.writable().await {
        assert!(begun.elapsed() < SOON, "it never says that it can be written to again: {why}");
        sleep(Duration::from_millis(50)).await;
    }
    let all = engine.list(&Filter::default(), &Cursor { before: None, limit: 10 }).await.unwrap();
    assert_eq!(all.items.len(), 1, "what was tried has left nothing");
    engine.shutdown().await.unwrap();
}
