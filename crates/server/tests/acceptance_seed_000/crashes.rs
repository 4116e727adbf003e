//! §10.2: whatever crashes in between, an accepted event arrives, and every attempt counts once; several nodes share the work.

use std::time::Duration;

use serde_json::{Value, json};

use crate::receiver::Mood;
use crate::stage::{number, on_both_stores, with};

/// How often the server is killed: a few times, or as often as a long run asks for.
fn kills() -> u64 {
    std::env::var("BACKSTITCH_WEBHOOK_KILLS").map_or(4, |kills| kills.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_2_kill_after_kill_every_accepted_event_arrives_and_attempts_are_counted_exactly() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&with(stage.terms("a"), json!({ "timeout": "4s" }))).await;
        stage.receiver.be("a", Mood::TakesSlowly(Duration::from_millis(20)));
        let (mut accepted, mut unanswered, mut open) = (Vec::new(), 0, Some(open));
        for round in 0..kills() {
            let server = match open.take() {
                Some(open) => open,
                None => stage.open().await,
            };
            let client = server.client.clone();
            let stream = tokio::spawn(async move {
                let mut accepted = Vec::new();
                for nth in 0.. {
                    let event = json!({ "type": "order.created", "id": format!("o-{round}-{nth}"), "payload": nth });
                    let sent = client.ask(
                        hyper::Method::POST,
                        "/v1/webhooks/events",
                        &[("content-type", "application/json")],
                        event.to_string(),
                    );
                    match sent.await {
                        Ok(answer) if answer.status() == 202 => accepted.push(event["id"].clone()),
                        _ => break,
                    }
                    // A node that comes waits for its part of the endpoint: as many as can be sent once all is over.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                accepted
            });
            // In the middle: some have arrived, some are on their way, and more are being told.
            stage.receiver.has_heard("a", stage.receiver.heard("a").len() + 5).await;
            server.kill().await;
            accepted.extend(stream.await.unwrap());
            unanswered += 1;
        }
        assert!(accepted.len() >= 20, "{}", accepted.len());
        let open = stage.open().await;
        let last = open.tell("the last").await;
        open.becomes(&last, "Completed").await;
        let told = "select uid, s.id, e.webhook_id from webhook_events e join webhook_delivery_sagas s on s.event_id = e.id";
        let rows = stage.place.rows(told).await;
        for row in &rows {
            let delivery = open.comes_to(row[1].as_ref().unwrap().parse().unwrap(), "Completed").await;
            let attempts = delivery["attempts"].as_array().unwrap();
            assert_eq!(delivery["attempt_count"], json!(attempts.len()), "{delivery}");
            // Only whose five leases all went with their servers has more than one attempt.
            let (latest, interrupted) = attempts.split_last().unwrap();
            assert_eq!(latest["status"], "Completed", "{delivery}");
            assert!(interrupted.iter().all(|attempt| attempt["error_code"] == "lease_expired"), "{delivery}");
        }
        let known: Vec<Value> = rows.iter().map(|row| json!(row[0])).collect();
        assert!(accepted.iter().all(|id| known.contains(id)), "nothing that was accepted is lost");
        // What was being told when the server died may be there or not; it was not accepted.
        assert!(rows.len() <= accepted.len() + unanswered + 1);
        let counts = stage.receiver.counts("a");
        assert_eq!(counts.len(), rows.len(), "each has one message id");
        assert!(rows.iter().all(|row| counts.contains_key(row[2].as_ref().unwrap())), "and each arrived");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_the_work_and_send_nothing_twice() {
    on_both_stores(async |stage| {
        if !stage.place.is_shared() {
            return;
        }
        let places = [("BACKSTITCH_WEBHOOKS_CONCURRENCY", "4")];
        let (one, other) = tokio::join!(stage.open_with(&places), stage.open_with(&places));
        one.subscribe(&stage.terms("a")).await;
        stage.receiver.be("a", Mood::Hangs);
        let mut told = Vec::new();
        for nth in 0..40 {
            let node = if nth % 2 == 0 { &one } else { &other };
            told.push(node.tell(&format!("o-{nth}")).await);
        }
        // More than either of them sends to an endpoint that it has not seen working: half of its places.
        stage.receiver.has_heard("a", 3).await;
        stage.receiver.be("a", Mood::Takes);
        for told in &told {
            let arrived = one.becomes(told, "Completed").await;
            assert_eq!(other.delivery(number(&arrived, "id")).await, arrived);
            assert_eq!(arrived["attempt_count"], 1);
        }
        let counts = stage.receiver.counts("a");
        assert_eq!(counts.len(), 40);
        assert!(counts.values().all(|times| *times == 1), "{counts:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_what_is_on_its_way_arrive_and_counts_it() {
    on_both_stores(async |stage| {
        let mut open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        stage.receiver.be("a", Mood::Hangs);
        let told = open.tell("o-1").await;
        stage.receiver.has_heard("a", 1).await;
        open.program.terminate();
        stage.receiver.be("a", Mood::Takes);
        assert_eq!(open.program.exit_code().await, Some(0));
        let open = stage.open().await;
        let arrived = open.becomes(&told, "Completed").await;
        assert_eq!((&arrived["attempt_count"], stage.receiver.heard("a").len()), (&json!(1), 1));
    })
    .await;
}
