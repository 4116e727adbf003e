//! "State Diagram" and "Terminal vs Non-Terminal".

use serde_json::json;

use crate::acceptance_seed_004::stage::{AWAITING, PATH, expect, led_to, on_both_stores, refused, site};

#[tokio::test(flavor = "multi_thread")]
async fn happy_path_follows_every_edge_and_is_logged() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let begun = open.start("s", &json!({})).await;
        assert_eq!(
            (&begun["state"], &begun["from"], &begun["attempt"]),
            (&json!("requested"), &json!(null), &json!(1))
        );
        for edge in PATH.windows(2) {
            let moved = open.moves("s", edge[1]).await;
            assert_eq!((&moved["from"], &moved["state"]), (&json!(edge[0]), &json!(edge[1])));
            assert_eq!(moved["changed"], true);
        }
        let log = open.log("s").await;
        assert_eq!(led_to(&log), PATH[1..]);
        let froms: Vec<_> = log[1..].iter().map(|event| event["from"].as_str().unwrap()).collect();
        assert_eq!(froms, PATH[..7], "every event says where it came from");
        let numbers: Vec<_> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        assert_eq!(
            (&log[0]["type"], &log[1]["type"]),
            (&json!("lifecycle.started"), &json!("lifecycle.transitioned"))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_is_only_live_and_failed() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for state in PATH.iter().chain(&[AWAITING, "failed"]) {
            open.bring(state, state).await;
            let found = open.look(state).await;
            assert_eq!(found["state"], *state);
            assert_eq!(found["ended"], ["live", "failed"].contains(state), "{found}");
        }
        for ended in ["live", "failed"] {
            for to in PATH.iter().chain(&[AWAITING, "failed"]) {
                refused(
                    &open.transition(ended, to).await,
                    409,
                    "lifecycle-ended",
                    "no non-terminal row to transition",
                );
            }
            refused(
                &open.fail(ended, "internal").await,
                409,
                "lifecycle-ended",
                "no non-terminal row to transition",
            );
            let answer = open.transition(ended, "live").await.json();
            assert_eq!(answer["state"], ended);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_every_edge_of_the_diagram_and_no_other() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let can_fail = ["requested", "source_resolving", "vercel_creating", "hook_creating"];
        for (place, from) in PATH[..7].iter().enumerate() {
            open.bring(from, from).await;
            for to in PATH.iter().chain(&[AWAITING, "failed"]) {
                let is_edge = *to == PATH[place + 1]
                    || (*from == "source_resolving" && *to == AWAITING)
                    || (*to == "failed" && can_fail.contains(from));
                if !is_edge {
                    refused(&open.transition(from, to).await, 409, "no-such-edge", from);
                }
            }
            let answer = open.transition(from, if place == 0 { "live" } else { "requested" }).await.json();
            let instead = answer["instead"].as_array().unwrap();
            assert!(instead.contains(&json!(PATH[place + 1])), "{answer}");
            if can_fail.contains(from) {
                expect(&open.fail(from, "internal").await, 200);
            } else {
                refused(&open.fail(from, "internal").await, 409, "no-such-edge", "cannot fail");
                open.moves(from, PATH[place + 1]).await;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn awaiting_github_is_left_by_start_alone() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", AWAITING).await;
        for to in PATH.iter().chain(&["failed"]) {
            assert_eq!(open.transition("s", to).await.problem(), "no-such-edge");
        }
        refused(&open.transition("s", "source_resolving").await, 409, "no-such-edge", "start it again");
        refused(&open.transition("s", AWAITING).await, 409, "no-such-edge", "already");
        refused(&open.fail("s", "no_github_token").await, 409, "no-such-edge", "cannot fail");
        let waiting = open.look("s").await;
        assert_eq!((&waiting["ended"], &waiting["re_entry"]), (&json!(false), &json!("source_resolving")));
        assert_eq!(waiting["follows"], json!([]));

        let again = open.start("s", &json!({})).await;
        assert_eq!(
            (&again["from"], &again["state"], &again["attempt"]),
            (&json!(AWAITING), &json!("source_resolving"), &json!(2))
        );
        let types: Vec<_> =
            open.log("s").await.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(types[types.len() - 2..], ["lifecycle.restarted", "lifecycle.transitioned"]);
        open.moves("s", "source_resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_is_shown_in_the_terms_of_the_requirements() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let wish = json!({ "site_id": "acme docs/ü", "correlation_id": "c-1", "repository": "acme/docs" });
        let asked = expect(&open.client.post("/v1/sites", &wish).await, 202);
        assert_eq!(
            (&asked["site_id"], &asked["state"], &asked["changed"]),
            (&json!("acme docs/ü"), &json!("requested"), &json!(true))
        );
        let found = open.get("/v1/sites/acme%20docs%2F%C3%BC").await;
        let mut names: Vec<_> = found.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "abandoned",
                "attempt",
                "correlation_id",
                "created_at",
                "error_kind",
                "last_error",
                "site_id",
                "state",
                "updated_at"
            ]
        );
        assert_eq!(found["correlation_id"], "c-1");
        let lifecycle = open.get(&site("acme%20docs%2F%C3%BC", "")).await;
        assert_eq!(lifecycle["input"], json!({ "repository": "acme/docs" }));
        let unknown = open.client.get("/v1/sites/nobody").await;
        refused(&unknown, 404, "lifecycle-not-found", "POST /v1/sites");
    })
    .await;
}
