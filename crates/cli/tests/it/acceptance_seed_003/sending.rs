//! §2, §3 and §5: sending, retrying and aborting messages.

use std::time::Duration;

use serde_json::json;

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{BACKOFF, on_both_stores, order};

#[tokio::test(flavor = "multi_thread")]
async fn s2_s3_message_succeeds_together_with_the_ledger() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open().await;
        let id = open.accepted("k-1").await;
        let heard = desk.broker.has_heard(1).await;
        let sending = open.becomes(id, "sending").await;
        assert!(sending["locked_by"].is_string() && sending["locked_at"].is_string(), "{sending}");
        desk.broker.be(Mood::Takes);
        let arrived = open.becomes(id, "succeeded").await;
        assert_eq!((&arrived["attempts"], &arrived["locked_by"]), (&json!(1), &json!(null)));
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("succeeded"));
        let result = desk.value("select result from idempotency_ledger where scope = 'outbox/orders'").await;
        assert_eq!(result.as_deref(), Some(r#"{"order_no":"no-k-1"}"#));
        let mut expected = order("k-1");
        expected.as_object_mut().unwrap().remove("idempotency_key");
        assert_eq!((&heard[0].key, &heard[0].body), (&"k-1".to_owned(), &expected));
        assert!(!heard[0].in_doubt);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_s5_failed_send_is_retried_after_its_backoff() {
    on_both_stores(Mood::Refuses, async |desk| {
        // The message must not run out of attempts before the broker accepts it.
        let open = desk.open_with("max_attempts = 1000", &[]).await;
        let id = open.accepted("k-1").await;
        let failed = open.becomes(id, "failed").await;
        assert_eq!(failed["last_error_code"], "http_503");
        assert!(failed["last_error_msg"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("accepted"), "nothing is settled yet");
        let heard = desk.broker.has_heard(3).await;
        for (pair, wait) in heard.windows(2).zip(BACKOFF) {
            assert!(pair[1].at.duration_since(pair[0].at) >= wait, "never before its time");
        }
        desk.broker.be(Mood::Takes);
        let arrived = open.becomes(id, "succeeded").await;
        let sends = desk.broker.counts()["k-1"];
        assert_eq!(arrived["attempts"], json!(sends), "attempts count finished sends");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_message_is_aborted_after_six_attempts() {
    on_both_stores(Mood::Refuses, async |desk| {
        let open = desk.open_with("backoff = [\"1ms\"]", &[]).await;
        let id = open.accepted("k-1").await;
        let aborted = open.becomes(id, "aborted").await;
        assert_eq!((&aborted["attempts"], &aborted["next_attempt_at"]), (&json!(6), &json!(null)));
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("failed"));
        assert_eq!(desk.broker.counts()["k-1"], 6);
        let past = open.ask(&order("k-1")).await;
        assert_eq!((past.status, &past.json()["status"]), (200, &json!("aborted")));
        let refusal = desk.place.refusal("update outbox set status = 'pending'").await;
        assert!(refusal.contains("settled"), "{refusal}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_message_is_sent_again_as_a_new_one_under_its_key() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open_with("backoff = [\"1ms\"]\nmax_attempts = 2", &[]).await;
        let id = open.accepted("k-1").await;
        let retry = format!("/v1/outbox/{id}/retry");
        let early = open.client.post(&retry, &json!(null)).await;
        assert_eq!(early.problem(), "message-not-aborted");
        desk.broker.be(Mood::Refuses);
        open.becomes(id, "aborted").await;
        desk.broker.be(Mood::Takes);
        let again = open.client.post(&retry, &json!(null)).await.json();
        assert_eq!(again["retry_of"], json!(id));
        let new = again["id"].as_i64().unwrap();
        let arrived = open.becomes(new, "succeeded").await;
        assert_eq!((&arrived["idempotency_key"], &arrived["attempts"]), (&json!("k-1"), &json!(1)));
        let twice = open.client.post(&retry, &json!(null)).await;
        assert_eq!((twice.status, &twice.json()["id"]), (200, &json!(new)));
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("succeeded"));
        assert_eq!(open.message(id).await["status"], "aborted", "the old one never changes");
        assert_eq!(open.client.post("/v1/outbox/999999/retry", &json!(null)).await.status, 404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_four_messages_are_sent_at_once_by_default() {
    // The broker may be silent for as long as it likes.
    for (settings, most) in [("timeout = \"20s\"", 4), ("timeout = \"20s\"\nconcurrency = 9", 9)] {
        on_both_stores(Mood::Hangs, async |desk| {
            let open = desk.open_with(settings, &[]).await;
            for nth in 0..20 {
                open.accepted(&format!("k-{nth}")).await;
            }
            desk.broker.has_heard(most).await;
            // Whatever else would go has had the time to.
            tokio::time::sleep(Duration::from_millis(300)).await;
            desk.broker.be(Mood::Takes);
            let heard = desk.broker.has_heard(20).await;
            assert_eq!((heard.len(), desk.broker.most_at_once()), (20, most));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_message_is_aborted_with_a_reason() {
    on_both_stores(Mood::Refuses, async |desk| {
        // The message must not run out of attempts before it expires.
        let open = desk.open_with("backoff = [\"1h\"]", &[]).await;
        let soon = jiff::Timestamp::now() + Duration::from_secs(5);
        let new = json!({ "topic": "orders", "idempotency_key": "e-1", "payload": 1, "expires_at": soon.to_string() });
        let id = open.client.post("/v1/outbox", &new).await.json()["id"].as_i64().unwrap();
        let expired = open.becomes(id, "aborted").await;
        assert_eq!(expired["last_error_code"], "EXPIRED");
        assert_eq!(desk.ledger("e-1").await.as_deref(), Some("failed"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ordering_key_keeps_its_order_through_failures() {
    on_both_stores(Mood::Refuses, async |desk| {
        let open = desk.open_with("concurrency = 8\nmax_attempts = 100\nbackoff = [\"5ms\"]", &[]).await;
        for nth in 0..12 {
            let new = json!({ "topic": "orders", "idempotency_key": format!("o-{nth:02}"), "ordering_key": "one", "payload": nth });
            assert_eq!(open.client.post("/v1/outbox", &new).await.status, 202);
        }
        desk.broker.has_heard(3).await;
        desk.broker.be(Mood::Takes);
        let mut keys: Vec<String> = Vec::new();
        crate::support::within(async {
            loop {
                keys = desk.broker.heard().into_iter().map(|heard| heard.key).collect();
                keys.dedup();
                if keys.len() == 12 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        assert!(keys.is_sorted(), "{keys:?}");
    })
    .await;
}
