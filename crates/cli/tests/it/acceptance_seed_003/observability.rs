//! §6: metrics and lists.

use std::time::Duration;

use serde_json::{Value, json};

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{Open, on_both_stores};
use crate::support::within;

async fn metric(open: &Open, name: &str) -> Option<f64> {
    let text = String::from_utf8(open.client.get("/metrics").await.body.to_vec()).unwrap();
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

async fn reaches(open: &Open, name: &str, least: f64) {
    within(async {
        while metric(open, name).await.is_none_or(|value| value < least) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_the_metrics_are_there_by_name_and_count() {
    on_both_stores(Mood::Refuses, async |desk| {
        let open = desk.open_with("backoff = [\"1ms\"]\nmax_attempts = 3", &[]).await;
        open.becomes(open.accepted("k-1").await, "aborted").await;
        reaches(&open, "outbox_aborted_total", 1.0).await;
        assert_eq!(metric(&open, "outbox_failed_total").await, Some(2.0));
        desk.broker.be(Mood::Takes);
        for nth in 0..3 {
            open.becomes(open.accepted(&format!("s-{nth}")).await, "succeeded").await;
        }
        reaches(&open, "outbox_sent_total", 3.0).await;
        assert_eq!(metric(&open, "outbox_enqueued_total").await, Some(4.0));
        assert_eq!(metric(&open, "outbox_aborted_total").await, Some(1.0));
        assert_eq!(metric(&open, "outbox_age_seconds{percentile=\"95\"}").await, Some(0.0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_message_of_another_program_is_counted_once() {
    on_both_stores(Mood::Takes, async |desk| {
        // On SQLite no other program may write while a server runs.
        if !desk.place.is_shared() {
            return;
        }
        let [one, other] = [desk.open().await, desk.open().await];
        for nth in 0..5 {
            let publish = format!("select publish('orders', 'sql-{nth}', '{{}}')");
            let id = desk.value(&publish).await.unwrap().parse().unwrap();
            one.becomes(id, "succeeded").await;
        }
        other.accepted("k-1").await;
        let mut counted = 0.0;
        for open in [&one, &other] {
            counted += metric(open, "outbox_enqueued_total").await.unwrap_or(0.0);
        }
        assert!((counted - 6.0).abs() < f64::EPSILON, "{counted}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_age_of_waiting_messages_is_reported() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open_with("concurrency = 1", &[]).await;
        for nth in 0..5 {
            open.accepted(&format!("k-{nth}")).await;
        }
        desk.broker.has_heard(1).await;
        reaches(&open, "outbox_age_seconds{percentile=\"95\"}", 0.05).await;
        reaches(&open, "outbox_age_seconds{percentile=\"100\"}", 0.05).await;
        let calm = open.client.get("/v1/health").await.json();
        assert_eq!(calm["status"], "ok");
        let worried = open.client.get("/v1/health?stuck_after=10ms").await.json();
        assert_eq!(worried["status"], "attention");
        assert!(worried["oldest_outbox_seconds"].as_f64().unwrap() > 0.01, "{worried}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_the_log_names_key_status_attempts_error_and_adapter() {
    on_both_stores(Mood::Refuses, async |desk| {
        let variables = [("BACKSTITCH_LOG_FORMAT", "json")];
        let mut open = desk.open_with("backoff = [\"1h\"]", &variables).await;
        open.accepted("k-1").await;
        let line: Value = serde_json::from_str(&open.program.logs("outbox message not sent").await).unwrap();
        let text = line.to_string();
        for field in [
            r#""idempotency_key":"k-1""#,
            r#""status":"failed""#,
            r#""attempts":1"#,
            r#""last_error_code":"http_503""#,
            r#""adapter":"http""#,
        ] {
            assert!(text.contains(field), "{field}: {text}");
        }
        // Long enough for the first attempt.
        let soon = jiff::Timestamp::now() + Duration::from_secs(5);
        let late = json!({
            "topic": "orders", "idempotency_key": "e-1", "payload": 1, "expires_at": soon.to_string()
        });
        assert_eq!(open.client.post("/v1/outbox", &late).await.status, 202);
        let text = open.program.logs("EXPIRED").await;
        for field in [
            r#""idempotency_key":"e-1""#,
            r#""status":"aborted""#,
            r#""attempts":1"#,
            r#""last_error_code":"EXPIRED""#,
            r#""adapter":"http""#,
        ] {
            assert!(text.contains(field), "{field}: {text}");
        }
        desk.broker.be(Mood::Takes);
        open.accepted("k-2").await;
        let sent = open.program.logs("outbox message sent").await;
        for field in [
            r#""level":"INFO""#,
            r#""idempotency_key":"k-2""#,
            r#""status":"succeeded""#,
            r#""attempts":1"#,
            r#""last_error_code":"none""#,
            r#""adapter":"http""#,
        ] {
            assert!(sent.contains(field), "{field}: {sent}");
        }
    })
    .await;
}
