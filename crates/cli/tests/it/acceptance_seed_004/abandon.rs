//! A site that waits for GitHub is abandoned by an operator, or when its pause expires.

use serde_json::{Value, json};

use crate::acceptance_seed_004::stage::{AWAITING, Open, expect, on_both_stores, refused, site};
use crate::support::{Answer, create_key, within};

async fn abandon(open: &Open, key: &str) -> Answer {
    open.client.post(&site(key, "/abandon"), &json!({ "note": "the owner left" })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_awaits_github_is_abandoned_for_good() {
    on_both_stores(async |stage| {
        let operator = create_key(&stage.place.db(), "operator").await;
        let admin = create_key(&stage.place.db(), "admin").await;
        let mut open = stage.open().await;
        open.client = open.client.with_key(&operator);
        open.bring("s", AWAITING).await;
        let abandoned = expect(&abandon(&open, "s").await, 200);
        assert_eq!((&abandoned["state"], &abandoned["from"]), (&json!(AWAITING), &json!(AWAITING)));
        assert_eq!((&abandoned["abandoned"], &abandoned["ended"]), (&json!(true), &json!(true)));
        let last = open.log("s").await.pop().unwrap();
        assert_eq!((&last["type"], &last["reason"]), (&json!("lifecycle.abandoned"), &json!("requested")));
        assert_eq!((&last["state"], &last["note"]), (&json!(AWAITING), &json!("a test: the owner left")));

        let found = open.get("/v1/sites/s").await;
        assert_eq!((&found["state"], &found["abandoned"]), (&json!(AWAITING), &json!(true)));
        let again = open.client.post("/v1/sites", &json!({ "site_id": "s" })).await;
        refused(&again, 409, "lifecycle-ended", "abandoned");
        refused(
            &open.client.post(&site("s", "/start"), &json!({})).await,
            409,
            "lifecycle-ended",
            "abandoned",
        );
        refused(&open.transition("s", "source_resolving").await, 409, "lifecycle-ended", "abandoned");
        refused(&abandon(&open, "s").await, 409, "lifecycle-ended", "abandoned");
        let machine = open.get("/v1/lifecycles/site-provisioning").await;
        assert_eq!(machine["abandoned"], json!({ AWAITING: 1 }));
        assert_eq!(machine["versions"][0]["in_flight"], 0);
        let stream = open.client.get(&site("s", "/events")).await;
        assert!(String::from_utf8_lossy(&stream.body).contains("event: lifecycle.abandoned"), "{stream:?}");

        let audit = expect(&open.client.with_key(&admin).get("/v1/audit").await, 200);
        let paths: Vec<&Value> =
            audit["items"].as_array().unwrap().iter().map(|entry| &entry["path"]).collect();
        assert_eq!(paths[..2], [&json!(site("s", "/abandon")), &json!(site("s", "/transition"))], "{audit}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_paused_site_is_abandoned_and_with_a_note() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("s", "source_resolving").await;
        refused(&abandon(&open, "s").await, 409, "lifecycle-not-paused", "source_resolving");
        open.moves("s", AWAITING).await;
        for body in
            [json!({}), json!({ "note": "" }), json!({ "note": 1 }), json!({ "note": "a", "to": "b" })]
        {
            let answer = open.client.post(&site("s", "/abandon"), &body).await;
            assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-fields"), "{body}");
        }
        assert_eq!(open.start("s", &json!({})).await["state"], "source_resolving");
        refused(&abandon(&open, "s").await, 409, "lifecycle-not-paused", "source_resolving");
        refused(&abandon(&open, "nothing").await, 404, "lifecycle-not-found", "nothing");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_expires_by_its_setting_also_after_a_kill() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&[("BACKSTITCH_LIFECYCLE_SITES_PAUSE_EXPIRES", "1h")]).await;
        open.bring("later", AWAITING).await;
        assert!(open.look("later").await["pause_expires_at"].is_string());
        open.kill().await;
        let open = stage.open_with(&[("BACKSTITCH_LIFECYCLE_SITES_PAUSE_EXPIRES", "1s")]).await;
        open.bring("soon", AWAITING).await;
        open.kill().await;
        let open = stage.open_with(&[("BACKSTITCH_LIFECYCLE_SITES_PAUSE_EXPIRES", "1s")]).await;
        within(async {
            while open.look("soon").await["abandoned"] != true {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!(open.log("soon").await.pop().unwrap()["reason"], "expired");
        assert_eq!(open.look("later").await["abandoned"], false, "it keeps its version");
        let metrics = String::from_utf8(open.client.get("/metrics").await.body.to_vec()).unwrap();
        let counted = r#"lifecycle_abandoned_total{machine="site-provisioning",reason="expired"} 1"#;
        assert!(metrics.contains(counted), "{metrics}");
    })
    .await;
}
