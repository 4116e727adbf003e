//! Alerts on a primary with a synchronous standby: what a repeated acknowledgement is told of survives a failover.

use std::sync::Arc;

use backstitch::outbox::Routes;
use backstitch::store::postgres::PostgresStore;
use backstitch::{Engine, Options};
use backstitch_modules::alerts::{self, Acknowledged};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::replicated::{CONFIRM, Replicated};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// Words of the statement that acknowledges an alert.
const ACKNOWLEDGE: &str = "insert into alert_acknowledgements";

async fn session(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("set search_path = backstitch").await.unwrap();
    client
}

async fn open(address: String) -> Engine {
    let store = PostgresStore::connect_with(&address, &[&alerts::SCHEMA]).await.unwrap();
    // Its heartbeats wait for the standby too, and must not be what keeps it from acting.
    let options = Options { lease: PATIENCE, routes: Routes::none(), ..Options::default() };
    Engine::on_store(Arc::new(store), options).await.unwrap()
}

/// Acknowledges an alert until that is answered: connections may still be lost from the crash.
async fn acknowledge(engine: Engine, id: i64) -> Acknowledged {
    loop {
        if let Ok(acknowledged) = alerts::acknowledge(&engine, id, "me", "").await {
            return acknowledged;
        }
    }
}

async fn acknowledgements(address: &str) -> i64 {
    let counted = session(address).await.query_one("select count(*) from alert_acknowledgements", &[]).await;
    counted.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_acknowledgement_waits_for_the_standby() {
    let mut servers = Replicated::start(&[&alerts::SCHEMA]).await;
    // Its tasks end with it, as those of a process that is killed.
    let first_node = Runtime::new().unwrap();
    let first = first_node.spawn(open(servers.address.clone())).await.unwrap();
    let second = open(servers.address.clone()).await;
    let raise = "insert into outbox (topic, idempotency_key, payload, created_at, updated_at)
        values ('backstitch.alerts', 'a-1', '{}', now(), now()) returning id";
    let id: i64 = session(&servers.address).await.query_one(raise, &[]).await.unwrap().get(0);
    servers.standby.stop_immediate().unwrap();
    let request = first_node.spawn(acknowledge(first, id));
    servers.until_waiting(ACKNOWLEDGE, &request).await;
    first_node.shutdown_background();
    servers.crash_primary();
    assert_eq!(acknowledgements(&servers.address).await, 1, "recovery shows what was committed here only");

    let again = tokio::spawn(acknowledge(second, id));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    assert_eq!(Replicated::answer(again).await, Acknowledged::Before);
    assert_eq!(acknowledgements(&servers.fail_over().await).await, 1);
}
