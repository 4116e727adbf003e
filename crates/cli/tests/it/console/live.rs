//! An open page is notified of changes.

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::json;

use crate::console::browser::Browser;
use crate::console::stage::on_both_stores;
use crate::support::within;

async fn followed(browser: &Browser, path: &str) -> Incoming {
    let cookie = browser.cookie.clone().unwrap();
    let answer = browser.client.open(Method::GET, path, &[("cookie", &cookie)], "").await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    answer.into_body()
}

/// Reads until it says this; `false` where it ends before.
async fn hears(stream: &mut Incoming, words: &str) -> bool {
    within(async {
        let mut heard = String::new();
        while let Some(frame) = stream.frame().await {
            let Ok(frame) = frame else { return false };
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            if heard.contains(words) {
                return true;
            }
        }
        false
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn page_is_notified_of_changes_and_of_the_end() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let viewer = stage.as_role("viewer").await;
        let page = viewer.see(&format!("/sagas/{saga}")).await;
        let place = format!("/sagas/{saga}/live");
        assert!(page.has(&format!("data-live-from=\"{place}")), "{}", page.text);
        let mut of_saga = followed(&viewer, &place).await;
        let mut of_all = followed(&viewer, "/live").await;
        stage.api.post(&format!("/v1/sagas/{saga}/pause"), &json!({ "note": "look" })).await;
        assert!(hears(&mut of_saga, "event: changed\n").await, "of the saga");
        assert!(hears(&mut of_all, "event: changed\n").await, "of everything");
        stage.declare("order").await;
        let ended = stage.stuck("order").await;
        let mut over = followed(&viewer, &format!("/sagas/{ended}/live")).await;
        assert!(hears(&mut over, "event: over\n").await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_before_listening_is_notified_at_once() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let viewer = stage.as_role("viewer").await;
        let page = viewer.see(&format!("/sagas/{saga}")).await;
        let place = page.text.split("data-live-from=\"").nth(1).unwrap().split('"').next().unwrap();
        stage.api.post(&format!("/v1/sagas/{saga}/pause"), &json!({ "note": "look" })).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == true).await;
        let mut late = followed(&viewer, place).await;
        assert!(hears(&mut late, "event: changed\n").await, "what happened before it listened");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_updates_end_when_the_key_is_revoked() {
    on_both_stores(async |stage| {
        let viewer = stage.as_role("viewer").await;
        let mut stream = followed(&viewer, "/live").await;
        assert!(hears(&mut stream, "event: changed\n").await, "it is looked for now and then");
        let revoked = ["keys", "--db", &stage.place.db(), "revoke", "1"];
        assert!(crate::support::program::output_of(&revoked).await.status.success());
        assert!(!hears(&mut stream, "event: never\n").await, "the stream ends");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_updates_end_at_sign_out() {
    on_both_stores(async |stage| {
        let [leaves, stays] = [stage.as_role("viewer").await, stage.as_role("viewer").await];
        let [mut ends, mut goes_on] = [followed(&leaves, "/live").await, followed(&stays, "/live").await];
        let token = leaves.see("/").await.form_token();
        assert_eq!(leaves.post("/logout", &[("form_token", &token)], &[]).await.status, 303);
        assert!(!hears(&mut ends, "event: never\n").await, "the stream ends");
        stage.declare("order").await;
        assert!(hears(&mut goes_on, "event: changed\n").await, "another session of the same key goes on");
    })
    .await;
}
