//! Records: contents, times, and immutability.

use std::collections::BTreeSet;

use backstitch_demo::services::{Phase, Service};
use serde_json::{Value, json};

use crate::acceptance_seed_001::shop::Shop;
use crate::acceptance_seed_001::stage::{MISSED_SOON, Stage, on_both_stores};

#[tokio::test]
async fn fr_006_a_call_is_recorded_as_uncommitted_before_it_is_made() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&MISSED_SOON).await;
        let tx = shop.confirm(&["hang:payment", "hang:inventory", "hang:logistics"]).await;
        let mut expected: Vec<String> = Vec::new();
        for service in Service::ALL {
            // The service is being called, and looks into the log while it is.
            stage.asked_to_do(&tx, service).await;
            expected.push(format!("U {}", service.name()));
            assert_eq!(shop.log(&tx).await, expected);
            assert_eq!(stage.view(&tx).await.len(), expected.len(), "in the database too");
            stage.services.release();
            expected.push(format!("S {}", service.name()));
        }
        shop.ends(&tx, "complete").await;

        let cut_off = shop.confirm(&["hang:inventory:1x"]).await;
        stage.asked_to_do(&cut_off, Service::Inventory).await;
        shop.kill().await;
        let last = stage.view(&cut_off).await.pop().unwrap();
        assert_eq!(last[1..], [Some("inventory".to_owned()), Some("U".to_owned()), None], "it is on disk");
    })
    .await;
}

#[tokio::test]
async fn fr_009_a_rollback_is_recorded_once_it_is_done_and_not_before() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.confirm(&["refuse:logistics", "hang-undo:inventory", "hang-undo:payment"]).await;
        let forward = ["U payment", "S payment", "U inventory", "S inventory", "U logistics", "F logistics"];
        let mut expected: Vec<_> = forward.map(str::to_owned).into();
        for service in [Service::Inventory, Service::Payment] {
            // The service is being asked to undo its part, and looks into the log while it is.
            stage.asked_to_undo(&tx, service).await;
            assert_eq!(shop.log(&tx).await, expected);
            assert_eq!(stage.view(&tx).await.len(), expected.len(), "in the database too");
            stage.services.release();
            expected.push(format!("R {}", service.name()));
        }
        shop.ends(&tx, "failed_refunded").await;
        expected.push("D".to_owned());
        assert_eq!(shop.log(&tx).await, expected);
    })
    .await;
}

#[tokio::test]
async fn fr_012_records_cannot_be_changed_or_deleted() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let done = shop.run(&["refuse:inventory"], "failed_refunded").await;
        let under_way = shop.confirm(&["hang:payment"]).await;
        stage.asked_to_do(&under_way, Service::Payment).await;
        let before = (shop.history(&done).await, shop.history(&under_way).await);
        let mut attempts = vec![
            "update saga_events set type = 'step.succeeded' where type = 'step.failed'",
            "update saga_events set seq = seq + 100",
            "delete from saga_events where type = 'step.failed'",
            "delete from saga_events",
            "update orders set amount = '0'",
            "update orders set order_id = 'another'",
            "delete from orders",
        ];
        if stage.is_shared() {
            attempts.extend(["truncate saga_events", "truncate orders"]);
        }
        for sql in attempts {
            let refused = stage.refusal(sql).await;
            let reason = if sql.contains("orders") { "an order is kept" } else { "append-only" };
            assert!(refused.contains(reason), "{sql}: {refused}");
        }
        assert_eq!((shop.history(&done).await, shop.history(&under_way).await), before);
        assert_eq!(stage.rows("select order_id from orders").await.len(), 2);
        stage.services.release();
        shop.ends(&under_way, "complete").await;
        let after = shop.history(&under_way).await;
        assert!(after.starts_with(&before.1), "a log only grows");
    })
    .await;
}

/// The ways an order can go, besides running out of time.
const WAYS: [&[&str]; 12] = [
    &[],
    &["refuse:payment"],
    &["refuse:logistics"],
    &["fail:inventory"],
    &["busy:logistics"],
    &["drop:payment"],
    &["garbage:inventory"],
    &["giant:logistics"],
    &["redirect:payment"],
    &["refuse:logistics", "fail-undo:inventory:3x", "busy-undo:payment:1x"],
    &["refuse:inventory", "refuse-undo:payment"],
    &["drop:logistics", "fail-undo:inventory", "drop-undo:payment"],
];

