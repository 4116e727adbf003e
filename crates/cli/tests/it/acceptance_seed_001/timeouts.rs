//! User story 3: an order is rolled back when a service exceeds its timeout.

use backstitch_demo::services::Service;
use serde_json::{Value, json};

use crate::acceptance_seed_001::shop::Shop;
use crate::acceptance_seed_001::stage::on_both_stores;

/// The final log entry of a service.
async fn failure(shop: &Shop, tx: &str) -> Value {
    shop.entries(tx).await.into_iter().find(|entry| entry["status"] == "F").unwrap()
}

/// The time from a service's only call to its timeout, in microseconds.
async fn waited(shop: &Shop, tx: &str, service: &str) -> i64 {
    let entries = shop.entries(tx).await;
    let at = |status: &str| {
        let entry = entries.iter().find(|entry| entry["status"] == status && entry["service"] == service);
        let at = entry.unwrap()["at"].as_str().unwrap().parse::<jiff::Timestamp>();
        at.unwrap().as_microsecond()
    };
    at("F") - at("U")
}

#[tokio::test]
async fn us3_1_fr_014_fr_018_timeout_rolls_the_order_back() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("timeouts", &json!({"payment": "2s"})).await;
        let tx = shop.run(&["hang:payment"], "failed_refunded").await;
        assert_eq!(shop.log(&tx).await, ["U payment", "F payment", "R payment", "D"]);
        let failure = failure(&shop, &tx).await;
        assert!(failure["error"].as_str().unwrap().contains("2000 ms"), "{failure}");
        let waited = waited(&shop, &tx, "payment").await;
        assert!(waited >= 2_000_000, "it was given up after {waited} µs");
        let messages = shop.messages(&tx).await;
        assert!(messages.iter().any(|message| message == "Payment did not answer in time"), "{messages:?}");
        assert_eq!(messages.last().unwrap(), "Order Failed - Refunded");
        assert!(stage.in_effect(&tx).is_empty());
    })
    .await;
}

#[tokio::test]
async fn us3_2_timed_out_service_is_rolled_back_first() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("timeouts", &json!({"inventory": "2s"})).await;
        let tx = shop.run(&["hang:inventory"], "failed_refunded").await;
        let log = ["U payment", "S payment", "U inventory", "F inventory", "R inventory", "R payment", "D"];
        assert_eq!(shop.log(&tx).await, log);
        assert_eq!(stage.called_so_far(&tx)[2..], ["undo inventory", "undo payment"]);
        assert!(stage.in_effect(&tx).is_empty(), "what it did without a word is undone as well");
    })
    .await;
}

#[tokio::test]
async fn us3_3_each_service_is_held_to_its_own_timeout() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("timeouts", &json!({"logistics": "2s"})).await;
        let timeouts = json!({"payment": "30s", "inventory": "60s", "logistics": "2s"});
        assert_eq!(shop.config("timeouts").await["active"], timeouts);
        let paying = shop.confirm(&["hang:payment", "refuse:inventory"]).await;
        let reserving = shop.confirm(&["hang:inventory", "refuse:logistics"]).await;
        stage.asked_to_do(&paying, Service::Payment).await;
        stage.asked_to_do(&reserving, Service::Inventory).await;
        let shipping = shop.run(&["hang:logistics"], "failed_refunded").await;
        let failure_of_shipping = failure(&shop, &shipping).await;
        assert_eq!(failure_of_shipping["service"], "logistics");
        assert!(failure_of_shipping["error"].as_str().unwrap().contains("2000 ms"), "{failure_of_shipping}");
        // The others have waited for longer than that, and are within their own.
        assert_eq!(shop.log(&paying).await, ["U payment"]);
        assert_eq!(shop.log(&reserving).await, ["U payment", "S payment", "U inventory"]);
        stage.services.release();
        for (tx, last) in [(&paying, "S payment"), (&reserving, "S inventory")] {
            shop.ends(tx, "failed_refunded").await;
            assert!(shop.log(tx).await.contains(&last.to_owned()));
        }
        shop.change("timeouts", &json!({"payment": "3s"})).await;
        let paying = shop.run(&["hang:payment"], "failed_refunded").await;
        let failure_of_paying = failure(&shop, &paying).await;
        assert!(failure_of_paying["error"].as_str().unwrap().contains("3000 ms"), "{failure_of_paying}");
        for (tx, service, least) in [(&shipping, "logistics", 2_000_000), (&paying, "payment", 3_000_000)] {
            let waited = waited(&shop, tx, service).await;
            // The timeout is monotonic. The clock of the log runs at three quarters of the pace while it is set back.
            assert!(waited >= least * 3 / 4, "{service} timed out after {waited} µs");
        }
    })
    .await;
}

#[tokio::test]
async fn fr_019_an_order_at_its_end_is_watched_no_longer() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("timeouts", &json!({"payment": "4s", "inventory": "4s", "logistics": "4s"})).await;
        let complete = shop.run(&[], "complete").await;
        let refunded = shop.run(&["refuse:inventory"], "failed_refunded").await;
        let stuck = shop.run(&["refuse:inventory", "fail-undo:payment"], "rollback_failed").await;
        let orders = [complete, refunded, stuck];
        let mut before = Vec::new();
        for tx in &orders {
            before.push((shop.history(tx).await, stage.called_so_far(tx)));
        }
        // Earlier confirmed orders would have timed out before these.
        let mut late = Vec::new();
        for service in Service::ALL {
            late.push(shop.confirm(&[&format!("hang:{}", service.name())]).await);
        }
        for (tx, service) in late.iter().zip(Service::ALL) {
            shop.ends(tx, "failed_refunded").await;
            assert!(shop.log(tx).await.contains(&format!("F {}", service.name())));
        }
        for (tx, (history, calls)) in orders.iter().zip(before) {
            assert_eq!((shop.history(tx).await, stage.called_so_far(tx)), (history, calls));
        }
    })
    .await;
}
