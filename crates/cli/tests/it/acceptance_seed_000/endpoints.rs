//! Receivers that are gone, redirect or hang affect only themselves.

use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{expect, number, on_both_stores, with};
use crate::support::within;

#[tokio::test(flavor = "multi_thread")]
async fn gone_receiver_is_disabled_and_gets_all_when_enabled() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        // Nothing is tried again before it is disabled.
        let made = open.subscribe(&with(stage.terms("a"), json!({ "base_delay": "2s" }))).await;
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        stage.receiver.be("a", Mood::Answers(410));
        let first = open.tell("o-1").await;
        let disabled = within(async {
            loop {
                let now = open.get(&path).await;
                if now["enabled"] == false {
                    return now;
                }
            }
        })
        .await;
        assert_eq!(disabled["disabled_reason"], "the endpoint answered 410 Gone");
        assert!(disabled["disabled_at"].is_string());
        let second = open.tell("o-2").await;
        assert_eq!(second["deliveries"], 1, "events go on being kept for it");
        stage.receiver.be("a", Mood::Takes);
        let heard = stage.receiver.heard("a").len();
        let enabled = expect(&open.change(number(&made, "id"), &json!({ "enabled": true })).await, 200);
        assert_eq!((&enabled["enabled"], &enabled["disabled_reason"]), (&json!(true), &Value::Null));
        let arrived = open.becomes(&first, "Completed").await;
        assert_eq!(arrived["attempts"][0]["error_code"], "http_410");
        open.becomes(&second, "Completed").await;
        assert_eq!(stage.receiver.heard("a").len(), heard + 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_keeps_its_address_and_header_names() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let terms = with(
            stage.terms("a"),
            json!({ "headers": { "x-tenant": "acme", "authorization": "Bearer s3cret" } }),
        );
        let made = open.subscribe(&terms).await;
        stage.receiver.be("a", Mood::FailsFirst(1));
        let told = open.tell("o-1").await;
        let first = open.becomes(&told, "Completed").await;
        expect(&open.change(number(&made, "id"), &json!({ "url": stage.receiver.url("b") })).await, 200);
        let second = open.becomes(&open.tell("o-2").await, "Completed").await;
        let first = open.delivery(number(&first, "id")).await;
        for attempt in first["attempts"].as_array().unwrap() {
            assert_eq!(attempt["url"], stage.receiver.url("a"), "{attempt}");
            let names: Vec<&str> = attempt["request_headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect();
            for name in ["authorization", "webhook-id", "webhook-signature", "webhook-timestamp", "x-tenant"]
            {
                assert!(names.contains(&name), "{name}: {attempt}");
            }
            let heard = &stage.receiver.heard("a")[0].headers;
            assert!(names.iter().all(|name| heard.contains_key(*name)), "{names:?} {heard:?}");
            assert!(!attempt.to_string().contains("s3cret"), "{attempt}");
        }
        assert_eq!(first["attempts"].as_array().unwrap().len(), 2);
        assert_eq!(second["attempts"][0]["url"], stage.receiver.url("b"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&with(stage.terms("a"), json!({ "max_retry_limit": 1 }))).await;
        stage.receiver.be("a", Mood::LeadsTo(stage.receiver.url("b")));
        let told = open.tell("o-1").await;
        let dead = open.becomes(&told, "DeadLettered").await;
        assert_eq!(
            (&dead["final_error_code"], &dead["attempts"][0]["response_code"]),
            (&json!("redirect"), &json!(307))
        );
        assert_eq!((stage.receiver.heard("a").len(), stage.receiver.heard("b").len()), (1, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_receiver_times_out_and_delays_no_other() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&[("BACKSTITCH_WEBHOOKS_CONCURRENCY", "8")]).await;
        let slow = json!({ "event_types": ["slow.*"], "timeout": "60s", "max_concurrency": 100 });
        open.subscribe(&with(stage.terms("slow"), slow)).await;
        let late = json!({ "event_types": ["late.*"], "timeout": "500ms", "max_retry_limit": 1 });
        open.subscribe(&with(stage.terms("late"), late)).await;
        open.subscribe(&with(stage.terms("quick"), json!({ "event_types": ["quick.*"] }))).await;
        stage.receiver.be("slow", Mood::Hangs);
        stage.receiver.be("late", Mood::Hangs);
        let mut hanging = Vec::new();
        for nth in 0..20 {
            hanging.push(open.tell_of("slow.event", &format!("s-{nth}")).await);
        }
        stage.receiver.has_heard("slow", 1).await;
        for nth in 0..20 {
            let quick = open.tell_of("quick.event", &format!("q-{nth}")).await;
            open.becomes(&quick, "Completed").await;
        }
        assert!(stage.receiver.heard("slow").len() < 8, "the last places are for others");
        let given_up = open.tell_of("late.event", "l-1").await;
        let dead = open.becomes(&given_up, "DeadLettered").await;
        let attempt = &dead["attempts"][0];
        assert_eq!((&dead["final_error_code"], &attempt["response_code"]), (&json!("timeout"), &Value::Null));
        stage.receiver.be("slow", Mood::Takes);
        for told in &hanging {
            open.becomes(told, "Completed").await;
        }
    })
    .await;
}
