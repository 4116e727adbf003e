//! Webhooks: working and failing endpoints.

use serde_json::json;

use crate::console_in_browser::screen::Screen;
use crate::console_in_browser::stage::Stage;

/// A subscription to parcels that allows one attempt; the path of its page.
async fn subscribe(stage: &Stage) -> (i64, String) {
    let terms =
        json!({ "url": stage.services.url("hook"), "event_types": ["parcel.*"], "max_retry_limit": 1 });
    let made = stage.post("/v1/webhooks/subscriptions", &terms).await;
    let id = made["id"].as_i64().unwrap();
    (id, format!("/webhooks/subscriptions/{id}"))
}

/// The newest delivery of a subscription's page.
const NEWEST: &str = "#deliveries tbody tr:first-child";

async fn press_form(screen: &Screen, action: &str) {
    screen.press(&format!("form[action='{action}'] button")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_requeued_singly_and_by_filter() {
    let stage = Stage::set().await;
    stage.services.answer("hook", 400, "not like this");
    let (subscription, page) = subscribe(&stage).await;
    let screen = stage.signed_in("operator").await;
    screen.open(&page).await;
    for id in ["p-1", "p-2", "p-3"] {
        stage.tell(id).await;
    }
    let letters = format!("/webhooks/dead-letters?subscription={subscription}");
    screen.shows_in(&format!("#facts a[href='{letters}']"), "3").await;
    screen.shows_in(NEWEST, "given up").await;
    stage.services.answer("hook", 200, "thank you");
    screen.press(&format!("#facts a[href='{letters}']")).await;
    screen.press("tbody tr:first-child form button").await;
    screen.shows("It will be delivered anew.").await;
    screen.shows_in("#facts", "arrived").await;
    screen.shows_in("#attempts", "thank you").await;

    screen.open(&letters).await;
    screen.shows_in("tbody tr:first-child", "as ").await;
    screen.press("a[href^='/webhooks/dead-letters/requeue']").await;
    screen.shows("Send 2 dead letters after all").await;
    screen.press("main form button").await;
    screen.shows("2 are sent after all").await;
    screen.open(&letters).await;
    let left = screen.says("return document.querySelectorAll('tbody form').length").await;
    assert_eq!(left, 0, "all of them are sent");
    screen.open(&page).await;
    screen.shows_in("#deliveries tbody tr:nth-child(2)", "arrived").await;
    screen.shows_in(NEWEST, "arrived").await;
    assert_eq!(stage.services.heard("hook"), 6, "each once in vain, and once more");
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_is_tested_disabled_enabled_and_replayed() {
    let stage = Stage::set().await;
    let (_, page) = subscribe(&stage).await;
    let screen = stage.signed_in("admin").await;
    screen.open(&page).await;
    press_form(&screen, &format!("{page}/test")).await;
    screen.shows("The test call arrived").await;
    screen.press("main p a:not([href='/webhooks'])").await;

    screen.fill("input[name=note]", "it moves house").await;
    press_form(&screen, &format!("{page}/disable")).await;
    screen.shows("The endpoint is disabled: what comes is kept for it.").await;
    screen.shows_in("#facts", "it moves house").await;
    stage.tell("p-1").await;
    // It has a job that no worker leases.
    screen.shows_in(NEWEST, "being sent").await;
    assert_eq!(stage.services.heard("hook"), 1, "the test call");

    press_form(&screen, &format!("{page}/enable")).await;
    screen.shows("The endpoint is enabled: what waited for it is sent.").await;
    screen.shows_in(NEWEST, "arrived").await;
    press_form(&screen, &format!("{page}/replay")).await;
    screen.shows("The events of that time are sent once more.").await;
    screen.shows_in("#deliveries tbody tr:nth-child(2)", "arrived").await;
    screen.shows_in(NEWEST, "arrived").await;
    assert_eq!(stage.services.heard("hook"), 3);
    screen.has_no_complaints().await;
    screen.browser.close().await;
}
