//! Data for alerting: attempts, kinds of errors, and stuck instances.

use std::time::Duration;

use serde_json::json;

use crate::acceptance_seed_004::services::Mood;
use crate::acceptance_seed_004::stage::{Open, expect, on_both_stores};
use crate::support::within;

async fn has_metrics(open: &Open, expected: &[&str]) {
    within(async {
        loop {
            let text = String::from_utf8(open.client.get("/metrics").await.body.to_vec()).unwrap();
            if expected.iter().all(|line| text.lines().any(|found| found == *line)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_metrics_count_by_machine_state_and_kind() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.bring("a", "live").await;
        open.start("b", &json!({})).await;
        open.start("b", &json!({})).await;
        expect(&open.fail("b", "quota_exceeded").await, 200);
        let expected = [
            r#"lifecycle_starts_total{machine="site-provisioning"} 3"#,
            r#"lifecycle_transitions_total{machine="site-provisioning",to="source_resolving"} 1"#,
            r#"lifecycle_transitions_total{machine="site-provisioning",to="live"} 1"#,
            r#"lifecycle_transitions_total{machine="site-provisioning",to="failed"} 1"#,
            r#"lifecycle_failures_total{machine="site-provisioning",error_kind="quota_exceeded"} 1"#,
            "lifecycle_stuck 0",
        ];
        has_metrics(&open, &expected).await;
        let health = open.get("/v1/health").await;
        assert_eq!(
            (&health["status"], &health["lifecycles"]),
            (&json!("ok"), &json!({ "stuck": 0, "items": [] }))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_instance_is_reported_by_health_and_a_metric() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let actions =
            json!({ "packed": { "http": { "url": stage.services.url() }, "next": { "ok": "sent" } } });
        let mut machine = crate::acceptance_seed_004::machines::parcel();
        machine["actions"] = actions;
        machine["stuck_after"] = json!({ "packed": "100ms" });
        open.declare(&machine).await;
        stage.services.will("packed", Mood::Hangs);
        expect(&open.client.post("/v1/lifecycles/parcel/p/start", &json!({})).await, 202);
        let health = within(async {
            loop {
                let health = open.get("/v1/health").await;
                if health["lifecycles"]["stuck"] != 0 {
                    return health;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        assert_eq!(health["status"], "attention");
        let stuck = &health["lifecycles"]["items"][0];
        assert_eq!(
            (&stuck["machine"], &stuck["key"], &stuck["state"], &stuck["attempt"]),
            (&json!("parcel"), &json!("p"), &json!("packed"), &json!(1))
        );
        has_metrics(&open, &["lifecycle_stuck 1"]).await;
        let failing = json!({ "error_kind": "internal", "message": "given up" });
        expect(&open.client.post("/v1/lifecycles/parcel/p/fail", &failing).await, 200);
        assert_eq!(open.get("/v1/health").await["status"], "ok");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transition_to_failed_counts_as_internal() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("s", &json!({})).await;
        let failed = open.moves("s", "failed").await;
        assert_eq!(
            (&failed["ended"], &failed["error_kind"], &failed["last_error"]),
            (&json!(true), &json!(null), &json!(null)),
            "nobody said why"
        );
        let last = open.log("s").await.pop().unwrap();
        assert_eq!((&last["type"], &last["to"]), (&json!("lifecycle.transitioned"), &json!("failed")));
        assert!(last.get("error_kind").is_none(), "{last}");
        let expected = [
            r#"lifecycle_transitions_total{machine="site-provisioning",to="failed"} 1"#,
            r#"lifecycle_failures_total{machine="site-provisioning",error_kind="internal"} 1"#,
        ];
        has_metrics(&open, &expected).await;
    })
    .await;
}
