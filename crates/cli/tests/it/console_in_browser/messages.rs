//! Aborted messages, and acknowledged alerts.

use serde_json::json;

use crate::console_in_browser::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_is_aborted_live_and_requeued() {
    let stage = Stage::set().await;
    stage.services.answer("topic", 400, "no such parcel");
    let screen = stage.signed_in("operator").await;
    let message = json!({ "topic": "parcels", "idempotency_key": "p-1", "payload": { "parcel": 1 } });
    let id = stage.post("/v1/outbox", &message).await["id"].as_i64().unwrap();
    screen.open(&format!("/outbox/{id}")).await;
    screen.shows_in("#facts", "aborted").await;
    screen.shows_in("#facts", "no such parcel").await;
    stage.services.answer("topic", 200, r#"{"shelf":7}"#);
    // The button has come with the news.
    screen.press(&format!("form[action='/outbox/{id}/retry'] button")).await;
    screen.shows("It will be sent again.").await;
    screen.shows_in("#facts", "succeeded").await;
    screen.shows("What the other side answered").await;
    screen.shows(&format!("message {id}, which was given up")).await;
    screen.open("/outbox?topic=parcels").await;
    screen.shows_in("#items tbody tr:last-child", "aborted").await;
    screen.shows_in("#items tbody tr:first-child", "succeeded").await;
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alert_is_acknowledged_and_says_by_whom() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let stuck = &stage.population.ended[1];
    screen.open("/alerts").await;
    let row = format!("#items tr:has(a[href='/sagas/{stuck}'])");
    screen.shows_in(&row, "open").await;
    screen.fill(&format!("{row} input[name=note]"), "I call the bank").await;
    screen.press(&format!("{row} form button")).await;
    screen.shows("The alert is acknowledged.").await;
    screen.shows_in(&row, "acknowledged").await;
    screen.shows_in(&row, "a test").await;
    screen.shows_in(&row, ": I call the bank").await;
    let forms = screen.says(&format!("return document.querySelectorAll(\"{row} form\").length")).await;
    assert_eq!(forms, 0, "it is acknowledged once");
    screen.browser.close().await;
}
