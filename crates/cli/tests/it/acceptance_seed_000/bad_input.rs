//! Invalid requests are refused with the path of the error and a remedy, and change nothing.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_000::stage::{Stage, number, on_both_stores, with};
use crate::support::{Answer, on_both};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The places of what is wrong.
#[track_caller]
fn places(refused: &Answer) -> Vec<String> {
    assert_eq!((refused.status, refused.problem()), (422, "invalid-fields".to_owned()), "{refused:?}");
    let problems = refused.json()["problems"].as_array().unwrap().clone();
    assert!(problems.iter().all(|problem| problem["message"].as_str().unwrap().len() > 3), "{problems:?}");
    problems.iter().map(|problem| problem["place"].as_str().unwrap().to_owned()).collect()
}

fn subscription(change: Value) -> Value {
    with(json!({ "url": "https://example.com/in", "event_types": ["order.*"] }), change)
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_subscription_is_refused_with_all_errors() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&[("BACKSTITCH_EGRESS_ALLOW", "127.0.0.1")]).await;
        let post = async |body: Value| open.client.post("/v1/webhooks/subscriptions", &body).await;
        for url in [
            "", "nowhere", "ftp://example.com/", "file:///etc/passwd", "//example.com/", "http://me:secret@example.com/",
            "http://127.0.0.2/", "http://10.0.0.1/", "http://169.254.169.254/latest", "http://[::1]/", "http://2130706434/",
            "http://[::ffff:10.0.0.1]/", "http://0/", "http://example.com/\r\nHost: inside", "http://",
            "http:///x", "http://@example.com/",
        ] {
            let refused = post(subscription(json!({ "url": url }))).await;
            assert!(places(&refused).iter().all(|place| place == "url"), "{url}: {refused:?}");
            assert!(!refused.detail().contains("secret@"), "{}", refused.detail());
        }
        for (headers, place) in [
            (json!({ "Host": "inside" }), "headers.Host"),
            (json!({ "Content-Length": "1" }), "headers.Content-Length"),
            (json!({ "webhook-id": "forged" }), "headers.webhook-id"),
            (json!({ "X-Forwarded-For": "1.2.3.4" }), "headers.X-Forwarded-For"),
            (json!({ "x-a": "b\r\nwebhook-id: forged" }), "headers.x-a"),
            (json!({ "x a": "b" }), "headers.x a"),
            (json!({ "x-a": 7 }), "headers.x-a"),
            (json!({ "x-a": "***" }), "headers.x-a"),
            (json!(["x-a"]), "headers"),
        ] {
            assert_eq!(places(&post(subscription(json!({ "headers": headers }))).await), [place]);
        }
        for types in [json!([]), json!(["order created"]), json!(["*.created"]), json!([""]), json!(["a..b"]), json!(["a", "b", "a"])] {
            assert_eq!(places(&post(subscription(json!({ "event_types": types }))).await), ["event_types"], "{types}");
        }
        for secret in ["", "hush-hush", "whsec_hush", "whsec_aHVzaA=="] {
            let refused = post(subscription(json!({ "secret": secret }))).await;
            assert_eq!(places(&refused), ["secret"]);
            assert!(secret.is_empty() || !refused.detail().contains(secret), "{}", refused.detail());
        }
        let all = json!({
            "url": "ftp://x", "event_types": ["order*"], "headers": { "host": "x" }, "max_retry_limit": 0, "base_delay": "soon",
            "max_delay": "40days", "timeout": "2h", "max_concurrency": 0, "rate_limit": 0, "enabled": "yes", "max_retries": 3,
        });
        let mut found = places(&post(all).await);
        found.sort();
        found.dedup();
        let expected = [
            "base_delay", "enabled", "event_types", "headers.host", "max_concurrency", "max_delay", "max_retries",
            "max_retry_limit", "rate_limit", "timeout", "url",
        ];
        assert_eq!(found, expected);
        let misspelt = post(subscription(json!({ "rate_limt": 3 }))).await;
        assert!(misspelt.detail().contains("did you mean `rate_limit`?"), "{}", misspelt.detail());
        assert_eq!(places(&post(json!({})).await), ["url", "event_types"]);
        let twice = r#"{"url":"https://a.example/","url":"https://b.example/","event_types":["*"]}"#;
        let refused = open.client.send(Method::POST, "/v1/webhooks/subscriptions", &JSON, twice).await;
        assert!(refused.status == 422 && refused.detail().contains("twice"), "{refused:?}");
        assert_eq!(open.get("/v1/webhooks/subscriptions").await["items"], json!([]), "nothing was kept");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_changes_nothing() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let mut made = open.subscribe(&stage.terms("a")).await;
        made.as_object_mut().unwrap().remove("secret");
        let id = number(&made, "id");
        for (change, place) in [
            (json!({ "url": "http://10.0.0.1/", "enabled": false }), "url"),
            (json!({ "url": null }), "url"),
            (json!({ "max_delay": "10ms" }), "max_delay"),
            (json!({ "event_types": ["order.*", "order.*"] }), "event_types"),
            (json!({ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }), "secret"),
            (json!({ "enabeld": false }), "enabeld"),
        ] {
            assert_eq!(places(&open.change(id, &change).await), [place]);
        }
        let rotate = format!("/v1/webhooks/subscriptions/{id}/rotate-secret");
        assert_eq!(places(&open.client.post(&rotate, &json!({ "secret": "hush" })).await), ["secret"]);
        assert_eq!(places(&open.client.post(&rotate, &json!({ "overlap": "31days" })).await), ["overlap"]);
        assert_eq!(places(&open.client.post(&rotate, &json!({ "overlap": "soon" })).await), ["overlap"]);
        let replay = format!("/v1/webhooks/subscriptions/{id}/replay");
        let backwards = json!({
            "since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z", "replay_id": "again"
        });
        assert_eq!(places(&open.client.post(&replay, &backwards).await), ["until"]);
        let nameless =
            json!({ "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "replay_id": "" });
        assert_eq!(places(&open.client.post(&replay, &nameless).await), ["replay_id"]);
        let range = json!({ "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z" });
        assert_eq!(places(&open.client.post(&replay, &range).await), ["replay_id"]);
        let lost = with(range, json!({ "replay_id": "again", "cursor": "17" }));
        assert_eq!(places(&open.client.post(&replay, &lost).await), ["cursor"]);
        assert_eq!(
            places(
                &open
                    .client
                    .post(&format!("/v1/webhooks/subscriptions/{id}/test"), &json!({ "type": "a b" }))
                    .await
            ),
            ["type"]
        );
        assert_eq!(open.get(&format!("/v1/webhooks/subscriptions/{id}")).await, made);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_is_refused_and_the_next_one_is_taken() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        for (event, place) in [
            (json!({ "type": "", "payload": 1 }), "type"),
            (json!({ "type": "order created", "payload": 1 }), "type"),
            (json!({ "type": "order.*", "payload": 1 }), "type"),
            (json!({ "type": "a".repeat(201), "payload": 1 }), "type"),
            (json!({ "type": 7, "payload": 1 }), "type"),
            (json!({ "type": "a", "payload": 1, "id": "" }), "id"),
            (json!({ "type": "a", "payload": 1, "id": "i".repeat(201) }), "id"),
            (json!({ "type": "a", "payload": 1, "id": "a\u{0}b" }), "id"),
            (json!({ "type": "a", "payload": 1, "ids": "x" }), "ids"),
        ] {
            assert_eq!(places(&open.client.post("/v1/webhooks/events", &event).await), [place], "{event}");
        }
        assert_eq!(open.client.post("/v1/webhooks/events", &json!({ "type": "a" })).await.status, 422);
        assert_eq!(open.client.post("/v1/webhooks/events", &json!([])).await.status, 422);
        let giant = json!({ "type": "a", "payload": "x".repeat(2 << 20) });
        let refused = open.client.post("/v1/webhooks/events", &giant).await;
        assert_eq!((refused.status, refused.problem()), (413, "too-large".to_owned()));
        let deep = format!("{{\"type\":\"a\",\"payload\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        let refused = open.client.send(Method::POST, "/v1/webhooks/events", &JSON, deep).await;
        assert_eq!((refused.status, refused.problem()), (400, "json-too-deep".to_owned()));
        assert_eq!(open.client.send(Method::POST, "/v1/webhooks/events", &JSON, "{").await.status, 400);
        let kept = stage.place.rows("select count(*) from webhook_events").await;
        assert_eq!(kept, [[Some("0".to_owned())]]);
        let told = open.tell("o-1").await;
        open.becomes(&told, "Completed").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_object_is_named_by_kind() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let webhooks = |path: &str| format!("/v1/webhooks/{path}");
        for (path, problem) in [
            ("subscriptions/999", "subscription-not-found"),
            ("events/999", "event-not-found"),
            ("deliveries/999", "delivery-not-found"),
            ("dead-letters/999", "dead-letter-not-found"),
        ] {
            let missing = open.client.get(&webhooks(path)).await;
            assert_eq!((missing.status, missing.problem().as_str()), (404, problem));
            for wrong in ["x", "1.5", "99999999999999999999"] {
                let refused = open.client.get(&webhooks(&path.replace("999", wrong))).await;
                assert_eq!((refused.status, refused.problem()), (400, "bad-id".to_owned()), "{path} {wrong}");
            }
        }
        let range = json!({
            "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "replay_id": "again"
        });
        for (path, body, problem) in [
            ("subscriptions/999/rotate-secret", json!({}), "subscription-not-found"),
            ("subscriptions/999/test", json!({}), "subscription-not-found"),
            ("subscriptions/999/replay", range, "subscription-not-found"),
            ("dead-letters/999/requeue", json!({}), "dead-letter-not-found"),
        ] {
            let missing = open.client.post(&webhooks(path), &body).await;
            assert_eq!((missing.status, missing.problem().as_str()), (404, problem));
        }
        assert_eq!(open.change(999, &json!({ "enabled": true })).await.problem(), "subscription-not-found");
        for query in [
            "deliveries?status=completed",
            "deliveries?event_id=x",
            "deliveries?subscription_id=0",
            "deliveries?limit=501",
            "deliveries?cursor=-1",
            "dead-letters?since=yesterday",
            "dead-letters?requeued=no",
            "dead-letters?ulimit=3",
            "subscriptions?limit=0",
            "events/1?x=1",
        ] {
            let refused = open.client.get(&webhooks(query)).await;
            assert_eq!((refused.status, refused.problem()), (400, "bad-query".to_owned()), "{query}");
        }
        for nothing in ["dead-letters?since=-005000-01-01T00:00:00Z", "dead-letters?final_error_code=%00"] {
            assert_eq!(open.get(&webhooks(nothing)).await["items"], json!([]), "{nothing}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_secret_postgres_keeps_events_and_says_why() {
    on_both(async |place| {
        if !place.is_shared() {
            return;
        }
        let stage = Stage { place, receiver: crate::acceptance_seed_000::receiver::Receiver::start().await };
        let open = stage.open().await;
        let made = open.subscribe(&stage.terms("a")).await;
        open.kill().await;
        let open = stage.open_with(&[("BACKSTITCH_SECRET", "")]).await;
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        let create = open.client.post("/v1/webhooks/subscriptions", &stage.terms("a")).await;
        let test = open.client.post(&format!("{path}/test"), &json!({})).await;
        let rotate = open.client.post(&format!("{path}/rotate-secret"), &json!({})).await;
        let change = open.change(number(&made, "id"), &json!({ "enabled": true })).await;
        for refused in [create, test, rotate, change] {
            assert_eq!((refused.status, refused.problem()), (409, "webhooks-not-configured".to_owned()));
            assert!(refused.detail().contains("BACKSTITCH_SECRET"), "{}", refused.detail());
        }
        let told = open.tell("o-1").await;
        assert_eq!(told["deliveries"], 1);
        open.kill().await;
        let open = stage.open().await;
        open.becomes(&told, "Completed").await;
    })
    .await;
}
