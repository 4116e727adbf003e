//! `cancel`, `pause`, `resume`, `resolve`, `alerts` and `audit`.

use backstitch_demo::services::Service;
use serde_json::json;

use crate::cli::stage::{Stage, on_both_stores};
use crate::support::within;

#[tokio::test]
async fn a_saga_is_paused_resumed_and_cancelled() {
    on_both_stores(async |stage| {
        let id = stage.order(&["hang:inventory:1x"]).await;
        stage.asked_to_do(&id, Service::Inventory).await;
        let paused = stage.run(&["pause", &id, "--note", "ada: wait"]).await.good();
        assert!(paused.contains(&id) && paused.contains("until it is resumed"), "{paused}");
        within(async { while stage.run(&["show", &id, "--json"]).await.json()["paused"] != true {} }).await;
        assert!(stage.run(&["show", &id]).await.good().contains("`backstitch resume` lets it go on"));
        let listed = stage.run(&["ps"]).await.good();
        assert!(listed.contains("PAUSED") && listed.contains("order v1    yes"), "{listed}");
        let resumed = stage.run(&["resume", &id, "--json"]).await.json();
        assert_eq!(resumed["id"], json!(id));
        stage.services.release();
        let saga = stage.program.client.ended(&id).await;
        assert_eq!(saga["status"], "succeeded", "{saga}");
        let log = stage.run(&["log", &id]).await.good();
        assert!(log.contains("saga.paused") && log.contains("ada: wait"), "{log}");

        let refused = stage.run(&["cancel", &id]).await.failed();
        assert!(refused.contains("/docs/errors/saga-ended"), "{refused}");

        let other = stage.order(&["hang:logistics:1x"]).await;
        stage.asked_to_do(&other, Service::Logistics).await;
        let accepted = stage.run(&["cancel", &other, "--note", "ada: ordered twice", "--json"]).await.json();
        assert_eq!(accepted["id"], json!(other));
        stage.services.release();
        let followed = stage.run(&["follow", &other]).await;
        assert_eq!(followed.code, 1, "{followed:?}");
        assert!(followed.stderr.contains("ada: ordered twice"), "{followed:?}");
    })
    .await;
}

#[tokio::test]
async fn a_stuck_rollback_is_seen_and_resolved() {
    on_both_stores(async |stage| {
        let id = stage.ended_order(&["refuse:inventory", "fail-undo:payment"], "failed").await;
        let shown = stage.run(&["show", &id]).await.good();
        assert!(shown.contains("✗ compensation failed"), "{shown}");
        let health = stage.run(&["health"]).await;
        assert_eq!(health.code, 1, "{health:?}");
        assert!(
            health.stdout.contains("! attention") && health.stdout.contains("failed rollbacks     1"),
            "{health:?}"
        );
        let stuck = stage.run(&["ps", "--stuck-step", "payment"]).await.good();
        assert!(stuck.contains("STUCK STEP") && stuck.contains("something went wrong here"), "{stuck}");
        assert!(health.stderr.contains("backstitch doctor"), "{health:?}");
        let alerts = stage.run(&["alerts"]).await.good();
        assert!(alerts.contains(&id) && alerts.contains("payment"), "{alerts}");
        let alerts = stage.run(&["alerts", "--json"]).await.json();
        assert_eq!(alerts["items"][0]["tx_id"], json!(id));
        let number = alerts["items"][0]["id"].to_string();
        let seen =
            stage.run(&["alerts", "acknowledge", &number, "--note", "ada calls the bank"]).await.good();
        assert!(seen.contains(&format!("alert {number} is acknowledged")), "{seen}");
        let again = stage.run(&["alerts", "acknowledge", &number, "--note", "me too", "--json"]).await.json();
        assert!(again.is_null(), "{again}");
        let alerts = stage.run(&["alerts", "list", "--json"]).await.json();
        assert_eq!(alerts["items"][0]["acknowledged"]["note"], "ada calls the bank", "the first is kept");
        let nowhere = stage.run(&["alerts", "acknowledge", "4711"]).await.failed();
        assert!(nowhere.contains("there is no alert 4711"), "{nowhere}");

        let unknown = stage.run(&["resolve", &id, "paymnet", "done", "--note", "x"]).await.failed();
        assert!(unknown.contains("no step `paymnet`"), "{unknown}");
        let done =
            stage.run(&["resolve", &id, "payment", "done", "--note", "ada: refunded by hand"]).await.good();
        assert!(done.contains(&format!("backstitch follow {id}")), "{done}");
        let saga = stage.program.client.ended(&id).await;
        assert_eq!(saga["status"], "compensated", "{saga}");

        let health = stage.run(&["health"]).await.good();
        assert!(health.contains("✓ ok"), "{health}");
        let audit = stage.run(&["audit"]).await.good();
        assert!(audit.contains("/steps/payment/resolve") && audit.contains("202"), "{audit}");
        assert!(audit.contains("WHAT") && audit.contains("  done  "), "what was decided: {audit}");
        let audit = stage.run(&["audit", "--limit", "1", "--json"]).await.json();
        assert_eq!(audit["items"][0]["method"], "POST");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_decided_without_a_note_or_by_another_word() {
    let stage = Stage::new().await;
    let id = "01923c4e-5b6a-7000-8000-000000000001";
    for arguments in
        [&["resolve", id, "payment", "done"][..], &["resolve", id, "payment", "undo", "--note", "x"]]
    {
        assert_eq!(stage.run(arguments).await.code, 2, "{arguments:?}");
    }
}
