//! Events on a primary with a synchronous standby: what a repeated event is told of survives a failover.

use std::sync::Arc;

use backstitch::store::postgres::PostgresStore;
use backstitch::{Engine, Options};
use backstitch_modules::webhooks::{self, Accepted, Webhooks};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::replicated::{CONFIRM, Replicated};
use tokio::runtime::Runtime;

use crate::webhooks::stage::{order_created, session};

async fn open(address: String) -> Webhooks {
    let store = PostgresStore::connect_with(&address, &[&webhooks::SCHEMA]).await.unwrap();
    // Its heartbeats wait for the standby too, and must not be what keeps it from acting.
    let options = Options { lease: PATIENCE, ..Options::default() };
    let engine = Engine::on_store(Arc::new(store), options).await.unwrap();
    Webhooks::open(&engine).await.unwrap()
}

/// Reports an event, always the same, until it is accepted: connections may still be lost from the crash.
async fn ingest(webhooks: Webhooks) -> Accepted {
    loop {
        if let Ok(accepted) = webhooks.ingest.accept(order_created("e")).await {
            return accepted;
        }
    }
}

async fn events(address: &str) -> i64 {
    session(address).await.query_one("select count(*) from webhook_events", &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_event_waits_for_the_standby() {
    let mut servers = Replicated::start(&[&webhooks::SCHEMA]).await;
    // Its tasks end with it, as those of a process that is killed.
    let first_node = Runtime::new().unwrap();
    let first = first_node.spawn(open(servers.address.clone())).await.unwrap();
    let second = open(servers.address.clone()).await;
    servers.standby.stop_immediate().unwrap();
    let request = first_node.spawn(ingest(first));
    servers.until_waiting("Takes events and routes the new ones", &request).await;
    first_node.shutdown_background();
    servers.crash_primary();
    assert_eq!(events(&servers.address).await, 1, "recovery shows what was committed here only");

    let again = tokio::spawn(ingest(second));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    assert!(Replicated::answer(again).await.repeated);
    assert_eq!(events(&servers.fail_over().await).await, 1);
}
