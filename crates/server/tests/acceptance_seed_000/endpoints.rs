//! Receivers that are gone, lead elsewhere or hang harm nobody but themselves.

use serde_json::{Value, json};

use crate::receiver::Mood;
use crate::stage::{expect, number, on_both_stores, with};
use crate::support::within;

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_is_disabled_and_gets_everything_once_it_is_enabled_again() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&stage.terms("a")).await;
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
async fn a_receiver_that_hangs_times_out_and_holds_up_nobody_else() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&[("BACKSTITCH_WEBHOOKS_CONCURRENCY", "8")]).await;
        let slow = json!({ "event_types": ["slow.*"], "timeout": "1s", "max_retry_limit": 1, "max_concurrency": 100 });
        open.subscribe(&with(stage.terms("slow"), slow)).await;
        open.subscribe(&with(stage.terms("quick"), json!({ "event_types": ["quick.*"] }))).await;
        stage.receiver.be("slow", Mood::Hangs);
        let mut late = Vec::new();
        for nth in 0..20 {
            late.push(open.tell_of("slow.event", &format!("s-{nth}")).await);
        }
        stage.receiver.has_heard("slow", 1).await;
        let mut quick = Vec::new();
        for nth in 0..20 {
            quick.push(open.tell_of("quick.event", &format!("q-{nth}")).await);
        }
        for told in &quick {
            open.becomes(told, "Completed").await;
        }
        assert!(stage.receiver.heard("slow").len() < 20, "the others had not even been tried");
        let dead = open.becomes(&late[0], "DeadLettered").await;
        assert_eq!((&dead["final_error_code"], &dead["attempts"][0]["response_code"]), (&json!("timeout"), &Value::Null));
    })
    .await;
}
