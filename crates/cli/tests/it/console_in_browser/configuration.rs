//! Definitions and settings of orders: written, shown, applied and discarded.

use serde_json::json;

use crate::console_in_browser::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_is_written_validated_applied_and_discarded() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("admin").await;
    screen.open("/definitions").await;
    screen.press("a[href^='/new-definition']").await;
    let written = |queue: &str| {
        json!({ "name": "crate", "steps": [{ "id": "pack", "action": { "worker": { "queue": queue } } }] })
            .to_string()
    };
    screen.fill("textarea[name=text]", &written("hands").replace("\"id\"", "\"idd\"")).await;
    screen.press("main form button").await;
    screen.shows_in(".mistakes", "steps[0].idd").await;
    screen.fill("textarea[name=text]", &written("hands")).await;
    screen.press("main form button").await;
    screen.shows("The change is staged: look at it, then apply or discard it.").await;
    screen.press("form[action='/definitions/crate/apply'] button").await;
    screen.shows("is active").await;

    screen.press("a[href='/new-definition?of=crate']").await;
    screen.fill("textarea[name=text]", &written("machines")).await;
    screen.press("main form button").await;
    screen.shows("What applying version 2 would change").await;
    screen.shows_in("ins", "machines").await;
    screen.press("form[action='/definitions/crate/discard'] button").await;
    screen.shows("discarded").await;
    assert_eq!(stage.get("/v1/definitions/crate").await["active"], 1);
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_settings_are_staged_applied_and_discarded() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("admin").await;
    let refund = stage.services.url("refund");
    let button = |what: &str| format!("form[action='/orders/{what}'] button");
    screen.open("/orders").await;
    screen.fill("input[name='payment.rollback_url']", &refund).await;
    screen.press(&button("services")).await;
    screen.shows("The change is staged: look at it, then apply or discard it.").await;
    screen.shows_in("ins", &refund).await;
    screen.press(&button("services/apply")).await;
    // The staged change has the same address, so the page is not enough.
    screen.shows_in(".done", "is active").await;
    screen.shows_in("main pre", &refund).await;
    let active = stage.get("/v1/admin/config/services").await["active"].clone();
    assert_eq!(active["endpoints"]["payment"]["rollback_url"], *refund, "{active}");

    screen.fill("input[name='payment.timeout']", "soon").await;
    screen.press(&button("timeouts")).await;
    screen.shows_in(".problem", "").await;
    for (time, what, done) in [("41s", "discard", "discarded"), ("42s", "apply", "is active")] {
        screen.fill("input[name='payment.timeout']", time).await;
        screen.press(&button("timeouts")).await;
        screen.shows_in("ins", time).await;
        screen.press(&button(&format!("timeouts/{what}"))).await;
        screen.shows_in(".done", done).await;
    }
    assert_eq!(stage.get("/v1/admin/config/timeouts").await["active"]["payment"], "42s");
    screen.has_no_complaints().await;
    screen.browser.close().await;
}
