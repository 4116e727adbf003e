//! Subscriptions are created, listed, changed, tested and deleted.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{expect, number, on_both_stores, with};

#[tokio::test(flavor = "multi_thread")]
async fn s6_3_subscription_has_defaults_and_changes_only_given_fields() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let least = json!({ "url": stage.receiver.url("a"), "event_types": ["order.*"] });
        let answer = open.client.post("/v1/webhooks/subscriptions", &least).await;
        let made = expect(&answer, 201);
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        assert_eq!(answer.headers["location"], path.as_str());
        let usual = json!({
            "max_retry_limit": 8, "base_delay": "5s", "max_delay": "1h", "timeout": "15s", "max_concurrency": 16,
            "rate_limit": null, "headers": {}, "enabled": true, "disabled_at": null, "disabled_reason": null,
        });
        for (name, value) in usual.as_object().unwrap() {
            assert_eq!(&made[name], value, "{name}");
        }
        let change = json!({ "rate_limit": 5, "base_delay": 1.5, "headers": { "x-a": "b" }, "event_types": ["*"] });
        let changed = expect(&open.change(number(&made, "id"), &change).await, 200);
        let expected = json!({ "rate_limit": 5, "base_delay": "1s 500ms", "headers": { "x-a": "***" }, "event_types": ["*"] });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&changed[name], value, "{name}");
        }
        assert_eq!((&changed["url"], &changed["timeout"]), (&made["url"], &made["timeout"]));
        let unlimited = open.change(number(&made, "id"), &json!({ "rate_limit": null, "enabled": false })).await;
        let unlimited = expect(&unlimited, 200);
        assert_eq!((&unlimited["rate_limit"], &unlimited["enabled"]), (&Value::Null, &json!(false)));
        assert_eq!(open.get(&path).await, unlimited);

        let other = open.subscribe(&least).await;
        let page = open.get("/v1/webhooks/subscriptions?limit=1").await;
        assert_eq!(page["items"][0]["id"], other["id"]);
        let rest = format!("/v1/webhooks/subscriptions?limit=1&cursor={}", page["next_cursor"]);
        let rest = open.get(&rest).await;
        assert_eq!((&rest["items"], &rest["next_cursor"]), (&json!([unlimited]), &Value::Null));

        assert_eq!(open.client.send(Method::DELETE, &path, &[], "").await.status, 204);
        for gone in [open.client.get(&path).await, open.client.send(Method::DELETE, &path, &[], "").await] {
            assert_eq!((gone.status, gone.problem()), (404, "subscription-not-found".to_owned()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_3_defaults_apply_at_decision_time() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&[("BACKSTITCH_WEBHOOKS_MAX_RETRY_LIMIT", "3")]).await;
        let least = json!({ "url": stage.receiver.url("a"), "event_types": ["*"] });
        let made = open.subscribe(&least).await;
        let all = json!(["max_retry_limit", "base_delay", "max_delay"]);
        assert_eq!((&made["max_retry_limit"], &made["defaults"]), (&json!(3), &all));
        let id = number(&made, "id");
        let own = expect(&open.change(id, &json!({ "max_retry_limit": 5 })).await, 200);
        assert_eq!(
            (&own["max_retry_limit"], &own["defaults"]),
            (&json!(5), &json!(["base_delay", "max_delay"]))
        );
        let reset = expect(&open.change(id, &json!({ "max_retry_limit": null })).await, 200);
        assert_eq!((&reset["max_retry_limit"], &reset["defaults"]), (&json!(3), &all));
        open.kill().await;

        // Another configuration holds for subscriptions that exist, and for decisions about their deliveries.
        stage.receiver.be("a", Mood::Answers(500));
        let settings =
            [("BACKSTITCH_WEBHOOKS_MAX_RETRY_LIMIT", "2"), ("BACKSTITCH_WEBHOOKS_BASE_DELAY", "1ms")];
        let open = stage.open_with(&settings).await;
        let shown = open.get(&format!("/v1/webhooks/subscriptions/{id}")).await;
        assert_eq!((&shown["max_retry_limit"], &shown["base_delay"]), (&json!(2), &json!("1ms")));
        let told = open.tell("o-1").await;
        assert_eq!(open.becomes(&told, "DeadLettered").await["attempt_count"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_3_absent_fields_follow_the_settings() {
    on_both_stores(async |stage| {
        let settings = [
            ("BACKSTITCH_WEBHOOKS_MAX_RETRY_LIMIT", "3"),
            ("BACKSTITCH_WEBHOOKS_BASE_DELAY", "2s"),
            ("BACKSTITCH_WEBHOOKS_MAX_DELAY", "9s"),
        ];
        let open = stage.open_with(&settings).await;
        let least = json!({ "url": stage.receiver.url("a"), "event_types": ["order.*"] });
        let made = open.subscribe(&least).await;
        assert_eq!((&made["max_retry_limit"], &made["base_delay"]), (&json!(3), &json!("2s")));
        assert_eq!(made["max_delay"], "9s");
        let own = json!({ "url": stage.receiver.url("a"), "event_types": ["*"], "max_retry_limit": 5 });
        let own = open.subscribe(&own).await;
        assert_eq!((&own["max_retry_limit"], &own["base_delay"]), (&json!(5), &json!("2s")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_same_time_are_all_made() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let id = number(&open.subscribe(&stage.terms("a")).await, "id");
        let changes =
            [json!({ "max_retry_limit": 3 }), json!({ "timeout": "7s" }), json!({ "max_concurrency": 2 })];
        let answers = futures::future::join_all(changes.iter().map(|change| open.change(id, change))).await;
        for answer in &answers {
            expect(answer, 200);
        }
        let now = open.get(&format!("/v1/webhooks/subscriptions/{id}")).await;
        assert_eq!(
            (&now["max_retry_limit"], &now["timeout"], &now["max_concurrency"]),
            (&json!(3), &json!("7s"), &json!(2))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_call_returns_its_result_and_leaves_nothing() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&with(stage.terms("a"), json!({ "enabled": false }))).await;
        let test = format!("/v1/webhooks/subscriptions/{}/test", made["id"]);
        let tried = expect(&open.client.send(Method::POST, &test, &[], "").await, 200);
        assert_eq!(
            (&tried["arrived"], &tried["response_code"], &tried["error_code"]),
            (&json!(true), &json!(204), &Value::Null)
        );
        let heard = stage.receiver.has_heard("a", 1).await.remove(0);
        assert_eq!(heard.id(), tried["webhook_id"]);
        let body: Value = serde_json::from_slice(&heard.body).unwrap();
        assert_eq!((&body["type"], &body["subscription_id"]), (&json!("backstitch.test"), &made["id"]));
        stage.receiver.be("a", Mood::Answers(500));
        let tried = expect(&open.client.post(&test, &json!({ "payload": [1] })).await, 200);
        assert_eq!(
            (&tried["arrived"], &tried["error_code"], &tried["body"]),
            (&json!(false), &json!("http_500"), &json!("a says no"))
        );
        assert_eq!(stage.receiver.heard("a")[1].body, "[1]");
        stage.receiver.be("a", Mood::Hangs);
        // Only this call is to time out.
        expect(&open.change(number(&made, "id"), &json!({ "timeout": "2s" })).await, 200);
        assert_eq!(expect(&open.client.post(&test, &json!({})).await, 200)["error_code"], "timeout");
        assert_eq!(open.get("/v1/webhooks/deliveries").await["items"], json!([]));
        assert_eq!(stage.receiver.heard("a").len(), 3, "it is not tried again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_a_deleted_subscription_are_dead_lettered() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&with(stage.terms("a"), json!({ "enabled": false }))).await;
        let told = open.tell("o-1").await;
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        assert_eq!(open.client.send(Method::DELETE, &path, &[], "").await.status, 204);
        let dead = open.becomes(&told, "DeadLettered").await;
        assert_eq!(dead["final_error_code"], "subscription_deleted");
        let requeue = format!("/v1/webhooks/dead-letters/{}/requeue", dead["id"]);
        let refused = open.client.post(&requeue, &json!({})).await;
        assert_eq!((refused.status, refused.problem()), (404, "subscription-not-found".to_owned()));
        assert_eq!(open.tell("o-2").await["deliveries"], 0);
        assert!(stage.receiver.heard("a").is_empty());
    })
    .await;
}
