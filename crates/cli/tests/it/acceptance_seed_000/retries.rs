//! §5.3, §6 and §8: failures are retried with backoff, each attempt counts once, and the last one dead-letters.

use std::time::Duration;

use backstitch::Timestamp;
use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{number, on_both_stores, with};

fn time(of: &Value, name: &str) -> Timestamp {
    let text = of[name].as_str().unwrap_or_else(|| panic!("no {name}: {of}"));
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn attempts(delivery: &Value) -> &Vec<Value> {
    delivery["attempts"].as_array().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_1_s6_2_s6_4_failure_is_retried_and_counted_once() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&with(stage.terms("a"), json!({ "base_delay": "100ms", "max_delay": "200ms" }))).await;
        stage.receiver.be("a", Mood::FailsFirst(4));
        let told = open.tell("o-1").await;
        let arrived = open.becomes(&told, "Completed").await;
        assert_eq!((&arrived["attempt_count"], &arrived["final_error_code"]), (&json!(5), &Value::Null));
        let made = attempts(&arrived);
        assert_eq!(made.len(), 5);
        for (nth, attempt) in made.iter().enumerate() {
            let (status, code) =
                if nth < 4 { ("Failed", json!("http_500")) } else { ("Completed", Value::Null) };
            assert_eq!((&attempt["status"], &attempt["error_code"]), (&json!(status), &code), "{attempt}");
            assert_eq!((&attempt["number"], attempt["duration_ms"].is_u64()), (&json!(nth + 1), true));
            assert_eq!(attempt["response_code"], if nth < 4 { 500 } else { 204 });
            assert_eq!(attempt["body"], if nth < 4 { json!("a says no") } else { Value::Null });
        }
        for (nth, pair) in made.windows(2).enumerate() {
            let wait = Duration::from_millis([100, 200, 200, 200][nth]);
            let earliest = time(&pair[0], "finished_at").plus(wait);
            assert!(time(&pair[1], "started_at") >= earliest, "attempt {} came before its time", nth + 2);
        }
        let heard = stage.receiver.heard("a");
        assert_eq!(heard.len(), 5);
        for (nth, heard_of) in heard.iter().enumerate() {
            assert_eq!((heard_of.id(), &heard_of.body), (heard[0].id(), &heard[0].body), "the same webhook");
            assert_eq!(heard_of.header("x-backstitch-attempt"), (nth + 1).to_string());
        }
        let ids: std::collections::HashSet<i64> =
            made.iter().map(|attempt| number(attempt, "job_id")).collect();
        assert_eq!(ids.len(), 5, "each attempt is a job of its own");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_3_s8_1_last_failure_dead_letters_for_good() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&with(stage.terms("a"), json!({ "max_retry_limit": 3 }))).await;
        stage.receiver.be("a", Mood::Answers(500));
        let told = open.tell("o-1").await;
        let dead = open.becomes(&told, "DeadLettered").await;
        assert_eq!((&dead["attempt_count"], &dead["final_error_code"]), (&json!(3), &json!("http_500")));
        assert_eq!((attempts(&dead).len(), stage.receiver.heard("a").len()), (3, 3));
        let letter = open.get(&format!("/v1/webhooks/dead-letters/{}", dead["id"])).await;
        for (name, value) in [
            ("id", &dead["id"]),
            ("event_id", &told["event_id"]),
            ("subscription_id", &made["id"]),
            ("attempt_count", &json!(3)),
            ("final_error_code", &json!("http_500")),
            ("webhook_id", &told["webhook_id"]),
            ("requeued_as", &Value::Null),
        ] {
            assert_eq!(&letter[name], value, "{name}");
        }
        // A higher limit comes too late, and so does a manual SQL statement.
        open.change(number(&made, "id"), &json!({ "max_retry_limit": 9 })).await;
        let revived =
            format!("update webhook_delivery_sagas set attempt_count = 0 where id = {}", dead["id"]);
        stage.place.refusal(&revived).await;
        assert_eq!(open.delivery(number(&dead, "id")).await, dead);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_2_retry_after_is_honoured() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        stage.receiver.be("a", Mood::Busy { times: 1, retry_after: 2 });
        let told = open.tell("o-1").await;
        let arrived = open.becomes(&told, "Completed").await;
        let made = attempts(&arrived);
        assert_eq!((made.len(), &made[0]["error_code"]), (2, &json!("http_503")));
        let earliest = time(&made[0], "finished_at").plus(Duration::from_secs(2));
        assert!(time(&made[1], "started_at") >= earliest, "{arrived}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_1_s7_3_lowered_limit_dead_letters_instead_of_retrying() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let made = open.subscribe(&with(stage.terms("a"), json!({ "base_delay": "8s" }))).await;
        stage.receiver.be("a", Mood::Answers(500));
        let told = open.tell("o-1").await;
        let waits = open.becomes(&told, "PendingRetry").await;
        assert_eq!((&waits["attempt_count"], &waits["final_error_code"]), (&json!(1), &json!("http_500")));
        open.change(number(&made, "id"), &json!({ "max_retry_limit": 1 })).await;
        let dead = open.becomes(&told, "DeadLettered").await;
        assert_eq!((&dead["attempt_count"], stage.receiver.heard("a").len()), (&json!(1), 1));
    })
    .await;
}
