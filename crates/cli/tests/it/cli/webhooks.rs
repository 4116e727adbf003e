//! `webhooks` and `dead-letters`

use serde_json::{Value, json};

use crate::cli::stage::{Stage, on_both_stores};
use crate::cli::stub::Stub;
use crate::support::within;

/// Waits until a delivery of an event is in this status and gives it.
async fn delivery_in(stage: &Stage, event: &str, status: &str) -> Value {
    within(async {
        loop {
            let list = ["webhooks", "deliveries", "list", "--event", event, "--status", status, "--json"];
            let found = stage.run(&list).await.json();
            if let Some(delivery) = found["items"].get(0) {
                return delivery.clone();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_subscription_is_made_changed_tested_and_deleted() {
    on_both_stores(async |stage| {
        let receiver = Stub::answering("200 OK", "application/json", "{}").await;
        let create = ["webhooks", "subscriptions", "create", "--url", &receiver.url(), "--events", "order.*"];
        let made = stage.run(&[&create[..], &["--header", "x-team=shop", "--attempts", "3"]].concat()).await;
        assert!(made.stdout.contains("secret") && made.stdout.contains("whsec_"), "{made:?}");
        assert!(made.stderr.contains("shown only once"), "{made:?}");
        let listed = stage.run(&["webhooks", "subscriptions", "list", "--json"]).await.json();
        let id = listed["items"][0]["id"].to_string();
        let subscription = |arguments: &[&str]| -> Vec<String> {
            let words = [&["webhooks", "subscriptions"], arguments].concat();
            words.into_iter().map(str::to_owned).collect()
        };
        let run = async |arguments: &[&str]| {
            let words = subscription(arguments);
            stage.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await
        };
        assert!(run(&["list"]).await.good().contains("✓ enabled"));
        let shown = run(&["show", &id]).await.good();
        assert!(shown.contains("order.*") && shown.contains("***") && !shown.contains("whsec_"), "{shown}");
        let disabled = run(&["update", &id, "--disable", "--timeout", "5s", "--json"]).await.json();
        assert_eq!((&disabled["enabled"], &disabled["timeout"]), (&json!(false), &json!("5s")));
        assert!(run(&["list"]).await.good().contains("– disabled"));
        assert_eq!(run(&["update", &id, "--enable", "--json"]).await.json()["enabled"], true);
        let tested = run(&["test", &id]).await.good();
        assert!(tested.contains("arrived") && tested.contains("yes") && tested.contains("200"), "{tested}");
        let rotated = run(&["rotate-secret", &id, "--overlap", "1h", "--json"]).await.json();
        assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"), "{rotated}");
        let rotating = run(&["rotate-secret", &id]).await.failed();
        assert!(rotating.contains("/docs/errors/secret-rotating"), "{rotating}");
        assert_eq!(run(&["delete", &id]).await.good(), format!("subscription {id} is gone\n"));
        assert!(run(&["show", &id]).await.failed().contains("/docs/errors/subscription-not-found"));
    })
    .await;
}

#[tokio::test]
async fn event_is_sent_dead_lettered_requeued_and_replayed() {
    on_both_stores(async |stage| {
        let receiver = Stub::answering("500 Internal Server Error", "text/plain", "\u{1b}[31mno").await;
        let create = ["webhooks", "subscriptions", "create", "--url", &receiver.url(), "--events", "*"];
        let made = stage.run(&[&create[..], &["--attempts", "1", "--json"]].concat()).await.json();
        let subscription = made["id"].to_string();
        let failed = stage.run(&["webhooks", "subscriptions", "test", &subscription]).await;
        assert_eq!(failed.code, 1, "{failed:?}");
        assert!(failed.stdout.contains("500") && !failed.stdout.contains('\u{1b}'), "{failed:?}");

        let payload = stage.file("payload.json", r#"{"order": 17}"#);
        let send = ["webhooks", "events", "send", "order.created", "--payload", &payload, "--id", "o-17"];
        assert_eq!(stage.run(&send).await.good(), "event 1 goes to 1 subscription\n");
        assert_eq!(stage.run(&[&send[..], &["--json"]].concat()).await.json()["repeated"], true);
        let shown = stage.run(&["webhooks", "events", "show", "1"]).await.good();
        assert!(shown.contains("order.created") && shown.contains(r#"{"order":17}"#), "{shown}");

        let delivery = delivery_in(&stage, "1", "DeadLettered").await["id"].to_string();
        let shown = stage.run(&["webhooks", "deliveries", "show", &delivery]).await.good();
        assert!(shown.contains("✗ DeadLettered") && shown.contains("Attempts"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "what a receiver answered stays text: {shown}");
        let letters = stage.run(&["dead-letters"]).await.good();
        assert!(letters.lines().nth(1).unwrap().starts_with(&delivery), "{letters}");
        let listed = stage.run(&["dead-letters", "list", "--event", "1"]).await.good();
        assert!(listed.lines().nth(1).unwrap().starts_with(&delivery), "{listed}");
        let letter = stage.run(&["dead-letters", "show", &delivery, "--json"]).await.json();
        assert_eq!(letter["event_id"], 1);

        let requeued = stage.run(&["dead-letters", "requeue", &delivery, "--json"]).await.json();
        let again = stage.run(&["dead-letters", "requeue", &delivery, "--json"]).await.json();
        assert_eq!(requeued["id"], again["id"], "asking again gives the same delivery");
        let not_requeued = stage.run(&["dead-letters", "--not-requeued", "--event", "2"]).await;
        assert!(not_requeued.stderr.contains("no dead letters"), "{not_requeued:?}");
        within(async {
            let many = ["dead-letters", "requeue", "--subscription", &subscription, "--json"];
            while stage.run(&many).await.json()["requeued"] == 0 {}
        })
        .await;

        let range = ["--since", "2000-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z"];
        let replay = [&["webhooks", "replay", &subscription][..], &range, &["--name", "once"]].concat();
        assert_eq!(stage.run(&replay).await.good(), "1 event is sent again as replay once\n");
        assert_eq!(stage.run(&replay).await.good(), "0 events are sent again as replay once\n");
    })
    .await;
}

#[tokio::test]
async fn requeueing_everything_needs_an_explicit_flag() {
    let stage = Stage::new().await;
    for arguments in [&["dead-letters", "requeue"][..], &["dead-letters", "requeue", "17", "--all"]] {
        let refused = stage.run(arguments).await;
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("--all"), "{refused:?}");
    }
    assert_eq!(
        stage.run(&["dead-letters", "requeue", "--all"]).await.good(),
        "0 dead letters are requeued\n"
    );
}