async fn run_every_way(shop: &Shop) -> Vec<String> {
    let mut orders = Vec::new();
    for wishes in WAYS {
        orders.push(shop.confirm(wishes).await);
    }
    for tx in &orders {
        shop.end(tx).await;
    }
    shop.change("timeouts", &json!({"inventory": "300ms"})).await;
    let timed_out = shop.run(&["hang:inventory"], "failed_refunded").await;
    orders.push(timed_out);
    orders
}

/// Whether the log of an order accounts for every call that its services got, and for its end.
async fn audit(stage: &Stage, shop: &Shop, tx: &str) {
    let history = shop.history(tx).await;
    let numbers: Vec<_> = history.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=history.len() as u64).collect::<Vec<_>>(), "nothing is missing");
    let log = shop.log(tx).await;
    for call in stage.calls(tx) {
        let name = call.service.name();
        let kind = match call.phase {
            Phase::Do => "step.started",
            Phase::Undo => "step.compensating",
        };
        let announces = |event: &Value| {
            event["type"] == kind && event["step"] == name && event["attempt"] == call.attempt
        };
        assert_eq!(history.iter().filter(|event| announces(event)).count(), 1, "{call:?}");
        if call.phase == Phase::Undo {
            let ended = [format!("R {name}"), format!("RF {name}")];
            assert_eq!(log.iter().filter(|entry| ended.contains(entry)).count(), 1, "{log:?}");
        }
    }
    let asked: BTreeSet<_> = log.iter().filter_map(|entry| entry.strip_prefix("U ")).collect();
    for service in &asked {
        let ended = [format!("S {service}"), format!("F {service}")];
        assert_eq!(log.iter().filter(|entry| ended.contains(entry)).count(), 1, "{log:?}");
    }
    let (failed, stuck) =
        (log.iter().any(|it| it.starts_with("F ")), log.iter().any(|it| it.starts_with("RF ")));
    let outcome = match (failed, stuck) {
        (false, _) => "complete",
        (true, false) => "failed_refunded",
        (true, true) => "rollback_failed",
    };
    assert_eq!(shop.outcome(tx).await, outcome, "{log:?}");
    assert_eq!(log.last().unwrap() == "D", outcome == "failed_refunded", "{log:?}");
    for entry in shop.entries(tx).await {
        let has_reason = entry["error"].as_str().is_some_and(|error| !error.is_empty());
        assert_eq!(has_reason, entry["status"] == "F" || entry["status"] == "RF", "{entry}");
        assert!(entry["at"].as_str().unwrap().ends_with('Z'), "{entry}");
    }
}

#[tokio::test]
async fn sc_007_order_log_accounts_for_every_call_and_end() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let orders = run_every_way(&shop).await;
        for tx in &orders {
            audit(&stage, &shop, tx).await;
        }
        assert_eq!(stage.rows("select order_id from orders").await.len(), orders.len());
    })
    .await;
}

#[tokio::test]
async fn sc_007_the_log_is_complete_after_a_crash_too() {
    on_both_stores(async |stage| {
        let shop = stage.open_with(&MISSED_SOON).await;
        let mut orders = Vec::new();
        for wishes in
            [&["hang:payment:1x"][..], &["hang:logistics:1x"], &["refuse:logistics", "hang-undo:payment:1x"]]
        {
            orders.push(shop.confirm(wishes).await);
        }
        stage.asked_to_do(&orders[0], Service::Payment).await;
        stage.asked_to_do(&orders[1], Service::Logistics).await;
        stage.asked_to_undo(&orders[2], Service::Payment).await;
        shop.kill().await;
        let shop = stage.open_with(&MISSED_SOON).await;
        for tx in &orders {
            shop.end(tx).await;
            audit(&stage, &shop, tx).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_view_transaction_log_shows_the_same_as_the_api() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        for tx in run_every_way(&shop).await {
            let text = |value: &Value| match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let as_row =
                |entry: &Value| ["seq", "service", "status", "error"].map(|name| text(&entry[name])).to_vec();
            let entries: Vec<_> = shop.entries(&tx).await.iter().map(as_row).collect();
            assert_eq!(stage.view(&tx).await, entries);
        }
        let ids = stage.rows("select distinct order_id from transaction_log").await;
        assert_eq!(ids, [[Some("o-17".to_owned())]]);
    })
    .await;
}
