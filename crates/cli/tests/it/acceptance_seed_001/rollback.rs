//! User story 2: when a service fails, the earlier ones are undone in reverse order.

use backstitch_demo::services::Service;
use serde_json::json;

use crate::acceptance_seed_001::shop::told;
use crate::acceptance_seed_001::stage::on_both_stores;

#[tokio::test]
async fn us2_1_fr_008_fr_013_inventory_failure_refunds_the_payment() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&["refuse:inventory"], "failed_refunded").await;
        let log = ["U payment", "S payment", "U inventory", "F inventory", "R payment", "D"];
        assert_eq!(shop.log(&tx).await, log);
        let failure = &shop.entries(&tx).await[3];
        assert!(failure["error"].as_str().unwrap().contains("not this time"), "{failure}");
        let order = shop.order(&tx).await;
        assert_eq!(
            (&order["failed_step"], &order["error"]["code"]),
            (&json!("inventory"), &json!("OUT_OF_STOCK"))
        );
        assert_eq!(stage.called_so_far(&tx), ["do payment", "do inventory", "undo payment"]);
        assert!(stage.in_effect(&tx).is_empty(), "the customer is not charged");
    })
    .await;
}

#[tokio::test]
async fn us2_2_fr_015_services_are_rolled_back_in_reverse_order() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let usual = shop.run(&["refuse:logistics"], "failed_refunded").await;
        assert_eq!(stage.called_so_far(&usual)[3..], ["undo inventory", "undo payment"]);
        assert_eq!(shop.log(&usual).await[6..], ["R inventory", "R payment", "D"]);
        shop.change("services", &json!({"order": ["inventory", "logistics", "payment"]})).await;
        let other = shop.run(&["refuse:payment"], "failed_refunded").await;
        assert_eq!(stage.called_so_far(&other)[3..], ["undo logistics", "undo inventory"]);
        assert_eq!(shop.log(&other).await[6..], ["R logistics", "R inventory", "D"]);
        assert!(stage.services.applied().is_empty());
    })
    .await;
}

#[tokio::test]
async fn us2_3_fr_005_each_rollback_is_pushed_as_it_completes() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let wishes = ["refuse:logistics", "hang-undo:inventory", "hang-undo:payment"];
        let tx = shop.confirm(&wishes).await;
        let mut stream = shop.follow(&tx, None).await;
        let failed = told(&mut stream, "step.failed", Some("logistics")).await;
        assert_eq!(failed, "Shipping could not be scheduled");
        assert_eq!(told(&mut stream, "saga.compensating", None).await, "Order failed: rolling back");
        for (service, message) in
            [(Service::Inventory, "Inventory released"), (Service::Payment, "Payment refunded")]
        {
            stage.asked_to_undo(&tx, service).await;
            assert_eq!(shop.outcome(&tx).await, "rolling_back");
            stage.services.release();
            assert_eq!(told(&mut stream, "step.compensated", Some(service.name())).await, message);
        }
    })
    .await;
}

#[tokio::test]
async fn us2_4_fr_009_fr_010_rollback_ends_as_failed_and_refunded() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        for (wish, log) in [
            ("refuse:payment", vec!["U payment", "F payment", "D"]),
            (
                "refuse:inventory",
                vec!["U payment", "S payment", "U inventory", "F inventory", "R payment", "D"],
            ),
        ] {
            let tx = shop.run(&[wish], "failed_refunded").await;
            assert_eq!(shop.log(&tx).await, log);
            let done = shop.entries(&tx).await.pop().unwrap();
            assert_eq!(
                (&done["status"], &done["service"]),
                (&json!("D"), &json!(null)),
                "of the whole order"
            );
            assert_eq!(shop.messages(&tx).await.last().unwrap(), "Order Failed - Refunded");
            assert_eq!(shop.order(&tx).await["status"], "compensated");
        }
    })
    .await;
}
