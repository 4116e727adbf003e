//! §10.2: an accepted event arrives despite crashes, and every attempt counts once; several nodes share the work.

use std::collections::HashMap;
use std::time::Duration;

use backstitch_testkit::scale;
use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{number, on_both_stores, with};

/// How often a delivery is attempted.
const LIMIT: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn s10_2_kills_lose_no_event_and_miscount_no_attempt() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let mut endpoints = HashMap::new();
        for endpoint in ["a", "b", "c"] {
            let terms = json!({ "timeout": "4s", "max_retry_limit": LIMIT });
            let subscription = open.subscribe(&with(stage.terms(endpoint), terms)).await;
            endpoints.insert(number(&subscription, "id").to_string(), endpoint);
        }
        stage.receiver.be("a", Mood::TakesSlowly(Duration::from_millis(20)));
        // The last attempt that there may be is the one that arrives: any that counted twice would be missed.
        stage.receiver.be("b", Mood::RefusesFirst(LIMIT - 1));
        stage.receiver.be("c", Mood::Answers(422));
        let (mut accepted, mut unanswered, mut open) = (Vec::new(), 0, Some(open));
        for round in 0..scale::kills() {
            let server = match open.take() {
                Some(open) => open,
                None => stage.open().await,
            };
            let client = server.client.clone();
            let stream = tokio::spawn(async move {
                let mut accepted = Vec::new();
                for nth in 0.. {
                    let event =
                        json!({ "type": "order.created", "id": format!("o-{round}-{nth}"), "payload": nth });
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
        open.tell("the last").await;
        let told = "select uid, s.id, s.webhook_id, s.subscription_id
            from webhook_events e join webhook_delivery_sagas s on s.event_id = e.id";
        let rows = stage.place.rows(told).await;
        for row in &rows {
            let [_, delivery, message, subscription] =
                [0, 1, 2, 3].map(|column| row[column].as_ref().unwrap());
            let endpoint = endpoints[subscription];
            let ends = ["Completed", "DeadLettered"];
            let delivery = open.comes_to_any(delivery.parse().unwrap(), &ends).await;
            let attempts = delivery["attempts"].as_array().unwrap();
            assert_eq!(delivery["attempt_count"], json!(attempts.len()), "{delivery}");
            // Only a job with five lost leases has an attempt with an unknown outcome.
            let (unknown, known): (Vec<_>, Vec<_>) =
                attempts.iter().partition(|attempt| attempt["error_code"] == "lease_expired");
            let arrived = known.iter().filter(|attempt| attempt["status"] == "Completed").count();
            let refused = known.iter().filter(|attempt| attempt["error_code"] == "http_422").count();
            // An attempt of unknown outcome can be the one that would have arrived.
            let is_dead = delivery["status"] == "DeadLettered";
            let may_be_dead = endpoint == "c" || (!unknown.is_empty() && attempts.len() == LIMIT);
            assert!(if is_dead { may_be_dead } else { endpoint != "c" }, "{delivery}");
            assert_eq!((arrived, arrived + refused), (usize::from(!is_dead), known.len()), "{delivery}");
            match endpoint {
                "a" => assert_eq!(refused, 0, "{delivery}"),
                "b" => assert!(refused < LIMIT, "{delivery}"),
                _ => assert_eq!(attempts.len(), LIMIT, "{delivery}"),
            }
            // Each that counted was heard. One that was on its way when the server died was heard, or not, and counts not.
            let heard = stage.receiver.counts(endpoint)[message];
            let in_doubt = scale::kills() + unknown.len();
            assert!(
                (known.len()..=known.len() + in_doubt).contains(&heard),
                "heard {heard} times: {delivery}"
            );
        }
        let known: Vec<Value> = rows.iter().map(|row| json!(row[0])).collect();
        assert!(accepted.iter().all(|id| known.contains(id)), "nothing that was accepted is lost");
        // What was being told when the server died may be there or not; it was not accepted.
        assert!(rows.len() <= (accepted.len() + unanswered + 1) * endpoints.len());
        for endpoint in endpoints.values() {
            assert_eq!(
                stage.receiver.counts(endpoint).len() * endpoints.len(),
                rows.len(),
                "each has one message id"
            );
        }
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
async fn shutdown_awaits_and_counts_running_webhooks() {
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
