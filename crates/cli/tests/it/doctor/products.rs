//! Webhooks and lifecycles that make no progress.

use serde_json::{Value, json};

use crate::doctor::stage::{JSON, Open, in_seconds, open};
use crate::support::{Place, on_both};

/// A subscription to everything at an address without a listener.
async fn subscribe(open: &Open, enabled: bool) -> Value {
    let terms = json!({
        "url": "http://127.0.0.1:1/", "event_types": ["*"], "max_retry_limit": 1, "enabled": enabled,
    });
    open.post("/v1/webhooks/subscriptions", &terms, 201).await["id"].clone()
}

async fn tell(open: &Open) {
    open.post("/v1/webhooks/events", &json!({ "type": "order.created", "payload": {} }), 202).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_dead_letters_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let subscription = subscribe(&open, true).await;
        tell(&open).await;
        let finding = open.finds("dead_letters", "warning", &format!("subscription {subscription}")).await;
        let message = finding["message"].as_str().unwrap();
        assert!(message.starts_with("1 webhooks") && message.contains("1 of all"), "{finding}");
        // As many in the hour before: it does not grow.
        let earlier = in_seconds(&place, -5400);
        let letter = format!(
            "insert into dead_letters (saga_id, event_id, subscription_id, created_at, attempt_count, webhook_id)
             values (9999, 1, {subscription}, {earlier}, 1, 'msg_1')"
        );
        place.rows(&letter).await;
        open.is_well("dead_letters").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_subscription_with_a_backlog_is_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let subscription = subscribe(&open, false).await;
        let disabled = async || {
            let found = open.found("webhooks").await;
            found.into_iter().filter(|(_, subject)| !subject.is_empty()).count()
        };
        assert_eq!(disabled().await, 0, "nothing waits for it");
        tell(&open).await;
        let finding = open.finds("webhooks", "error", &format!("subscription {subscription}")).await;
        assert!(finding["message"].as_str().unwrap().contains("1 deliveries wait"), "{finding}");
        let path = format!("/v1/webhooks/subscriptions/{subscription}");
        let change = json!({ "enabled": true }).to_string();
        open.client.send(hyper::Method::PATCH, &path, &JSON, change).await;
        crate::support::within(async { while disabled().await > 0 {} }).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_webhook_is_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[("BACKSTITCH_WEBHOOKS_CONCURRENCY", "0")]).await;
        subscribe(&open, true).await;
        tell(&open).await;
        open.finds("webhooks", "error", "").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_and_unclaimed_lifecycles_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[("BACKSTITCH_LIFECYCLE_CONCURRENCY", "0")]).await;
        let machine = json!({
            "name": "door", "initial": "open", "states": ["open", "closing", "closed"], "terminal": ["closed"],
            "edges": [["open", "closing"], ["closing", "closed"]], "can_fail": ["closing"],
            "stuck_after": {"open": "1ms"},
            "actions": {"closing": {"http": {"url": "http://127.0.0.1:1/"}, "next": {"ok": "closed"}}},
        });
        let path = "/v1/lifecycles/door?apply=true";
        let declared = open.client.send(hyper::Method::PUT, path, &JSON, machine.to_string()).await;
        assert_eq!(declared.status, 201, "{declared:?}");
        open.post("/v1/lifecycles/door/d-1/start", &json!({}), 202).await;
        open.finds("lifecycles", "error", "door/d-1").await;
        open.post("/v1/lifecycles/door/d-1/transition", &json!({ "to": "closing" }), 200).await;
        let finding = crate::support::within(async {
            loop {
                let finding = open.finds("lifecycles", "error", "door/d-1").await;
                if finding["message"].as_str().unwrap().contains("`closing`") {
                    return finding;
                }
            }
        })
        .await;
        assert!(finding["action"].as_str().unwrap().contains("lifecycle.concurrency"), "{finding}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_job_without_a_worker_is_found_until_one_comes() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let machine = json!({
            "name": "gate", "initial": "closing", "states": ["closing", "closed"], "terminal": ["closed"],
            "edges": [["closing", "closed"]], "can_fail": ["closing"],
            "actions": {"closing": {"worker": {"queue": "porters"}, "next": {"ok": "closed"}, "timeout": "1m"}},
        });
        let path = "/v1/lifecycles/gate?apply=true";
        let declared = open.client.send(hyper::Method::PUT, path, &JSON, machine.to_string()).await;
        assert_eq!(declared.status, 201, "{declared:?}");
        open.post("/v1/lifecycles/gate/g-1/start", &json!({}), 202).await;
        let finding = open.finds("jobs", "warning", "product/lifecycle/porters").await;
        assert!(finding["action"].as_str().unwrap().contains("[\"porters\"]"), "{finding}");
        let health = open.client.get("/v1/health").await.json();
        assert_eq!(health["waiting_for_workers"][0]["queue"], "porters", "{health}");
        let gate = open.client.get("/v1/lifecycles/gate/g-1").await.json();
        assert_eq!((&gate["state"], &gate["waits_for_worker"]), (&json!("closing"), &json!("porters")));
        let job = open.lease("porters", 60).await;
        open.is_well("jobs").await;
        let gate = open.client.get("/v1/lifecycles/gate/g-1").await.json();
        assert_eq!(gate["waits_for_worker"], Value::Null, "{gate}");
        let log = open.client.get("/v1/lifecycles/gate/g-1/log").await.json();
        let leased = &log["items"][1];
        assert_eq!((&leased["type"], leased["until"].is_string()), (&json!("action.leased"), true), "{log}");
        open.report(&job, "complete", json!({})).await;
        let gate = open.client.get("/v1/lifecycles/gate/g-1").await.json();
        assert_eq!(gate["state"], "closed", "{gate}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_webhook_of_a_paused_endpoint_names_the_pause() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let terms = json!({
            "url": "http://127.0.0.1:1/", "event_types": ["*"], "max_retry_limit": 900, "base_delay": "1ms", "max_delay": "1ms",
        });
        let subscription = open.post("/v1/webhooks/subscriptions", &terms, 201).await["id"].clone();
        for _ in 0..3 {
            tell(&open).await;
        }
        let paused = format!("paused: subscription {subscription} until ");
        crate::support::within(async {
            loop {
                let finding = open.finds("webhooks", "warning", "").await;
                let message = finding["message"].as_str().unwrap().to_owned();
                if message.contains(&paused) && message.contains("(circuit breaker open") {
                    return;
                }
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_is_not_named_where_another_webhook_is_late() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let subscribe = async |kind: &str, enabled: bool| {
            let terms = json!({
                "url": "http://127.0.0.1:1/", "event_types": [kind], "enabled": enabled,
                "max_retry_limit": 900, "base_delay": "1ms", "max_delay": "1ms",
            });
            open.post("/v1/webhooks/subscriptions", &terms, 201).await["id"].clone()
        };
        let tell = async |kind: &str| {
            open.post("/v1/webhooks/events", &json!({ "type": kind, "payload": {} }), 202).await
        };
        subscribe("is.late", false).await;
        tell("is.late").await;
        let paused = subscribe("is.paused", true).await;
        tell("is.paused").await;
        let path = format!("/v1/webhooks/subscriptions/{paused}");
        crate::support::within(async {
            while open.client.get(&path).await.json()["paused_until"].is_null() {}
        })
        .await;
        let finding = open.finds("webhooks", "warning", "").await;
        let message = finding["message"].as_str().unwrap();
        assert!(message.ends_with("has not arrived"), "the late one waits for no pause: {finding}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_lifecycle_requests_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        assert_eq!(open.found("dead_letters").await, []);
        let (now, body) = (in_seconds(&place, 0), if place.is_shared() { "'\\x00'" } else { "x'00'" });
        let letter = format!(
            "insert into lifecycle_dead_letters (at, source, body, reason, mark)
             values ({now}, 'nats:SITES', {body}, 'no JSON', 'm-1')"
        );
        place.rows(&letter).await;
        open.finds("dead_letters", "warning", "requests for lifecycles").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_that_the_user_may_not_take_are_found() {
    let address = backstitch_testkit::postgres::empty_database().await;
    let owner = Place::Postgres(address.clone());
    let name = owner.rows("select current_database()").await[0][0].clone().unwrap();
    let user = format!("{name}_plain");
    owner
        .rows(&format!("create role \"{user}\" login; grant create on database \"{name}\" to \"{user}\""))
        .await;
    let place = Place::Postgres(address.replacen("postgres@", &format!("{user}@"), 1));
    let open = open(&place, &[]).await;
    let finding = open.finds("webhooks", "warning", "database roles").await;
    assert!(finding["message"].as_str().unwrap().contains("backstitch_orchestrator"), "{finding}");
    assert!(finding["action"].as_str().unwrap().contains("grant_webhook_roles"), "{finding}");
}
