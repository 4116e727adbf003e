//! Lifecycles are moved, failed and started again, and their machines changed.

use serde_json::json;

use crate::console_in_browser::stage::Stage;

const PARCEL: &str = "
name: parcel
initial: packed
states: [packed, sent, held, delivered]
terminal: [delivered]
pause: { held: sent }
edges: [[packed, sent], [sent, held], [sent, delivered]]
can_fail: [packed, sent]
error_kinds: [nobody_home]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lifecycle_is_moved_started_again_and_failed() {
    let stage = Stage::set().await;
    stage.put("/v1/lifecycles/parcel?apply=true", PARCEL).await;
    for key in ["p1", "p2"] {
        stage.post(&format!("/v1/lifecycles/parcel/{key}/start"), &json!({})).await;
    }
    let screen = stage.signed_in("operator").await;
    let page = "/lifecycles/parcel/p1";
    let button = |what: &str| format!("form[action='{page}/{what}'] button");
    screen.open(page).await;
    for state in ["sent", "held"] {
        screen.choose("select[name=to]", state).await;
        screen.fill("input[name=note]", "by bike").await;
        screen.press(&button("transition")).await;
        screen.shows("It has moved on.").await;
        screen.shows_in("#facts dl", state).await;
    }
    screen.shows_in("#log", "packed → sent").await;
    screen.shows_in("#log", "by bike").await;
    screen.press(&button("start")).await;
    screen.shows("It was started.").await;
    screen.shows_in("#log", "held → sent").await;
    screen.choose("select[name=to]", "delivered").await;
    screen.press(&button("transition")).await;
    screen.shows_in("#facts dl", "delivered").await;
    let forms = screen.says("return document.querySelectorAll('main form').length").await;
    assert_eq!(forms, 0, "it is at its end");

    // Another client moves the other one, and its page follows.
    screen.open("/lifecycles/parcel/p2").await;
    screen.shows_in("#facts dl", "packed").await;
    stage.post("/v1/lifecycles/parcel/p2/transition", &json!({ "to": "sent" })).await;
    screen.shows_in("#facts dl", "sent").await;
    screen.choose("select[name=kind]", "nobody_home").await;
    screen.fill("input[name=message]", "rang twice").await;
    screen.press("form[action='/lifecycles/parcel/p2/fail'] button").await;
    screen.shows("It has failed, as you said.").await;
    screen.shows_in("#facts dl", "a test: rang twice").await;
    screen.open("/lifecycles/parcel?state=failed").await;
    screen.shows_in("#items tbody", "p2").await;
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_staged_machine_is_applied_and_the_next_one_discarded() {
    let stage = Stage::set().await;
    stage.put("/v1/lifecycles/parcel", PARCEL).await;
    let screen = stage.signed_in("admin").await;
    screen.open("/lifecycles/parcel").await;
    screen.shows("none: nothing can be started").await;
    screen.press("form[action='/machines/parcel/apply'] button").await;
    screen.shows_in("main dl", "version 1").await;
    screen.shows("packed").await;
    stage.put("/v1/lifecycles/parcel", &PARCEL.replace("nobody_home", "no_door")).await;
    screen.open("/lifecycles/parcel").await;
    screen.shows("version 2 waits to be applied or discarded").await;
    screen.shows_in("ins", "no_door").await;
    screen.press("form[action='/machines/parcel/discard'] button").await;
    screen.shows("What was staged is discarded.").await;
    let standing = stage.get("/v1/lifecycles/parcel").await;
    assert_eq!(standing["active"], 1, "{standing}");
    screen.browser.close().await;
}
