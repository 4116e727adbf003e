//! Open pages: what live updates change, and what they keep.

use std::time::Duration;

use backstitch_testkit::browser::{Browser, Look};
use serde_json::{Value, json};

use crate::console_in_browser::screen::Screen;
use crate::console_in_browser::stage::Stage;
use crate::support::within;

async fn run(screen: &Screen, script: &str) -> Value {
    screen.browser.client().execute(script, Vec::new()).await.unwrap()
}

/// Waits until a script says yes.
async fn holds(screen: &Screen, script: &str) {
    let said = tokio::time::timeout(backstitch_testkit::PATIENCE, async {
        while screen.browser.client().execute(script, Vec::new()).await.ok() != Some(json!(true)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(said.await.is_ok(), "{script} at {}: {}", screen.place().await, screen.text().await);
}

/// Marks a part of a page as it is, and waits until another has taken its place.
async fn is_replaced(screen: &Screen, part: &str, change: impl AsyncFnOnce()) {
    run(screen, &format!("document.querySelector('{part}').dataset.old = '1'")).await;
    change().await;
    holds(screen, &format!("return !document.querySelector('{part}').dataset.old")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_an_outage_are_shown_afterwards() {
    let mut stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let running = stage.population.waiting[0].clone();
    screen.open(&format!("/sagas/{running}")).await;
    screen.shows("· live").await;
    stage
        .elsewhere(async |server| {
            screen.shows("not live").await;
            assert_eq!(server.post(&format!("/v1/sagas/{running}/pause"), &json!({})).await.status, 202);
            within(async {
                while server.get(&format!("/v1/sagas/{running}")).await.json()["paused"] != true {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        })
        .await;
    screen.shows("running, paused").await;
    screen.shows("· live").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_page_redirects_when_its_key_is_revoked() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    screen.open(&format!("/sagas/{}", stage.population.waiting[0])).await;
    screen.shows("· live").await;
    stage.revoke("operator").await;
    screen.shows("Your session is over").await;
    screen.fill("input[name=key]", stage.key("viewer")).await;
    screen.press("main form button").await;
    screen.shows("▶").await;
    assert!(screen.place().await.starts_with("/sagas/"), "{}", screen.place().await);
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_text_survives_live_updates() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    screen.open("/alerts").await;
    screen.shows("rollback_failed").await;
    screen.fill("#items input[name=note]", "I call the bank").await;
    run(&screen, "document.activeElement.blur()").await;
    // Whatever is looked for now and then has come and gone twice.
    let fetched = "return performance.getEntriesByType('resource').filter(it => it.name.endsWith('/alerts')).length >= 2";
    holds(&screen, fetched).await;
    let typed = run(&screen, "return document.querySelector('#items input[name=note]').value").await;
    assert_eq!(typed, "I call the bank");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opened_and_scrolled_parts_survive_live_updates() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let running = &stage.population.waiting[0];
    screen.browser.look(Look::NARROW).await;
    screen.open(&format!("/sagas/{running}")).await;
    screen.press("#actions details summary").await;
    screen.shows("First it waits for what is in flight: pack.").await;
    run(&screen, "document.querySelector('#steps .scroll:last-child').scrollLeft = 60").await;
    let class =
        "return [...document.querySelectorAll('#steps svg g')].map(it => it.getAttribute('class')).join()";
    assert_eq!(run(&screen, class).await, "busy");
    let (job, token) = (stage.population.jobs[0], stage.population.tokens[0]);
    is_replaced(&screen, "#steps", async || {
        let answer = json!({ "token": token, "result": { "packed": true } });
        let answered = stage.admin.post(&format!("/v1/jobs/{job}/complete"), &answer).await;
        assert_eq!(answered.status, 200, "{answered:?}");
    })
    .await;
    assert_eq!(run(&screen, class).await, "good", "the drawing follows");
    holds(&screen, "return !document.querySelector('#actions').textContent.includes('in flight')").await;
    assert_eq!(
        run(&screen, "return document.querySelector('#steps .scroll:last-child').scrollLeft").await,
        60
    );
    screen.has_no_complaints().await;
    screen.browser.close().await;
}

/// Waits until the page has been asked for again and has shown what came: it asks for one at a time, so that of two that have come
/// since now the first is shown.
async fn is_fetched_again(screen: &Screen, place: &str) {
    let count =
        format!("performance.getEntriesByType('resource').filter(it => it.name.endsWith('{place}')).length");
    let before = run(screen, &format!("return {count}")).await;
    holds(screen, &format!("return {count} >= {before} + 2")).await;
}

/// Another saga whose rollback is stuck, once its alert is listed: the newest of them.
async fn another_alert(stage: &Stage) -> i64 {
    let newest = async || stage.get("/v1/admin/alerts").await["items"][0]["id"].as_i64();
    let before = newest().await;
    stage.admin.run(&json!({ "definition": "stuck" })).await;
    within(async {
        loop {
            match newest().await {
                Some(id) if Some(id) != before => return id,
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn focused_button_is_not_replaced_by_live_updates() {
    let stage = Stage::set().await;
    let (screen, first) = (stage.signed_in("operator").await, another_alert(&stage).await);
    screen.open("/alerts").await;
    let form = |id: i64| format!("form[action='/alerts/{id}/acknowledge']");
    screen.shows_in(&form(first), "I look after it").await;
    run(&screen, &format!("document.querySelector(\"{} button\").focus()", form(first))).await;
    let later = another_alert(&stage).await;
    is_fetched_again(&screen, "/alerts").await;
    screen.browser.client().active_element().await.unwrap().send_keys("\u{e007}").await.unwrap();
    screen.shows("The alert is acknowledged.").await;
    let alerts = stage.get("/v1/admin/alerts").await;
    let is_taken = |id: i64| {
        let alert = alerts["items"].as_array().unwrap().iter().find(|alert| alert["id"] == id);
        alert.unwrap()["acknowledged"]["by"] == "a test"
    };
    assert!(is_taken(first) && !is_taken(later), "{alerts}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferred_update_is_shown_after_the_focus_leaves() {
    let stage = Stage::set().await;
    let (screen, first) = (stage.signed_in("operator").await, another_alert(&stage).await);
    screen.open("/alerts").await;
    let button = format!("form[action='/alerts/{first}/acknowledge'] button");
    screen.shows_in(&button, "").await;
    run(&screen, &format!("document.querySelector(\"{button}\").focus()")).await;
    let later = format!("form[action='/alerts/{}/acknowledge']", another_alert(&stage).await);
    is_fetched_again(&screen, "/alerts").await;
    let is_there = format!("return document.querySelector(\"{later}\") !== null");
    assert_eq!(run(&screen, &is_there).await, false, "it would take the button away");
    run(&screen, "document.activeElement.blur()").await;
    screen.shows_in(&later, "I look after it").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn focus_stays_on_its_link_or_is_lost() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    let failed = "/sagas?status=failed";
    screen.open(failed).await;
    let stuck = &stage.population.ended[1];
    let link = format!("#items a[href='/sagas/{stuck}']");
    screen.shows_in(&link, "").await;
    run(&screen, &format!("document.querySelector(\"{link}\").focus()")).await;
    let newest = async || {
        let body = json!({ "definition": "stuck" });
        let id = stage.admin.run(&body).await["id"].as_str().unwrap().to_owned();
        screen.shows_in(&format!("#items a[href='/sagas/{id}']"), "").await;
    };
    newest().await;
    let focused = "return document.activeElement.getAttribute('href')";
    assert_eq!(run(&screen, focused).await, format!("/sagas/{stuck}"), "though another stands above it");
    let done = json!({ "action": "done", "note": "by hand" });
    stage.post(&format!("/v1/sagas/{stuck}/steps/pay/resolve"), &done).await;
    holds(&screen, &format!("return document.querySelector(\"{link}\") === null")).await;
    assert_eq!(run(&screen, focused).await, Value::Null, "nothing else has taken its place");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_tabs_do_not_use_connections() {
    let stage = Stage::set().await;
    let screen = Screen::of(Browser::start_with_tabs().await, stage.server.client.address).await;
    screen.sign_in(stage.key("viewer")).await;
    for tab in 1..=8 {
        if tab > 1 {
            let window = screen.browser.client().new_window(true).await.unwrap();
            screen.browser.client().switch_to_window(window.handle).await.unwrap();
        }
        let opened = tokio::time::timeout(backstitch_testkit::PATIENCE, screen.open("/")).await;
        assert!(opened.is_ok(), "tab {tab} does not open");
        screen.shows("· live").await;
    }
    // One that is looked at again listens again.
    let first = screen.browser.client().windows().await.unwrap().into_iter().next().unwrap();
    screen.browser.client().switch_to_window(first).await.unwrap();
    is_replaced(&screen, "#newest", async || {
        stage.admin.start(&json!({ "definition": "parcel" })).await;
    })
    .await;
    screen.browser.close().await;
}
