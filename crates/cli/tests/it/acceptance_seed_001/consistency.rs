//! An order and its saga exist together, and one process at a time executes each.

use std::collections::BTreeSet;

use backstitch_demo::services::{Phase, Service};
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::acceptance_seed_001::shop::{order, text};
use crate::acceptance_seed_001::stage::{MISSED_SOON, Stage, on_both_stores};
use crate::support::Client;
use crate::support::program::output_of;

/// The transaction, if the confirmation was acknowledged before the server was gone.
async fn acknowledged(client: &Client) -> Option<String> {
    let json = [("content-type", "application/json")];
    let answer = client.ask(Method::POST, "/v1/orders", &json, order(&[]).to_string()).await.ok()?;
    assert_eq!(answer.status(), 202);
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    Some(text(&serde_json::from_slice::<Value>(&body).ok()?["tx_id"]))
}

/// Orders without a saga, and sagas without an order.
async fn halves(stage: &Stage) -> Vec<Vec<Option<String>>> {
    let (order, saga) = (stage.id("tx_id"), stage.id("id"));
    let sagas = format!("select {saga} from sagas where definition = 'orders'");
    let orders = format!("select {order} from orders");
    let missing = |from: &str, other: &str| format!("select * from ({from} except {other}) as missing");
    stage.rows(&format!("{} union all {}", missing(&orders, &sagas), missing(&sagas, &orders))).await
}

#[tokio::test]
async fn fr_031_order_and_saga_exist_together_despite_kills() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&MISSED_SOON).await;
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut customers = JoinSet::new();
        for _ in 0..8 {
            let (client, tell) = (shop.client.clone(), tell.clone());
            customers.spawn(async move {
                while let Some(tx) = acknowledged(&client).await {
                    tell.send(tx).unwrap();
                }
            });
        }
        drop(tell);
        let mut orders = BTreeSet::new();
        while orders.len() < 40 {
            orders.insert(told.recv().await.unwrap());
        }
        shop.kill().await;
        customers.join_all().await;
        while let Some(tx) = told.recv().await {
            orders.insert(tx);
        }
        let shop = stage.open_with(&MISSED_SOON).await;
        assert!(halves(&stage).await.is_empty());
        let id = stage.id("tx_id");
        let kept = stage.rows(&format!("select {id} from orders")).await;
        let kept: BTreeSet<_> = kept.into_iter().flatten().flatten().collect();
        for tx in &orders {
            assert!(kept.contains(&tx.replace('-', "")), "{tx} was acknowledged");
            shop.ends(tx, "complete").await;
            let mut done = stage.in_effect(tx);
            done.sort_unstable();
            assert_eq!(done, ["inventory", "logistics", "payment"]);
        }
    })
    .await;
}

#[tokio::test]
async fn fr_031_no_saga_of_orders_begins_without_its_order() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let start = serde_json::json!({"definition": "orders", "input": order(&[])});
        let refused = shop.client.post("/v1/sagas", &start).await;
        assert_eq!((refused.status, refused.problem().as_str()), (409, "name-taken"));
        assert!(refused.detail().contains("POST /v1/orders"), "{}", refused.detail());
        shop.run(&[], "complete").await;
        assert!(halves(&stage).await.is_empty());
    })
    .await;
}

/// Every call so far as what makes it one of its kind.
fn attempts(stage: &Stage) -> Vec<(String, Service, &'static str, u32)> {
    let calls = stage.services.calls().into_iter();
    calls.map(|call| (call.saga, call.service, call.phase.as_str(), call.attempt)).collect()
}

#[tokio::test]
async fn fr_032_each_order_has_one_processor_among_servers() {
    on_both_stores(async |stage| {
        let first = stage.open_with(&MISSED_SOON).await;
        if !stage.is_shared() {
            let second = output_of(&["serve", "--db", &stage.db(), "--listen", "127.0.0.1:0"]).await;
            let said = String::from_utf8(second.stderr).unwrap();
            assert!(!second.status.success() && said.contains("another engine has"), "{said}");
            first.run(&[], "complete").await;
            return;
        }
        let second = stage.open_with(&MISSED_SOON).await;
        let mut orders = Vec::new();
        for _ in 0..10 {
            orders.push(first.confirm(&[]).await);
            orders.push(second.confirm(&["refuse:logistics"]).await);
        }
        let left_behind = first.confirm(&["hang:inventory:1x"]).await;
        stage.asked_to_do(&left_behind, Service::Inventory).await;
        orders.push(left_behind);
        first.kill().await;
        for tx in &orders {
            second.end(tx).await;
            let history = second.history(tx).await;
            let numbers: Vec<_> = history.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (1..=history.len() as u64).collect::<Vec<_>>(), "one log, without a gap");
            let phases: Vec<_> = stage.calls(tx).iter().map(|call| call.phase).collect();
            assert!(phases.is_sorted_by_key(|phase| *phase == Phase::Undo), "{:?}", stage.called_so_far(tx));
        }
        let attempts = attempts(&stage);
        let different: BTreeSet<_> = attempts.iter().collect();
        assert_eq!(attempts.len(), different.len(), "no attempt is made by two of them: {attempts:?}");
    })
    .await;
}
