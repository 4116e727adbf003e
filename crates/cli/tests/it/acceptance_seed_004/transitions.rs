//! "Atomic Transition Pattern", and the queries about it.

use serde_json::json;

use crate::acceptance_seed_004::services::Mood;
use crate::acceptance_seed_004::stage::{AWAITING, PATH, expect, led_to, on_both_stores, refused, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_late_webhook_does_not_revive_a_failed_site() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", "vercel_creating").await;
        expect(&open.fail("s", "internal").await, 200);
        let failed = open.look("s").await;
        let late = open.transition("s", "vercel_created").await;
        refused(&late, 409, "lifecycle-ended", "no non-terminal row to transition");
        assert_eq!(open.look("s").await, failed);
        assert_eq!(led_to(&open.log("s").await).last().unwrap(), "failed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_transitions_at_once_one_is_made() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("s", &json!({})).await;
        for to in &PATH[1..] {
            let asked = futures::future::join_all((0..50).map(|_| open.transition("s", to))).await;
            let mut made: Vec<_> = asked.iter().map(|answer| answer.status).collect();
            made.sort_unstable();
            assert_eq!((made[0], made[1]), (200, 409), "{made:?}");
        }
        assert_eq!(led_to(&open.log("s").await), PATH[1..]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_that_is_sent_twice_is_made_once() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", "source_resolving").await;
        let again = open.transition("s", "source_resolving").await;
        refused(&again, 409, "no-such-edge", "it is in `source_resolving` already");
        assert_eq!(led_to(&open.log("s").await), ["source_resolving"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_fields_are_cleared_on_every_transition_but_to_failed() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        stage.services.will(
            "source_resolving",
            Mood::Answers(422, json!({ "code": "no_github_token", "why": "unlinked" })),
        );
        open.start("s", &json!({})).await;
        let waiting = open.becomes("s", AWAITING).await;
        assert_eq!((&waiting["error_kind"], &waiting["last_error"]), (&json!(null), &json!(null)));
        let led = open.log("s").await.pop().unwrap();
        assert_eq!((&led["to"], &led["error_kind"]), (&json!(AWAITING), &json!("no_github_token")));
        assert!(led["message"].as_str().unwrap().contains("422"), "{led}");

        stage.services.will("hook_creating", Mood::Answers(422, json!({ "code": "quota_exceeded" })));
        open.start("s", &json!({})).await;
        let failed = open.becomes("s", "failed").await;
        assert_eq!(failed["error_kind"], "quota_exceeded");
        assert!(failed["last_error"].as_str().unwrap().contains("422"), "{failed}");
        let states = led_to(&open.log("s").await);
        assert_eq!(states[states.len() - 2..], ["hook_creating", "failed"]);
        expect(&open.client.post(&site("s", "/start"), &json!({})).await, 200);
        assert_eq!(open.look("s").await, failed, "what failed keeps its error");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_with_a_transition_is_in_the_log() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("s", &json!({ "input": { "a\u{0}b": [1.50, null] } })).await;
        let body = json!({ "to": "source_resolving", "data": { "text": "a\u{0}b\nü🧵", "number": 12_345_678_901_234_567_890_u64 } });
        expect(&open.client.post(&site("s", "/transition"), &body).await, 200);
        let log = open.log("s").await;
        assert_eq!(log[1]["data"], body["data"]);
        assert_eq!(log[0]["input"], json!({ "a\u{0}b": [1.50, null] }));
    })
    .await;
}
