//! Actions of users and their live results.

use serde_json::json;

use crate::console_in_browser::stage::Stage;
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saga_is_paused_resumed_and_cancelled_and_its_page_follows() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let running = &stage.population.waiting[0];
    screen.open(&format!("/sagas/{running}")).await;
    screen.shows("▶").await;
    screen.keep_picture("saga-running").await;
    screen.press(&format!("form[action='/sagas/{running}/pause'] button")).await;
    screen.shows("starts nothing new until it is resumed").await;
    screen.shows("running, paused").await;
    screen.press(&format!("form[action='/sagas/{running}/resume'] button")).await;
    screen.shows("The saga goes on.").await;
    // The page offers to pause once it shows the resumed saga. Before, it would refuse the cancellation as outdated.
    screen.shows_in(&format!("form[action='/sagas/{running}/pause']"), "").await;
    screen.press("#actions details summary").await;
    screen.shows("First it waits for what is in flight: pack.").await;
    screen.fill(&format!("form[action='/sagas/{running}/cancel'] input[name=note]"), "not wanted").await;
    screen.press(&format!("form[action='/sagas/{running}/cancel'] button")).await;
    screen.shows("The saga will be rolled back.").await;
    // The worker answers, and its page says so without being asked.
    let (job, token) = (stage.population.jobs[0], stage.population.tokens[0]);
    let answer = json!({ "token": token, "result": { "packed": true } });
    let answered = stage.admin.post(&format!("/v1/jobs/{job}/complete"), &answer).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    screen.shows("compensating").await;
    let leased = stage.admin.lease(&json!({ "queues": ["unpacking"], "lease_seconds": 600 })).await;
    let (job, token) = (&leased[0]["job_id"], &leased[0]["token"]);
    stage.admin.post(&format!("/v1/jobs/{job}/complete"), &json!({ "token": token })).await;
    screen.shows("compensated").await;
    screen.has_no_complaints().await;
    let audit = stage.admin.get("/v1/audit").await.json().to_string();
    for what in ["pause", "resume", "cancel"] {
        assert!(audit.contains(&format!("/sagas/{running}/{what}")), "{what}: {audit}");
    }
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_rollback_is_brought_to_its_end_in_the_workbench() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let stuck = &stage.population.ended[1];
    screen.open("/").await;
    screen.shows("Rollbacks that wait for somebody").await;
    screen.press(&format!("a[href='/sagas/{stuck}']")).await;
    screen.shows("The rollback is stuck at").await;
    screen.keep_picture("rollback-workbench").await;
    screen.fill("textarea[name=note]", "the refund was made by hand").await;
    screen.press("button[value=done]").await;
    screen.shows("The rollback goes on.").await;
    screen.shows("compensated").await;
    screen.shows("a test: the refund was made by hand").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_rollback_is_tried_again_and_then_left_as_it_is() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let stuck = &stage.population.ended[1];
    screen.open(&format!("/sagas/{stuck}")).await;
    screen.shows("was tried 1 time").await;
    screen.fill("textarea[name=note]", "perhaps it is back").await;
    screen.press("button[value=retry]").await;
    screen.shows("The rollback goes on.").await;
    // It is not: the page says so by itself, and offers the ways on anew.
    screen.shows("was tried 2 times").await;
    screen.fill("textarea[name=note]", "written off").await;
    screen.press("button[value=skip]").await;
    screen.shows("The rollback goes on.").await;
    screen.shows_in("#facts dl", "compensated").await;
    screen.shows("a test: perhaps it is back").await;
    screen.shows("a test: written off").await;
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_stuck_rollbacks_are_resolved_at_once_each_in_its_way() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    for (how, ended) in [("retry", "failed"), ("done", "compensated"), ("skip", "compensated")] {
        let body = json!({ "definition": "stuck", "correlation_id": how });
        let saga = stage.admin.run(&body).await["id"].clone();
        screen.open(&format!("/sagas?status=failed&correlation_id={how}")).await;
        screen.press("a[href*='/sagas/bulk?'][href*='action=resolve']").await;
        screen.shows("Resolve 1 saga").await;
        screen.fill("textarea[name=note]", "all of them").await;
        screen.press(&format!("button[value={how}]")).await;
        screen.shows("1 goes on").await;
        let id = saga.as_str().unwrap();
        let found = stage.admin.ended(id).await;
        assert_eq!(found["status"], ended, "{how}: {found}");
        let log = stage.get(&format!("/v1/sagas/{id}/log")).await.to_string();
        assert!(log.contains("a test: all of them"), "{how}: {log}");
    }
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_cancelled_at_once_after_it_was_shown_how_many() {
    let stage = Stage::set().await;
    for _ in 0..5 {
        stage.admin.start(&json!({ "definition": "parcel", "attributes": { "tenant": "acme" } })).await;
    }
    let screen = stage.signed_in("operator").await;
    screen.open("/sagas?attr.tenant=acme").await;
    screen.press("a[href*='/sagas/bulk?'][href*='action=cancel']").await;
    screen.shows("Cancel 5 sagas").await;
    screen.fill("textarea[name=note]", "acme has left").await;
    screen.press("main form button.danger").await;
    screen.shows("5 will be rolled back").await;
    let ended = async || {
        let page = stage.admin.get("/v1/sagas?attr.tenant=acme&status=compensated").await.json();
        page["items"].as_array().unwrap().len()
    };
    within(async {
        while ended().await < 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_reconnects_after_a_server_outage() {
    let mut stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let running = stage.population.waiting[0].clone();
    screen.open(&format!("/sagas/{running}")).await;
    screen.shows("· live").await;
    stage.restart().await;
    screen.shows("· live").await;
    let pause = stage.server.client.with_key(stage.key("admin"));
    assert_eq!(pause.post(&format!("/v1/sagas/{running}/pause"), &json!({})).await.status, 202);
    screen.shows("running, paused").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitor_signs_in_and_continues() {
    let stage = Stage::set().await;
    let screen = crate::console_in_browser::screen::Screen::on(stage.server.client.address).await;
    let failed = "/sagas?status=failed";
    screen.open(failed).await;
    screen.shows("Sign in").await;
    screen.keep_picture("sign-in").await;
    screen.fill("input[name=key]", "bsk_wrong").await;
    screen.press("main form button").await;
    screen.shows("the API key is unknown").await;
    screen.fill("input[name=key]", stage.key("viewer")).await;
    screen.press("main form button").await;
    screen.shows("Newest first").await;
    assert_eq!(screen.place().await, failed);
    screen.press("form[action='/logout'] button").await;
    screen.shows("Sign in").await;
    screen.open(failed).await;
    screen.shows("Sign in").await;
    screen.browser.close().await;
}
