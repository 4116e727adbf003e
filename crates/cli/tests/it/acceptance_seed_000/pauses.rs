//! Paused endpoints: until when and why, in every response with their subscription or deliveries.

use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{Open, expect, number, on_both_stores, with};
use crate::support::program::output_of;
use crate::support::within;

/// The answer at this path, once it meets a condition.
async fn once(open: &Open, path: &str, meets: impl Fn(&Value) -> bool) -> Value {
    within(async {
        loop {
            let found = open.get(path).await;
            if meets(&found) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
}

fn is_paused(of: &Value) -> bool {
    of["paused_until"].is_string() && of["paused_reason"].is_string()
}

fn is_unpaused(of: &Value) -> bool {
    of.get("paused_until") == Some(&Value::Null) && of.get("paused_reason") == Some(&Value::Null)
}

/// A page of the console.
async fn page(open: &Open, path: &str) -> String {
    let answer = open.client.get(path).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// What a command prints.
async fn printed(open: &Open, arguments: &[&str]) -> String {
    let server = format!("http://{}", open.client.address);
    let output = output_of(&[arguments, &["--server", &server]].concat()).await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn open_breaker_is_shown_until_the_endpoint_works_again() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open
            .subscribe(&with(stage.terms("a"), json!({ "max_delay": "50ms", "max_retry_limit": 900 })))
            .await;
        assert!(is_unpaused(&made), "{made}");
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        stage.receiver.be("a", Mood::Answers(500));
        let mut told = Vec::new();
        for nth in 0..5 {
            told.push(open.tell(&format!("o-{nth}")).await);
        }
        let paused = once(&open, &path, is_paused).await;
        let reason = paused["paused_reason"].as_str().unwrap();
        assert!(reason.starts_with("circuit breaker open"), "{paused}");
        stage.receiver.be("a", Mood::Takes);
        for told in &told {
            open.becomes(told, "Completed").await;
        }
        once(&open, &path, is_unpaused).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_shown_by_api_command_line_and_console() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&stage.terms("a")).await;
        let subscription = number(&made, "id").to_string();
        stage.receiver.be("a", Mood::Busy { times: 1, retry_after: 200 });
        let told = open.tell("o-1").await;
        let path = format!("/v1/webhooks/subscriptions/{subscription}");
        let paused = once(&open, &path, is_paused).await;
        let reason = "receiver sent Retry-After";
        assert_eq!(paused["paused_reason"], reason);
        let list = open.get("/v1/webhooks/subscriptions").await;
        assert_eq!(list["items"][0]["paused_until"], paused["paused_until"]);
        let waiting = open.becomes(&told, "PendingRetry").await;
        assert_eq!(
            (&waiting["paused_until"], &waiting["paused_reason"]),
            (&paused["paused_until"], &json!(reason))
        );
        let delivery = number(&waiting, "id").to_string();
        assert_eq!(open.deliveries_of(&told).await[0]["paused_reason"], reason);
        for arguments in [
            ["webhooks", "subscriptions", "show", &subscription],
            ["webhooks", "deliveries", "show", &delivery],
        ] {
            let text = printed(&open, &arguments).await;
            assert!(text.contains("paused until") && text.contains(reason), "{text}");
        }
        let text = printed(&open, &["webhooks", "subscriptions", "list"]).await;
        assert!(text.contains("paused") && text.contains("PAUSED UNTIL") && text.contains(reason), "{text}");
        let text = printed(&open, &["webhooks", "deliveries", "list"]).await;
        assert!(text.contains("PAUSED UNTIL"), "{text}");
        for path in [
            "/webhooks".to_owned(),
            format!("/webhooks/subscriptions/{subscription}"),
            "/webhooks/deliveries".to_owned(),
            format!("/webhooks/deliveries/{delivery}"),
        ] {
            let html = page(&open, &path).await.to_lowercase();
            assert!(html.contains("paused until") && html.contains(&reason.to_lowercase()), "{path}: {html}");
        }
        let nothing = expect(&open.change(number(&made, "id"), &json!({})).await, 200);
        assert!(is_paused(&nothing), "it names nothing: {nothing}");
        let changed = expect(&open.change(number(&made, "id"), &json!({ "timeout": "9s" })).await, 200);
        assert!(is_unpaused(&changed), "a change ends the pause: {changed}");
        assert!(is_unpaused(&open.delivery(number(&waiting, "id")).await));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_a_pause_until_its_node_is_gone() {
    on_both_stores(async |stage| {
        if !stage.place.is_shared() {
            return;
        }
        let sends = stage.open().await;
        let reads = stage.open_with(&[("BACKSTITCH_WEBHOOKS_CONCURRENCY", "0")]).await;
        let made = reads.subscribe(&stage.terms("a")).await;
        stage.receiver.be("a", Mood::Busy { times: 1, retry_after: 200 });
        let told = reads.tell("o-1").await;
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        assert_eq!(once(&reads, &path, is_paused).await["paused_reason"], "receiver sent Retry-After");
        let waiting = reads.becomes(&told, "PendingRetry").await;
        assert!(is_paused(&waiting), "{waiting}");
        sends.kill().await;
        once(&reads, &path, is_unpaused).await;
        assert!(is_unpaused(&reads.delivery(number(&waiting, "id")).await));
    })
    .await;
}
