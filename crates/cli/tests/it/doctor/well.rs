//! A healthy server.

use serde_json::json;

use crate::doctor::stage::{JSON, open};
use crate::support::{Place, on_both, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_live_work_of_every_product_is_well() {
    on_both(async |place: Place| {
        // As it comes, but for the disk, which is the test's and not the server's.
        let usual = [
            ("BACKSTITCH_DOCTOR_UNCLAIMED_AFTER", "2m"),
            ("BACKSTITCH_DOCTOR_UNDELIVERED_AFTER", "5m"),
            ("BACKSTITCH_DOCTOR_STUCK_AFTER", "10m"),
            ("BACKSTITCH_DOCTOR_QUEUED_AFTER", "10m"),
        ];
        let open = open(&place, &usual).await;
        assert_eq!(open.diagnosis().await["status"], "ok", "with nothing to do");
        open.declare().await;
        let (running, paused) = (open.start().await, open.start().await);
        open.post(&format!("/v1/sagas/{paused}/pause"), &json!({}), 202).await;
        open.lease("packing", 60).await;
        let message = json!({ "topic": "news", "idempotency_key": "n-1", "payload": {} });
        let told = open.client.send(hyper::Method::POST, "/v1/outbox", &JSON, message.to_string()).await;
        assert!(matches!(told.status, 200..=202), "{told:?}");
        let terms = json!({ "url": "http://127.0.0.1:1/", "event_types": ["*"], "base_delay": "1h" });
        open.post("/v1/webhooks/subscriptions", &terms, 201).await;
        let event =
            open.post("/v1/webhooks/events", &json!({ "type": "order.created", "payload": {} }), 202).await;
        open.post("/v1/lifecycles/site-provisioning/s-1/start", &json!({}), 202).await;
        // Everything has begun: the first attempt of the webhook failed, and the next one is far.
        within(async {
            let path = format!("/v1/webhooks/deliveries?event_id={}", event["event_id"]);
            while open.client.get(&path).await.json()["items"][0]["status"] != "PendingRetry" {}
        })
        .await;
        let shown = open.client.get(&format!("/v1/sagas/{running}")).await.json();
        assert_eq!(shown["status"], "running");
        // No response is older than a second, so a later one includes all of this.
        let said = within(async {
            loop {
                let said = open.diagnosis().await;
                if said["checked_at"].as_str() > shown["updated_at"].as_str() {
                    return said;
                }
            }
        })
        .await;
        assert_eq!(said["status"], "ok", "{said}");
    })
    .await;
}
