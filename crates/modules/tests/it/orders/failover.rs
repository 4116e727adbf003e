//! Orders on a primary with a synchronous standby: what a repeated confirmation is told of survives a failover.

use std::sync::Arc;

use backstitch::store::postgres::PostgresStore;
use backstitch::{Engine, Options};
use backstitch_modules::orders::{self, Order, Orders, Rollback, ServiceSetting, Timeouts};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::replicated::{CONFIRM, Replicated};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::orders::settings::{FORTH, stage};
use crate::orders::stage::Willing;

/// A start with a row of its own is a transaction of several statements, so its end waits for the standby.
const COMMIT: &str = "COMMIT";

async fn open(address: String) -> Orders {
    let store = PostgresStore::connect_with(&address, &[&orders::SCHEMA]).await.unwrap();
    // Its heartbeats wait for the standby too, and must not be what keeps it from acting.
    let options = Options { lease: PATIENCE, caller: Some(Arc::new(Willing)), ..Options::default() };
    let engine = Engine::on_store(Arc::new(store), options).await.unwrap();
    Orders::open(engine, None, Timeouts::default(), Rollback::default()).await.unwrap()
}

/// Confirms an order, always the same, until it is accepted: connections may still be lost from the crash.
async fn confirm(orders: Orders) -> String {
    let items = json!([{ "sku": "s", "quantity": 1 }]);
    let order = json!({ "order_id": "o", "customer_id": "c", "items": items, "amount": "1.00" });
    let order: Order = serde_json::from_value(order).unwrap();
    loop {
        if let Ok(run) = orders.confirm(&order, Some("k")).await {
            return run.id().to_string();
        }
    }
}

/// The transactions of all orders.
async fn transactions(address: &str) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = client.query("select tx_id::text from backstitch.orders", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_confirmation_waits_for_the_standby() {
    let mut servers = Replicated::start(&[&orders::SCHEMA]).await;
    // Its tasks end with it, as those of a process that is killed.
    let first_node = Runtime::new().unwrap();
    let first = first_node.spawn(open(servers.address.clone())).await.unwrap();
    stage(&first, FORTH).await;
    first.apply_setting::<ServiceSetting>(None).await.unwrap();
    let second = open(servers.address.clone()).await;
    servers.standby.stop_immediate().unwrap();
    let request = first_node.spawn(confirm(first));
    servers.until_waiting(COMMIT, &request).await;
    first_node.shutdown_background();
    servers.crash_primary();
    let found = transactions(&servers.address).await;
    assert_eq!(found.len(), 1, "recovery shows what was committed here only");

    let again = tokio::spawn(confirm(second));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    assert_eq!(Replicated::answer(again).await, found[0]);
    assert_eq!(transactions(&servers.fail_over().await).await, found);
}
