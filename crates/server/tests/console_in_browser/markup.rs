//! Whatever somebody writes stays text.

use hyper::Method;
use serde_json::json;

use crate::stage::Stage;

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
    let told = admin
        .post(
            "/v1/webhooks/events",
            &json!({ "type": "order.odd", "id": HOSTILE, "payload": { HOSTILE: HOSTILE } }),
        )
        .await;
    assert_eq!(told.status, 202, "{told:?}");
    let message = json!({ "topic": "odd", "idempotency_key": HOSTILE, "payload": { HOSTILE: HOSTILE } });
    let published = admin.post("/v1/outbox", &message).await;
    assert!(matches!(published.status, 202 | 422), "{published:?}");
    let key: String =
        form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>().replace('+', "%20");
    let begun = json!({ "correlation_id": HOSTILE, "input": { HOSTILE: HOSTILE } });
    let started = admin.post(&format!("/v1/lifecycles/letter/{key}/start"), &begun).await;
    assert_eq!(started.status, 202, "{started:?}");
    let why = json!({ "error_kind": "internal", "message": HOSTILE });
    assert_eq!(admin.post(&format!("/v1/lifecycles/letter/{key}/fail"), &why).await.status, 200);

    let screen = stage.signed_in("admin").await;
    let places = [
        "/".to_owned(),
        "/sagas".to_owned(),
        format!("/sagas/{saga}"),
        "/definitions".to_owned(),
        "/definitions/hostile".to_owned(),
        "/webhooks/deliveries".to_owned(),
        "/outbox".to_owned(),
        "/lifecycles/letter".to_owned(),
        format!("/lifecycles/letter/{key}"),
        "/alerts".to_owned(),
        "/audit".to_owned(),
        format!("/sagas?correlation_id={key}"),
        format!("/sagas?status={key}"),
        format!("/find?id={key}"),
        format!("/login?next={key}"),
    ];
    let mut met = 0;
    for place in &places {
        screen.open(place).await;
        let title = screen.browser.client().title().await.unwrap();
        assert_ne!(title, "taken", "{place}");
        let source = screen.source().await;
        assert!(
            !source.contains("<script>document") && !source.contains("<img src=\"x\""),
            "{place}: {source}"
        );
        met += usize::from(screen.text().await.contains("document.title='taken'"));
        screen.has_no_complaints().await;
    }
    assert!(met >= 6, "it was to be seen, as text, on {met} pages only");
    screen.browser.close().await;
}
