//! §7.4: a dead letter is requeued as a new delivery; a range of events is replayed.

use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{Open, Stage, expect, number, on_both_stores, with};

/// A server on which this many deliveries to `a` were given up, oldest first.
async fn given_up(stage: &Stage, deliveries: usize) -> (Open, Vec<Value>) {
    let open = stage.open().await;
    open.subscribe(&with(stage.terms("a"), json!({ "max_retry_limit": 1 }))).await;
    stage.receiver.be("a", Mood::Answers(400));
    let mut dead = Vec::new();
    for nth in 0..deliveries {
        let told = open.tell(&format!("o-{nth}")).await;
        dead.push(open.becomes(&told, "DeadLettered").await);
    }
    (open, dead)
}

fn requeue(dead: &Value) -> String {
    format!("/v1/webhooks/dead-letters/{}/requeue", dead["id"])
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_4_dead_letter_is_requeued_once_as_a_new_delivery() {
    on_both_stores(async |stage| {
        let (open, dead) = given_up(&stage, 1).await;
        let dead = &dead[0];
        // It fails again and becomes a dead letter of its own.
        let second = expect(&open.client.post(&requeue(dead), &json!({})).await, 201);
        assert_eq!((&second["requeue_of"], &second["webhook_id"]), (&dead["id"], &dead["webhook_id"]));
        let second = open.comes_to(number(&second, "id"), "DeadLettered").await;
        assert_eq!(second["attempt_count"], 1);
        stage.receiver.be("a", Mood::Takes);
        let third = expect(&open.client.post(&requeue(&second), &json!({})).await, 201);
        let third = open.comes_to(number(&third, "id"), "Completed").await;
        assert_eq!((&third["requeue_of"], &third["attempt_count"]), (&second["id"], &json!(1)));

        let again = expect(&open.client.post(&requeue(dead), &json!({})).await, 200);
        assert_eq!(again["id"], second["id"]);
        assert_eq!(&open.delivery(number(dead, "id")).await, dead, "the old one never changes");
        assert_eq!(
            open.get(&format!("/v1/webhooks/dead-letters/{}", dead["id"])).await["requeued_as"],
            second["id"]
        );
        let heard = stage.receiver.heard("a");
        assert!(heard.len() == 3 && heard.iter().all(|heard| heard.id() == dead["webhook_id"]), "{heard:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_4_many_who_requeue_one_at_once_get_the_same_delivery() {
    on_both_stores(async |stage| {
        let (open, dead) = given_up(&stage, 1).await;
        stage.receiver.be("a", Mood::Takes);
        let (path, nothing) = (requeue(&dead[0]), json!({}));
        let answers = futures::future::join_all((0..10).map(|_| open.client.post(&path, &nothing))).await;
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        let ids: std::collections::HashSet<i64> =
            answers.iter().map(|answer| number(&answer.json(), "id")).collect();
        assert_eq!((made, ids.len()), (1, 1), "{answers:?}");
        open.comes_to(*ids.iter().next().unwrap(), "Completed").await;
        assert_eq!(stage.receiver.heard("a").len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_4_dead_letters_are_listed_and_requeued_by_filter() {
    on_both_stores(async |stage| {
        let (open, dead) = given_up(&stage, 3).await;
        let list = async |query: &str| {
            let page = open.get(&format!("/v1/webhooks/dead-letters{query}")).await;
            page["items"].as_array().unwrap().iter().map(|letter| number(letter, "id")).collect::<Vec<i64>>()
        };
        let newest_first: Vec<i64> = dead.iter().rev().map(|dead| number(dead, "id")).collect();
        assert_eq!(list("").await, newest_first);
        assert_eq!(
            list("?final_error_code=http_400&requeued=false&since=2020-01-01T00:00:00Z").await,
            newest_first
        );
        for none in [
            "?final_error_code=timeout",
            "?subscription_id=99",
            "?until=2020-01-01T00:00:00Z",
            "?since=2999-01-01T00:00:00Z",
        ] {
            assert_eq!(list(none).await, [0; 0], "{none}");
        }
        assert_eq!(list(&format!("?event_id={}", dead[1]["event_id"])).await, newest_first[1..2]);

        let all = "/v1/webhooks/dead-letters/requeue";
        for nothing in [json!({}), json!({ "subscription_id": null, "all": false, "limit": 2 })] {
            let refused = open.client.post(all, &nothing).await;
            assert_eq!((refused.status, refused.problem()), (422, "invalid-fields".to_owned()));
            assert!(refused.detail().contains("all: true"), "{}", refused.detail());
        }
        stage.receiver.be("a", Mood::Takes);
        let none = expect(&open.client.post(all, &json!({ "final_error_code": "timeout" })).await, 200);
        assert_eq!(none, json!({ "requeued": 0, "next_cursor": null }));
        let some =
            expect(&open.client.post(all, &json!({ "final_error_code": "http_400", "limit": 2 })).await, 200);
        assert_eq!((&some["requeued"], some["next_cursor"].is_i64()), (&json!(2), true));
        let rest = json!({ "all": true, "cursor": some["next_cursor"] });
        assert_eq!(
            expect(&open.client.post(all, &rest).await, 200),
            json!({ "requeued": 1, "next_cursor": null })
        );
        assert_eq!(
            expect(&open.client.post(all, &json!({ "all": true })).await, 200)["requeued"],
            0,
            "each once"
        );
        stage.receiver.has_heard("a", 6).await;
        assert!(list("?requeued=false").await.is_empty());
        assert_eq!(list("").await, newest_first);
        let refused = open.client.get("/v1/webhooks/dead-letters?requeued=true").await;
        assert_eq!((refused.status, refused.detail().contains("use false")), (400, true), "{refused:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_sends_a_time_range_once_with_the_same_ids() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let before = open.tell("o-1").await;
        let other = open.tell_of("invoice.paid", "i-1").await;
        let late = open.subscribe(&with(stage.terms("late"), json!({ "event_types": ["order.*"] }))).await;
        let event = |told: &Value| format!("/v1/webhooks/events/{}", told["event_id"]);
        let since = open.get(&event(&before)).await["created_at"].clone();
        let after = open.tell("o-2").await;
        open.becomes(&after, "Completed").await;
        let replay = format!("/v1/webhooks/subscriptions/{}/replay", late["id"]);
        let range = json!({ "since": since, "until": "2999-01-01T00:00:00Z", "replay_id": "once" });
        let replayed = expect(&open.client.post(&replay, &range).await, 202);
        assert_eq!(replayed, json!({ "replay_id": "once", "deliveries": 2, "next_cursor": null }));
        assert_eq!(expect(&open.client.post(&replay, &range).await, 202)["deliveries"], 0);
        stage.receiver.has_heard("late", 3).await;
        let counts = stage.receiver.counts("late");
        assert_eq!(counts[before["webhook_id"].as_str().unwrap()], 1);
        assert_eq!(counts[after["webhook_id"].as_str().unwrap()], 2);
        assert!(!counts.contains_key(other["webhook_id"].as_str().unwrap()));
        let again = open.deliveries_of(&after).await;
        assert_eq!((again.len(), &again[1]["replay_id"]), (2, &json!("once")));
        let nameless = json!({ "since": since, "until": "2999-01-01T00:00:00Z" });
        let refused = open.client.post(&replay, &nameless).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid-fields".to_owned()));
        let another = with(range, json!({ "replay_id": "twice" }));
        assert_eq!(expect(&open.client.post(&replay, &another).await, 202)["deliveries"], 2);
        let beyond = with(another, json!({ "replay_id": "thrice", "cursor": "9000000000000000-1" }));
        assert_eq!(expect(&open.client.post(&replay, &beyond).await, 202)["deliveries"], 0);
    })
    .await;
}
