//! Sessions that end while a page is open, late forms, and copied ids.

use serde_json::json;

use crate::console_in_browser::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_asks_to_sign_in_again_once_its_key_has_expired() {
    let stage = Stage::set().await;
    let screen = crate::console_in_browser::screen::Screen::on(stage.server.client.address).await;
    screen.sign_in(&stage.guest_key("operator").await).await;
    screen.open("/sagas?status=failed").await;
    screen.shows("Newest first").await;
    stage.expire_guest();
    screen.shows("Your session is over").await;
    screen.fill("input[name=key]", stage.key("operator")).await;
    screen.press("main form button").await;
    screen.shows("Newest first").await;
    assert_eq!(screen.place().await, "/sagas?status=failed");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_key_sends_an_open_page_to_the_sign_in() {
    let stage = Stage::set().await;
    let running = &stage.population.waiting[0];
    let screen = stage.signed_in("operator").await;
    screen.open(&format!("/sagas/{running}")).await;
    screen.shows("· live").await;
    stage.revoke("operator").await;
    screen.shows("Your session is over").await;
    screen.fill("input[name=key]", stage.key("operator")).await;
    screen.press("main form button").await;
    screen.shows_in(".problem", "revoked").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_is_sent_after_the_session_has_ended_does_nothing() {
    let stage = Stage::set().await;
    let stuck = &stage.population.ended[1];
    let screen = stage.signed_in("operator").await;
    screen.open(&format!("/sagas/{stuck}")).await;
    screen.fill("textarea[name=note]", "too late").await;
    screen.browser.client().delete_all_cookies().await.unwrap();
    screen.press("button[value=done]").await;
    screen.shows("you are not signed in any more, and nothing was done").await;
    screen.press("main a[href^='/login']").await;
    screen.fill("input[name=key]", stage.key("operator")).await;
    screen.press("main form button").await;
    screen.shows("The rollback is stuck at").await;
    let log = stage.get(&format!("/v1/sagas/{stuck}/log")).await.to_string();
    assert!(!log.contains("too late"), "{log}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outdated_decision_is_refused_with_a_message() {
    let stage = Stage::set().await;
    let stuck = &stage.population.ended[1];
    let screen = stage.signed_in("operator").await;
    screen.open(&format!("/sagas/{stuck}")).await;
    // While the user types, nothing is replaced.
    screen.fill("textarea[name=note]", "I did it").await;
    let other = json!({ "action": "done", "note": "somebody else was faster" });
    stage.post(&format!("/v1/sagas/{stuck}/steps/pay/resolve"), &other).await;
    stage.admin.ended(stuck).await;
    screen.press("button[value=done]").await;
    screen.shows("What the page showed has changed").await;
    screen.press("main p a").await;
    screen.shows("compensated").await;
    screen.shows("somebody else was faster").await;
    let log = stage.get(&format!("/v1/sagas/{stuck}/log")).await.to_string();
    assert!(!log.contains("I did it"), "{log}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_copied_with_a_click() {
    let stage = Stage::set().await;
    let running = &stage.population.waiting[0];
    let screen = stage.signed_in("viewer").await;
    screen.browser.allow_clipboard().await;
    screen.open(&format!("/sagas/{running}")).await;
    screen.press(&format!("button[data-copy='{running}']")).await;
    screen.shows_in(&format!("button[data-copy='{running}']"), "copied").await;
    let pasted = "navigator.clipboard.readText().then(arguments[0])";
    let pasted = screen.browser.client().execute_async(pasted, Vec::new()).await.unwrap();
    assert_eq!(pasted, **running);
    screen.browser.close().await;
}
