//! §2.3 and §4: events are accepted, routed by type, and stored unchanged.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_000::stage::{expect, number, on_both_stores, with};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test(flavor = "multi_thread")]
async fn s4_1_event_goes_to_all_subscriptions_that_match_its_type() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for (endpoint, types) in [
            ("exact", json!(["order.created"])),
            ("below", json!(["order.*"])),
            ("all", json!(["*"])),
            ("both", json!(["order.*", "order.created", "*"])),
            ("other", json!(["invoice.*", "order"])),
        ] {
            open.subscribe(&with(stage.terms(endpoint), json!({ "event_types": types }))).await;
        }
        let told = open.tell("o-1").await;
        assert_eq!((&told["deliveries"], &told["repeated"]), (&json!(4), &json!(false)));
        for endpoint in ["exact", "below", "all", "both"] {
            let heard = stage.receiver.has_heard(endpoint, 1).await;
            assert_eq!((heard.len(), heard[0].id()), (1, told["webhook_id"].as_str().unwrap()));
        }
        for delivery in open.deliveries_of(&told).await {
            let arrived = open.comes_to(number(&delivery, "id"), "Completed").await;
            assert_eq!((&arrived["attempt_count"], &arrived["final_error_code"]), (&json!(1), &Value::Null));
        }
        assert!(stage.receiver.heard("other").is_empty());
        assert_eq!(open.tell_of("shipment.lost", "s-1").await["deliveries"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_2_payload_arrives_unchanged() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        // Blanks, a number that no float holds, escapes and a repeated name: nothing of it is looked into.
        let payload =
            "{ \"b\" :1.10,\t\"a\": 123456789012345678901234567890, \"\\u00e4\\u0000\":\"ä\",\"a\" : [ ] }";
        let body = format!("{{\"type\":\"order.created\",\"payload\":{payload}}}");
        let told = expect(&open.client.send(Method::POST, "/v1/webhooks/events", &JSON, body).await, 202);
        let heard = stage.receiver.has_heard("a", 1).await;
        assert_eq!(heard[0].body, payload);
        let event = format!("/v1/webhooks/events/{}", told["event_id"]);
        let shown = String::from_utf8(open.client.get(&event).await.body.to_vec()).unwrap();
        assert!(shown.contains(payload), "{shown}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_the_same_event_again_routes_nothing_twice() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        let first = open.tell("o-1").await;
        open.becomes(&first, "Completed").await;
        // The same document, written otherwise.
        let again = r#"{"payload" : { "order":"o-1" }, "id":"o-1", "type":"order.created"}"#;
        let again = open.client.send(Method::POST, "/v1/webhooks/events", &JSON, again).await;
        assert_eq!(expect(&again, 200), with(first.clone(), json!({ "repeated": true })));
        let event = json!({ "type": "order.created", "id": "o-2", "payload": 7 });
        let answers =
            futures::future::join_all((0..20).map(|_| open.client.post("/v1/webhooks/events", &event))).await;
        let fresh = answers.iter().filter(|answer| answer.status == 202).count();
        let known = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((fresh, known), (1, 19));
        open.becomes(&answers[0].json(), "Completed").await;
        assert_eq!(stage.receiver.heard("a").len(), 2);
        let rows = stage.place.rows("select count(*) from webhook_delivery_sagas").await;
        assert_eq!(rows, [[Some("2".to_owned())]]);
        // Without an id each telling is an event.
        let nameless = json!({ "type": "order.created", "payload": 7 });
        let [one, other] = [
            open.client.post("/v1/webhooks/events", &nameless).await.json(),
            open.client.post("/v1/webhooks/events", &nameless).await.json(),
        ];
        assert_ne!(one["event_id"], other["event_id"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_reused_event_id_is_a_conflict_naming_the_first() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&stage.terms("a")).await;
        let first = open.tell("o-1").await;
        let event = open.get(&format!("/v1/webhooks/events/{}", first["event_id"])).await;
        assert_eq!((&event["id"], &event["type"]), (&json!("o-1"), &json!("order.created")));
        for (kind, payload) in
            [("order.created", json!({ "order": "o-2" })), ("order.paid", json!({ "order": "o-1" }))]
        {
            let other = json!({ "type": kind, "id": "o-1", "payload": payload });
            let refused = open.client.post("/v1/webhooks/events", &other).await;
            assert_eq!((refused.status, refused.problem()), (409, "idempotency-conflict".to_owned()));
            let told = refused.json();
            assert_eq!((&told["event_id"], &told["first_at"]), (&first["event_id"], &event["created_at"]));
        }
        open.becomes(&first, "Completed").await;
        assert_eq!(stage.receiver.heard("a").len(), 1);
    })
    .await;
}
