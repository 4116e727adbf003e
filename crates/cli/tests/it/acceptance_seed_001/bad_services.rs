//! Services with invalid responses, or none.

use serde_json::json;

use crate::acceptance_seed_001::stage::on_both_stores;

#[tokio::test]
async fn sc_004_every_failed_order_is_rolled_back() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("timeouts", &json!({"payment": "2s", "inventory": "2s", "logistics": "2s"})).await;
        let mut orders = Vec::new();
        for kind in ["refuse", "fail", "busy", "hang", "giant", "redirect", "drop"] {
            for service in ["payment", "inventory", "logistics"] {
                orders.push(shop.confirm(&[&format!("{kind}:{service}")]).await);
            }
        }
        for tx in &orders {
            shop.ends(tx, "failed_refunded").await;
            assert_eq!(shop.log(tx).await.last().unwrap(), "D");
        }
        assert!(stage.services.applied().is_empty(), "{:?}", stage.services.applied());
        assert!(shop.alerts().await.is_empty(), "nobody had to do anything");
    })
    .await;
}

#[tokio::test]
async fn service_in_doubt_is_rolled_back_and_a_refusal_is_not() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let begun = ["U payment", "S payment", "U inventory", "F inventory"];
        for (kind, undone) in [
            ("fail", &["R inventory", "R payment", "D"][..]),
            ("giant", &["R inventory", "R payment", "D"]),
            ("redirect", &["R inventory", "R payment", "D"]),
            ("drop", &["R inventory", "R payment", "D"]),
            ("refuse", &["R payment", "D"]),
            ("busy", &["R payment", "D"]),
        ] {
            let tx = shop.run(&[&format!("{kind}:inventory")], "failed_refunded").await;
            assert_eq!(shop.log(&tx).await, [&begun, undone].concat(), "{kind}");
        }
        assert!(stage.services.applied().is_empty());
    })
    .await;
}

#[tokio::test]
async fn order_completes_when_a_service_answers_in_html() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&["garbage:inventory"], "complete").await;
        assert_eq!(stage.in_effect(&tx), ["payment", "inventory", "logistics"]);
        let history = shop.history(&tx).await;
        let marked = history.iter().find(|event| event["unparsed"] == true).unwrap();
        assert_eq!((&marked["step"], &marked["type"]), (&json!("inventory"), &json!("step.succeeded")));
        let refunded = shop.run(&["refuse:inventory", "garbage-undo:payment"], "failed_refunded").await;
        assert_eq!(stage.called_so_far(&refunded)[2..], ["undo payment"]);
    })
    .await;
}

#[tokio::test]
async fn busy_service_is_retried_if_configured() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        shop.change("services", &json!({"endpoints": {"payment": {"retry": 2}}})).await;
        let tx = shop.run(&["busy:payment:2x"], "complete").await;
        assert_eq!(stage.called_so_far(&tx)[..3], ["do payment"; 3]);
        let busy = shop.run(&["busy:inventory:1x"], "failed_refunded").await;
        assert_eq!(stage.called_so_far(&busy), ["do payment", "do inventory", "undo payment"]);
        let shown = shop.client.get("/v1/admin/config/services").await.json();
        assert_eq!(shown["active"]["endpoints"]["payment"]["retry"]["count"], 2, "{shown}");

        // The service asks for a second, and only half of one is left.
        shop.change("timeouts", &json!({"payment": "500ms"})).await;
        let late = shop.run(&["busy:payment:1x"], "failed_refunded").await;
        assert_eq!(stage.called_so_far(&late), ["do payment"]);
    })
    .await;
}

#[tokio::test]
async fn unreachable_service_fails_the_order() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let nowhere = json!({"url": "http://127.0.0.1:1/do", "rollback_url": "http://127.0.0.1:1/undo"});
        shop.change("services", &json!({"endpoints": {"logistics": nowhere}})).await;
        let tx = shop.run(&[], "failed_refunded").await;
        assert_eq!(shop.log(&tx).await[4..], ["U logistics", "F logistics", "R inventory", "R payment", "D"]);
        assert!(stage.in_effect(&tx).is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_rollback_is_tried_again_however_a_service_fails_to_undo() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        for kind in ["refuse", "fail", "giant", "redirect", "drop"] {
            let tx =
                shop.run(&["refuse:inventory", &format!("{kind}-undo:payment:2x")], "failed_refunded").await;
            assert_eq!(stage.called_so_far(&tx)[2..], ["undo payment"; 3], "{kind}");
            assert!(stage.in_effect(&tx).is_empty());
        }
    })
    .await;
}
