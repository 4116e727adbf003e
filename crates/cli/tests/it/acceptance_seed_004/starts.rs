//! "Attempt Counter" and "Correlation Preservation".

use serde_json::{Value, json};

use crate::acceptance_seed_004::stage::{PATH, expect, on_both_stores, site};

#[tokio::test(flavor = "multi_thread")]
async fn attempt_counts_starts_and_state_stays() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for state in &PATH[..7] {
            open.bring(state, state).await;
            for attempt in 2..5 {
                let again = open.start(state, &json!({})).await;
                assert_eq!(
                    (&again["attempt"], &again["state"], &again["from"]),
                    (&json!(attempt), &json!(state), &json!(state))
                );
            }
            assert_eq!(open.look(state).await["attempt"], 4);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_starts_at_once_are_all_counted() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let start = |_| {
            let client = open.client.clone();
            tokio::spawn(async move { client.post(&site("s", "/start"), &json!({})).await })
        };
        let mut attempts = Vec::new();
        for started in futures::future::join_all((0..1000).map(start)).await {
            attempts.push(expect(&started.unwrap(), 202)["attempt"].as_u64().unwrap());
        }
        attempts.sort_unstable();
        assert_eq!(attempts, (1..=1000).collect::<Vec<_>>());
        assert_eq!(open.look("s").await["state"], "requested");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_correlation_id_wins() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let of = |started: Value| started["correlation_id"].clone();
        assert_eq!(of(open.start("s", &json!({})).await), json!(null));
        assert_eq!(of(open.start("s", &json!({ "correlation_id": "first" })).await), "first");
        assert_eq!(of(open.start("s", &json!({ "correlation_id": "second" })).await), "first");
        assert_eq!(of(open.moves("s", "source_resolving").await), "first");
        let log = open.log("s").await;
        assert_eq!(log[2]["correlation_id"], "second", "what came is in the log all the same");
        let found = open.get("/v1/lifecycles/site-provisioning?correlation_id=first").await;
        assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["key"]), (1, &json!("s")));
        let none = open.get("/v1/lifecycles/site-provisioning?correlation_id=second").await;
        assert_eq!(none["items"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_of_one_at_its_end_changes_nothing_and_says_so() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for state in ["live", "failed"] {
            open.bring(state, state).await;
            let before = open.look(state).await;
            let started = expect(
                &open.client.post(&site(state, "/start"), &json!({ "correlation_id": "c" })).await,
                200,
            );
            assert_eq!((&started["changed"], &started["state"]), (&json!(false), &json!(state)));
            assert!(started["detail"].as_str().unwrap().starts_with("no non-terminal row"), "{started}");
            let asked = expect(&open.client.post("/v1/sites", &json!({ "site_id": state })).await, 200);
            assert_eq!((&asked["changed"], &asked["attempt"]), (&json!(false), &before["attempt"]));
            assert_eq!(open.look(state).await, before);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_needs_no_body_and_says_where_it_is_to_be_found() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for key in ["plain", "a%2Fb%20c", "%61pply", "%73taged", "%F0%9F%A7%B5"] {
            let started = open.client.send(hyper::Method::POST, &site(key, "/start"), &[], "").await;
            expect(&started, 202);
            let place = started.headers["location"].to_str().unwrap();
            assert_eq!(place, site(key, ""));
            assert_eq!(open.get(place).await["id"], started.json()["id"]);
        }
    })
    .await;
}
