//! Sites that the server moves by calls to three services.

use serde_json::{Value, json};

use crate::acceptance_seed_004::services::Mood;
use crate::acceptance_seed_004::stage::{AWAITING, PATH, expect, led_to, on_both_stores, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_site_goes_live_by_three_calls() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        let wish = json!({ "site_id": "s", "correlation_id": "c", "repository": "acme/docs" });
        let asked = expect(&open.client.post("/v1/sites", &wish).await, 202);
        assert_eq!(asked["state"], "source_resolving", "what is only passed is passed at once");
        let live = open.becomes("s", "live").await;
        assert_eq!((&live["attempt"], &live["correlation_id"]), (&json!(1), &json!("c")));
        assert_eq!(led_to(&open.log("s").await), PATH[1..]);

        let heard = stage.services.heard();
        let states: Vec<Value> = heard.iter().map(|heard| heard.json()["state"].clone()).collect();
        assert_eq!(states, ["source_resolving", "vercel_creating", "hook_creating"]);
        let last = heard[2].json();
        assert_eq!((&last["key"], &last["correlation_id"], &last["machine"]), (&json!("s"), &json!("c"), &json!("site-provisioning")));
        assert_eq!(last["input"], json!({ "repository": "acme/docs" }));
        assert_eq!(
            last["results"],
            json!({ "source_resolving": { "done_in": "source_resolving" }, "vercel_creating": { "done_in": "vercel_creating" } })
        );
        let mut keys: Vec<_> = heard.iter().map(|heard| heard.headers["idempotency-key"].clone()).collect();
        keys.dedup();
        assert_eq!(keys.len(), 3, "{keys:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_without_github_waits_for_another_start() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        stage
            .services
            .will("source_resolving", Mood::Answers(422, json!({ "error": { "code": "no_github_token" } })));
        open.start("s", &json!({})).await;
        open.becomes("s", AWAITING).await;
        let again = expect(&open.client.post("/v1/sites", &json!({ "site_id": "s" })).await, 202);
        assert_eq!((&again["state"], &again["attempt"]), (&json!("source_resolving"), &json!(2)));
        open.becomes("s", "live").await;
        assert_eq!(stage.services.calls()["source_resolving"], 2);
        let heard = stage.services.heard();
        assert_ne!(
            heard[0].headers["idempotency-key"], heard[1].headers["idempotency-key"],
            "it is another request"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_says_no_fails_the_site_with_its_kind() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        for (state, code, kind) in [
            ("source_resolving", "github_api", "github_api"),
            ("vercel_creating", "quota_exceeded", "quota_exceeded"),
            ("hook_creating", "TEAPOT", "internal"),
        ] {
            stage.services.will(state, Mood::Answers(418, json!({ "code": code })));
            open.start(state, &json!({})).await;
            let failed = open.becomes(state, "failed").await;
            assert_eq!(failed["error_kind"], kind);
            assert!(
                kind != "internal" || failed["last_error"].as_str().unwrap().starts_with("TEAPOT"),
                "{failed}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_call_is_retried_under_the_same_key() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        for _ in 0..2 {
            stage.services.will("vercel_creating", Mood::Answers(503, json!({ "code": "vercel_api" })));
        }
        open.start("s", &json!({})).await;
        open.becomes("s", "live").await;
        let log = open.log("s").await;
        let retries: Vec<_> = log.iter().filter(|event| event["type"] == "action.retry").collect();
        assert_eq!(retries.len(), 2);
        assert_eq!(
            (&retries[0]["state"], &retries[0]["attempt"], &retries[0]["max_attempts"]),
            (&json!("vercel_creating"), &json!(1), &json!(3))
        );
        assert_eq!(retries[0]["error"]["code"], "vercel_api");
        let heard = stage.services.heard();
        let keys: Vec<_> = heard[1..4].iter().map(|heard| &heard.headers["idempotency-key"]).collect();
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");

        for _ in 0..3 {
            stage.services.will("vercel_creating", Mood::Answers(503, json!({ "code": "vercel_api" })));
        }
        open.start("t", &json!({})).await;
        assert_eq!(open.becomes("t", "failed").await["error_kind"], "vercel_api");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_does_not_repeat_a_running_action() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[("BACKSTITCH_LIFECYCLE_SITES_TIMEOUT", "8s")]).await;
        stage.services.will("vercel_creating", Mood::Hangs);
        open.start("s", &json!({})).await;
        stage.services.was_called_in("vercel_creating").await;
        for attempt in 2..5 {
            let again = open.start("s", &json!({})).await;
            assert_eq!((&again["state"], &again["attempt"]), (&json!("vercel_creating"), &json!(attempt)));
        }
        assert_eq!(stage.services.calls()["vercel_creating"], 1);
        open.becomes("s", "live").await;
        let calls = stage.services.calls();
        assert_eq!(
            (calls["source_resolving"], calls["vercel_creating"]),
            (1, 2),
            "once more after its time was over"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_can_be_failed_while_its_action_hangs() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[("BACKSTITCH_LIFECYCLE_SITES_TIMEOUT", "500ms")]).await;
        stage.services.will("vercel_creating", Mood::Hangs);
        open.start("s", &json!({})).await;
        stage.services.was_called_in("vercel_creating").await;
        expect(&open.fail("s", "internal").await, 200);
        let failed = open.look("s").await;
        open.start("t", &json!({})).await;
        open.becomes("t", "live").await;
        assert_eq!(open.look("s").await, failed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transition_publishes_one_message() {
    on_both_stores(async |stage| {
        let open = stage.open_driven(&[]).await;
        open.start("s", &json!({ "correlation_id": "c" })).await;
        open.becomes("s", "live").await;
        let log = open.log("s").await;
        for (edge, event) in PATH.windows(2).zip(&log[1..]) {
            let sent = open.get(&format!("/v1/outbox?topic=sites.provisioning.{}", edge[1])).await;
            let [message] = &sent["items"].as_array().unwrap()[..] else { panic!("{sent}") };
            let said = &message["payload"];
            assert_eq!((&said["site_id"], &said["type"]), (&json!("s"), &json!("SiteProvisionStateChanged")));
            assert_eq!((&said["from_state"], &said["to_state"]), (&json!(edge[0]), &json!(edge[1])));
            assert_eq!(
                (&said["attempt"], &said["correlation_id"], &said["error_kind"]),
                (&json!(1), &json!("c"), &json!(null))
            );
            assert_eq!(said["at"], event["at"]);
        }
        assert_eq!(open.get(&site("s", "")).await["seq"], 8);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_performs_nothing_leaves_actions_to_another() {
    on_both_stores(async |stage| {
        let idle = stage.open_driven(&[("BACKSTITCH_LIFECYCLE_CONCURRENCY", "0")]).await;
        idle.start("s", &json!({})).await;
        assert_eq!(idle.look("s").await["state"], "source_resolving");
        assert!(stage.services.heard().is_empty());
        if stage.place.is_shared() {
            let _other = stage.open_driven(&[]).await;
            idle.becomes("s", "live").await;
        } else {
            idle.kill().await;
            stage.open_driven(&[]).await.becomes("s", "live").await;
        }
    })
    .await;
}
