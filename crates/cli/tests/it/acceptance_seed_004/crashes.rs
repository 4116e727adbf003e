//! "If the worker dies between boxes", the next one continues there.

use std::time::Duration;

use backstitch_testkit::scale;
use serde_json::json;

use crate::acceptance_seed_004::services::Mood;
use crate::acceptance_seed_004::stage::{JSON, PATH, led_to, on_both_stores};
use crate::support::{Client, within};

#[tokio::test(flavor = "multi_thread")]
async fn killed_site_goes_live_without_repeating_finished_actions() {
    on_both_stores(async |stage| {
        // On PostgreSQL the claim of the one that died has to run out.
        let lease = [("BACKSTITCH_LIFECYCLE_LEASE", "1s")];
        for state in ["source_resolving", "vercel_creating", "hook_creating"] {
            let before = stage.services.calls();
            let open = stage.open_driven(&lease).await;
            stage.services.will(state, Mood::Hangs);
            open.start(state, &json!({})).await;
            within(async {
                while stage.services.calls().get(state) == before.get(state) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            open.kill().await;
            let open = stage.open_driven(&lease).await;
            let live = open.becomes(state, "live").await;
            assert_eq!(live["attempt"], 1);
            assert_eq!(led_to(&open.log(state).await), PATH[1..]);
            for called in ["source_resolving", "vercel_creating", "hook_creating"] {
                let times = stage.services.calls()[called] - before.get(called).copied().unwrap_or_default();
                assert_eq!(times, if called == state { 2 } else { 1 }, "{called}");
            }
            let heard = stage.services.heard();
            let calls =
                heard.iter().filter(|heard| heard.json()["state"] == state && heard.json()["key"] == state);
            let keys: Vec<_> = calls.map(|heard| heard.headers["idempotency-key"].clone()).collect();
            assert!(
                keys.len() == 2 && keys[0] == keys[1],
                "the service can tell that it is the same: {keys:?}"
            );
            open.kill().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_service_is_called_again_after_a_crash() {
    on_both_stores(async |stage| {
        let lease = [("BACKSTITCH_LIFECYCLE_LEASE", "1s")];
        let open = stage.open_driven(&lease).await;
        stage.services.will("vercel_creating", Mood::Hangs);
        open.start("s", &json!({})).await;
        stage.services.was_called_in("vercel_creating").await;
        open.kill().await;
        // The call under this key is running.
        stage.services.will("vercel_creating", Mood::Answers(409, json!({ "code": "IN_PROGRESS" })));
        let open = stage.open_driven(&lease).await;
        open.becomes("s", "live").await;
        assert_eq!(stage.services.calls()["vercel_creating"], 3);
    })
    .await;
}

/// Starts sites until the server is gone; returns the accepted ones.
async fn ask_on(client: Client, round: usize) -> Vec<String> {
    let mut accepted = Vec::new();
    for nth in 0.. {
        let key = if nth % 5 == 4 { format!("full-{round}-{nth}") } else { format!("site-{round}-{nth}") };
        let wish = json!({ "site_id": key }).to_string();
        match client.ask(hyper::Method::POST, "/v1/sites", &JSON, wish).await {
            Ok(answer) if answer.status() == 202 => accepted.push(key),
            _ => break,
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_neither_lose_a_site_nor_break_a_log() {
    on_both_stores(async |stage| {
        let lease = [("BACKSTITCH_LIFECYCLE_LEASE", "1s")];
        stage.services.refuse_projects_of("full");
        let mut accepted = Vec::new();
        for round in 0..scale::kills() {
            let open = stage.open_driven(&lease).await;
            let asking = tokio::spawn(ask_on(open.client.clone(), round));
            // At another moment each time.
            let before = stage.services.heard().len();
            let calls = 5 + round * 7 % 23;
            within(async {
                while stage.services.heard().len() < before + calls {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            open.kill().await;
            accepted.extend(asking.await.unwrap());
        }
        assert!(accepted.len() > 10, "{}", accepted.len());
        let open = stage.open_driven(&lease).await;
        for key in &accepted {
            let ends = if key.starts_with("full") { "failed" } else { "live" };
            let ended = open.becomes(key, ends).await;
            let log = open.log(key).await;
            assert!(log.iter().zip(1..).all(|(event, seq)| event["seq"] == seq), "{log:?}");
            if ends == "failed" {
                assert_eq!(ended["error_kind"], "quota_exceeded");
            } else {
                assert_eq!(led_to(&log), PATH[1..], "every state once");
            }
        }
        stage.services.assert_each_errand_has_one_key();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_takes_over_a_dead_nodes_actions() {
    on_both_stores(async |stage| {
        if !stage.place.is_shared() {
            return;
        }
        // A late heartbeat of a node that is alive must not move its work.
        let lease = [("BACKSTITCH_LIFECYCLE_LEASE", "6s")];
        let (one, other) = tokio::join!(stage.open_driven(&lease), stage.open_driven(&lease));
        stage.services.will("vercel_creating", Mood::Hangs);
        one.start("s", &json!({})).await;
        stage.services.was_called_in("vercel_creating").await;
        one.kill().await;
        other.becomes("s", "live").await;
        let calls = stage.services.calls();
        assert_eq!((calls["source_resolving"], calls["vercel_creating"], calls["hook_creating"]), (1, 2, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_awaits_actions_and_the_next_server_continues() {
    on_both_stores(async |stage| {
        let hasty = [("BACKSTITCH_LIMITS_GRACE", "200ms"), ("BACKSTITCH_LIFECYCLE_LEASE", "1s")];
        let mut open = stage.open_driven(&hasty).await;
        stage.services.will("vercel_creating", Mood::Hangs);
        open.start("s", &json!({})).await;
        stage.services.was_called_in("vercel_creating").await;
        open.program.terminate();
        assert_eq!(open.program.exit_code().await, Some(0));
        let given_back = "select count(*) from lifecycles where holder is null and interruptions = 0";
        assert_eq!(stage.place.rows(given_back).await, [[Some("1".to_owned())]], "nobody was interrupted");
        let open = stage.open_driven(&hasty).await;
        open.becomes("s", "live").await;
        assert_eq!(stage.services.calls()["source_resolving"], 1);
    })
    .await;
}
