//! Data is escaped.

use hyper::Method;
use serde_json::json;

use crate::console_in_browser::stage::Stage;

/// Markup and script for every way in which text could become more than that.
const HOSTILE: &str =
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\"'><b>&lt;{{7*7}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_full_of_markup_and_script_stays_text_on_every_page() {
    let stage = Stage::set().await;
    let admin = &stage.admin;
    let steps = json!([{ "id": "pack", "title": HOSTILE, "action": { "worker": { "queue": "never" } } }]);
    let definition =
        json!({ "name": "hostile", "title": HOSTILE, "steps": steps, "metadata": { "a": HOSTILE } });
    let typed = [("content-type", "application/json")];
    let put =
        admin.send(Method::PUT, "/v1/definitions/hostile?apply=true", &typed, definition.to_string()).await;
    assert_eq!(put.status, 201, "{put:?}");
    let wish = json!({ "definition": "hostile", "correlation_id": HOSTILE, "attributes": { "note": HOSTILE }, "input": { HOSTILE: HOSTILE } });
    let saga = admin.start(&wish).await;
    let paused = admin.post(&format!("/v1/sagas/{saga}/pause"), &json!({ "note": HOSTILE })).await;
    assert_eq!(paused.status, 202, "{paused:?}");
    let services = &stage.services;
    services.answer("hook", 400, HOSTILE);
    services.answer("topic", 400, HOSTILE);
    let terms = json!({
        "url": services.url("hook"), "event_types": ["odd.*"], "max_retry_limit": 1, "headers": { "x-odd": HOSTILE },
    });
    let subscription = stage.post("/v1/webhooks/subscriptions", &terms).await["id"].clone();
    let event = json!({ "type": "odd.sent", "id": HOSTILE, "payload": { HOSTILE: HOSTILE } });
    let event = stage.post("/v1/webhooks/events", &event).await["event_id"].clone();
    let deliveries = format!("/v1/webhooks/deliveries?event_id={event}");
    let delivery =
        stage.until(&deliveries, |page| page["items"][0]["status"] == "DeadLettered").await["items"][0]["id"]
            .clone();
    let message = json!({ "topic": "parcels", "idempotency_key": HOSTILE, "payload": { HOSTILE: HOSTILE } });
    let message = stage.post("/v1/outbox", &message).await["id"].clone();
    stage.until(&format!("/v1/outbox/{message}"), |message| message["status"] == "aborted").await;
    let failing = json!({
        "name": "failing",
        "steps": [
            { "id": "pay", "action": { "http": { "url": services.url("pay") } }, "compensate": { "http": { "url": services.url("hook") }, "retry": 0 } },
            { "id": "fail", "retry": 0, "action": { "http": { "url": services.url("hook") } } },
        ],
    });
    stage.put("/v1/definitions/failing?apply=true", &failing.to_string()).await;
    let wish = json!({ "definition": "failing", "correlation_id": HOSTILE });
    let failed = stage.admin.run(&wish).await["id"].as_str().unwrap().to_owned();
    stage.until("/v1/admin/alerts", |page| page["items"][0]["tx_id"] == *failed).await;
    let key: String =
        form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>().replace('+', "%20");
    let begun = json!({ "correlation_id": HOSTILE, "input": { HOSTILE: HOSTILE } });
    let started = admin.post(&format!("/v1/lifecycles/letter/{key}/start"), &begun).await;
    assert_eq!(started.status, 202, "{started:?}");
    let why = json!({ "error_kind": "internal", "message": HOSTILE });
    assert_eq!(admin.post(&format!("/v1/lifecycles/letter/{key}/fail"), &why).await.status, 200);

    let screen = stage.signed_in("admin").await;
    // Those where it is to be seen, and others that could make something of it.
    let shown = [
        "/sagas".to_owned(),
        format!("/sagas/{saga}"),
        format!("/sagas/{failed}"),
        "/definitions/hostile".to_owned(),
        format!("/webhooks/deliveries/{delivery}"),
        "/outbox".to_owned(),
        format!("/outbox/{message}"),
        "/lifecycles/letter".to_owned(),
        format!("/lifecycles/letter/{key}"),
        format!("/lifecycles/letter/{key}/whole"),
        format!("/sagas/{saga}/whole"),
        "/alerts".to_owned(),
        format!("/sagas?status={key}"),
        format!("/find?id={key}"),
    ];
    let others = [
        "/".to_owned(),
        "/definitions".to_owned(),
        "/webhooks".to_owned(),
        format!("/webhooks/subscriptions/{subscription}"),
        "/webhooks/deliveries".to_owned(),
        "/webhooks/dead-letters".to_owned(),
        format!("/webhooks/dead-letters?code={key}"),
        "/lifecycle-dead-letters".to_owned(),
        "/doctor".to_owned(),
        "/audit".to_owned(),
        format!("/sagas?correlation_id={key}"),
        format!("/login?next={key}"),
    ];
    for place in shown.iter().chain(&others) {
        screen.open(place).await;
        let title = screen.browser.client().title().await.unwrap();
        assert_ne!(title, "taken", "{place}");
        let source = screen.source().await;
        assert!(
            !source.contains("<script>document") && !source.contains("<img src=\"x\""),
            "{place}: {source}"
        );
        if shown.contains(place) {
            let text = screen.text().await;
            assert!(text.contains("document.title='taken'"), "it is to be seen, as text, on {place}: {text}");
        }
        screen.has_no_complaints().await;
    }
    screen.browser.close().await;
}
