//! Data is escaped on every page.

use serde_json::json;

use crate::console::stage::{expect, on_both_stores};

/// Breaks out of text, of an attribute and of a script, wherever it is not escaped.
const NASTY: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;";

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_any_field_of_any_product_stays_text() {
    on_both_stores(async |stage| {
        stage.services.answer("second", 400, NASTY);
        stage.services.answer("undo-first", 400, NASTY);
        stage.services.answer("hook", 400, NASTY);
        stage.services.answer("topic", 400, NASTY);
        let step = |id: &str| {
            json!({
                "id": id, "title": NASTY, "retry": 0, "action": { "http": { "url": stage.services.url(id) } },
                "compensate": { "http": { "url": stage.services.url(&format!("undo-{id}")) }, "retry": 0 },
            })
        };
        let saga = |more: &str| json!({ "name": "nasty", "title": format!("{NASTY}{more}"), "metadata": { NASTY: NASTY }, "steps": [step("first"), step("second")] });
        expect(&stage.put("/v1/definitions/nasty?apply=true", &saga("").to_string()).await, 201);
        expect(&stage.put("/v1/definitions/nasty", &saga("2").to_string()).await, 201);
        let body = json!({
            "definition": "nasty", "correlation_id": NASTY, "input": { "text": NASTY, NASTY: [NASTY] },
            "attributes": { "nasty": NASTY },
        });
        let started = stage.api.run(&body).await;
        let stuck = started["id"].as_str().unwrap();
        stage.declare_waiting("slow").await;
        let waiting = stage.start_waiting("slow").await;
        stage.api.post(&format!("/v1/sagas/{waiting}/pause"), &json!({ "note": NASTY })).await;
        let terms = json!({ "url": format!("{}?q={}", stage.services.url("hook"), "%3Cscript%3E"), "event_types": ["*"], "max_retry_limit": 1, "headers": { "x-nasty": NASTY } });
        let subscription = expect(&stage.api.post("/v1/webhooks/subscriptions", &terms).await, 201)["id"].clone();
        let event = json!({ "type": "order.created", "id": NASTY, "payload": { NASTY: NASTY } });
        let told = expect(&stage.api.post("/v1/webhooks/events", &event).await, 202);
        let path = format!("/v1/webhooks/deliveries?event_id={}", told["event_id"]);
        let found = stage.until(&path, |page| page["items"][0]["status"] == "DeadLettered").await;
        let dead = &found["items"][0]["id"];
        let message = json!({ "topic": "parcels", "idempotency_key": NASTY, "ordering_key": NASTY, "payload": { NASTY: NASTY } });
        let message = expect(&stage.api.post("/v1/outbox", &message).await, 202)["id"].clone();
        stage.until(&format!("/v1/outbox/{message}"), |message| message["status"] == "aborted").await;
        let machine = json!({ "name": "nasty", "title": NASTY, "initial": "a", "states": ["a", "b"], "terminal": ["b"], "edges": [["a", "b"]], "can_fail": ["a"] });
        expect(&stage.put("/v1/lifecycles/nasty?apply=true", &machine.to_string()).await, 201);
        let key = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%3E";
        let lifecycle = format!("/lifecycles/nasty/{key}");
        let start = json!({ "correlation_id": NASTY, "input": { NASTY: NASTY } });
        expect(&stage.api.post(&format!("/v1{lifecycle}/start"), &start).await, 202);
        let failed = json!({ "error_kind": "internal", "message": NASTY });
        expect(&stage.api.post("/v1/lifecycles/nasty/other/start", &start).await, 202);
        expect(&stage.api.post("/v1/lifecycles/nasty/other/fail", &failed).await, 200);
        let alerts = stage.until("/v1/admin/alerts", |page| page["items"][0]["id"].is_i64()).await;
        let acknowledge = format!("/v1/admin/alerts/{}/acknowledge", alerts["items"][0]["id"]);
        stage.api.post(&acknowledge, &json!({ "note": NASTY })).await;
        stage.api.post(&format!("/v1/sagas/{stuck}/cancel?x=%3Cscript%3E"), &json!({})).await;

        let admin = stage.as_role("admin").await;
        let asked = form_urlencoded::byte_serialize(NASTY.as_bytes()).collect::<String>();
        let pages = [
            "/".to_owned(),
            "/sagas".to_owned(),
            format!("/sagas?correlation_id={asked}"),
            format!("/sagas?attr.nasty={asked}&definition={asked}"),
            format!("/sagas/bulk?action=resolve&attr.nasty={asked}"),
            format!("/sagas/{stuck}"),
            format!("/sagas/{waiting}"),
            "/definitions".to_owned(),
            "/definitions/nasty".to_owned(),
            "/new-definition?of=nasty".to_owned(),
            "/webhooks".to_owned(),
            format!("/webhooks/subscriptions/{subscription}"),
            "/webhooks/deliveries".to_owned(),
            format!("/webhooks/deliveries/{dead}"),
            format!("/webhooks/dead-letters?code={asked}"),
            format!("/webhooks/dead-letters/requeue?code={asked}"),
            format!("/outbox?topic={asked}"),
            "/outbox".to_owned(),
            format!("/outbox/{message}"),
            "/lifecycles".to_owned(),
            format!("/lifecycles/nasty?state={asked}"),
            "/lifecycles/nasty".to_owned(),
            lifecycle,
            "/lifecycles/nasty/other".to_owned(),
            "/alerts".to_owned(),
            "/audit".to_owned(),
            format!("/login?next={asked}"),
            format!("/find?id={asked}"),
            format!("/sagas/{asked}"),
            format!("/sagas?status={asked}"),
            format!("/sagas?{asked}=1"),
        ];
        let mut shown = 0;
        for path in pages {
            let page = admin.get(&path).await;
            assert!(page.status < 500, "{path}: {page:?}");
            for raw in ["<script>alert", "<img src=x", "'><img", "&amp;"] {
                assert!(!page.has(raw), "{path} has {raw}: {}", page.text);
            }
            shown += usize::from(page.has("&#60;script&#62;alert"));
        }
        assert!(shown >= 15, "it is shown on {shown} pages");
    })
    .await;
}
