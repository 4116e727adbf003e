//! Messages that are not sent.

use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::doctor::stage::{in_seconds, open};
use crate::support::{Place, on_both};

/// Writes a message as it might stand after a while. `due_at` is SQL.
async fn write(place: &Place, topic: &str, status: &str, written: i64, due_at: &str) {
    let (written, now) = (in_seconds(place, written), in_seconds(place, 0));
    let row = format!(
        "insert into outbox (topic, idempotency_key, payload, status, due_at, created_at, updated_at)
         values ('{topic}', '{topic}-{status}', '1', '{status}', {due_at}, {written}, {now})"
    );
    place.rows(&row).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_a_route_is_found() {
    on_both(async |place: Place| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[outbox.topics.known]\nadapter = \"log\"\n").unwrap();
        let open = open(&place, &[("BACKSTITCH_CONFIG", file.path().to_str().unwrap())]).await;
        assert_eq!(open.found("outbox").await, []);
        write(&place, "nowhere", "pending", -3600, &in_seconds(&place, -3600)).await;
        let finding = open.finds("outbox", "error", "nowhere").await;
        assert!(finding["action"].as_str().unwrap().contains("[outbox.topics.\"nowhere\"]"), "{finding}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_aborted_messages_are_found() {
    on_both(async |place: Place| {
        let open = open(&place, &[("BACKSTITCH_DOCTOR_STUCK_AFTER", "10m")]).await;
        write(&place, "late", "failed", -540, &in_seconds(&place, 3600)).await;
        assert_eq!(open.found("outbox").await, [], "it has not waited for long enough");
        place.unguarded("outbox", "delete from outbox").await;
        write(&place, "later", "failed", -660, &in_seconds(&place, 3600)).await;
        let finding = open.finds("outbox", "warning", "").await;
        assert!(finding["message"].as_str().unwrap().contains("written 11m"), "{finding}");
        assert_eq!(open.found("dead_letters").await, []);
        write(&place, "refused", "aborted", -60, "null").await;
        let finding = open.finds("dead_letters", "warning", "refused").await;
        assert!(finding["message"].as_str().unwrap().starts_with("1 messages"), "{finding}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_whose_receiver_does_not_answer_is_late_until_it_does() {
    on_both(async |place: Place| {
        let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let route = format!(
            "[outbox.topics.slow]\nadapter = \"http\"\nurl = \"http://{}/\"\nconcurrency = 1\ntimeout = \"20s\"\n",
            receiver.local_addr().unwrap()
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), route).unwrap();
        let open = open(&place, &[("BACKSTITCH_CONFIG", file.path().to_str().unwrap())]).await;
        assert_eq!(open.found("outbox").await, []);
        // The first is being sent, the second is at hand, and the others wait to be taken up.
        for key in ["first", "second", "third", "fourth"] {
            let message = json!({ "topic": "slow", "idempotency_key": key, "payload": {} });
            open.post("/v1/outbox", &message, 202).await;
        }
        let finding = open.finds("outbox", "warning", "slow").await;
        assert!(finding["message"].as_str().unwrap().starts_with("its first message has been due"), "{finding}");
        assert!(finding["action"].as_str().unwrap().contains("GET /v1/outbox?topic=slow"), "{finding}");
        let all = Router::new().fallback(async || ());
        let answering = tokio::spawn(async move { axum::serve(receiver, all).await.unwrap() });
        let _answering = AbortOnDropHandle::new(answering);
        open.is_well("outbox").await;
    })
    .await;
}
