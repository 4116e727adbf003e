//! Invalid requests are refused with the error, and change nothing.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_001::shop::order;
use crate::acceptance_seed_001::stage::on_both_stores;
use crate::support::Answer;

const NOBODY: &str = "0190b6f2-7e1a-7000-8000-000000000000";

/// An ordinary order but for these members; one that is `null` is left out.
fn order_with(changes: &Value) -> Value {
    let mut order = order(&[]);
    let members = order.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    order
}

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, kind: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, kind), "{answer:?}");
}

#[tokio::test]
async fn invalid_order_is_refused_by_field_and_leaves_nothing() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        for (changes, place) in [
            (json!({"order_id": null}), "order_id"),
            (json!({"customer_id": null}), "customer_id"),
            (json!({"items": null}), "items"),
            (json!({"amount": null}), "amount"),
            (json!({"order_id": 17}), "order_id"),
            (json!({"order_id": " "}), "order_id"),
            (json!({"order_id": "a\u{0}b"}), "order_id"),
            (json!({"customer_id": ["c"]}), "customer_id"),
            (json!({"customer_id": "c".repeat(600)}), "customer_id"),
            (json!({"items": "book"}), "items"),
            (json!({"items": []}), "items"),
            (json!({"items": vec![json!({"sku": "s", "quantity": 1}); 1001]}), "items"),
            (json!({"items": ["book"]}), "items[0]"),
            (json!({"items": [{"sku": "book"}]}), "items[0].quantity"),
            (json!({"items": [{"sku": "book", "quantity": 0}]}), "items[0].quantity"),
            (json!({"items": [{"sku": "book", "quantity": -1}]}), "items[0].quantity"),
            (json!({"items": [{"sku": "book", "quantity": 1.5}]}), "items[0].quantity"),
            (json!({"items": [{"sku": "book", "quantity": 1, "colour": "red"}]}), "items[0].colour"),
            (json!({"items": [{"sku": "", "quantity": 1}]}), "items[0].sku"),
            (json!({"amount": -1}), "amount"),
            (json!({"amount": "a lot"}), "amount"),
            (json!({"amount": [1]}), "amount"),
            (json!({"coupon": "SPRING"}), "coupon"),
        ] {
            let answer = shop.client.post("/v1/orders", &order_with(&changes)).await;
            assert_problem(&answer, 422, "invalid-fields");
            let said = answer.json()["problems"].to_string();
            assert!(said.contains(place), "{changes}: {said}");
        }
        let heavy = json!({"items": vec![json!({"sku": "s".repeat(500), "quantity": 1}); 1000]});
        assert_problem(&shop.client.post("/v1/orders", &order_with(&heavy)).await, 413, "too-large");
        let send = async |headers: &[(&str, &str)], body: &'static str| {
            shop.client.send(Method::POST, "/v1/orders", headers, body).await
        };
        let json = [("content-type", "application/json")];
        assert_problem(&send(&json, "").await, 400, "bad-json");
        assert_problem(&send(&json, "{\"order_id\": ").await, 400, "bad-json");
        assert_problem(&send(&json, "[]").await, 422, "invalid-fields");
        assert_problem(&send(&[], "{}").await, 415, "unsupported-media-type");
        let in_turn = r#"["o-17", "c-4", [{"sku": "book", "quantity": 1}], 19.90]"#;
        assert_problem(&send(&json, in_turn).await, 422, "invalid-fields");
        let emptied = [json[0], ("idempotency-key", " ")];
        let whole =
            r#"{"order_id": "o", "customer_id": "c", "items": [{"sku": "s", "quantity": 1}], "amount": 1}"#;
        assert_problem(&send(&emptied, whole).await, 400, "bad-header");
        assert_problem(&shop.client.get("/v1/orders").await, 405, "method-not-allowed");
        assert_problem(&shop.client.post("/v1/orders?fast=true", &order(&[])).await, 400, "bad-query");
        assert!(stage.rows("select order_id from orders").await.is_empty());
        assert!(stage.services.calls().is_empty());
        shop.run(&[], "complete").await;
    })
    .await;
}

#[tokio::test]
async fn order_without_fields_is_refused_with_all_of_them() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let places = async |body: &Value| -> Vec<String> {
            let answer = shop.client.post("/v1/orders", body).await;
            assert_problem(&answer, 422, "invalid-fields");
            let problems = answer.json()["problems"].clone();
            problems.as_array().unwrap().iter().map(|it| it["place"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(places(&json!({})).await, ["order_id", "customer_id", "items", "amount"]);
        let partial = json!({"order_id": " ", "items": [{"quantity": 0}, {"sku": "book"}], "amount": 1});
        assert_eq!(
            places(&partial).await,
            ["order_id", "customer_id", "items[0].sku", "items[0].quantity", "items[1].quantity"]
        );
        assert!(stage.rows("select order_id from orders").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn unknown_order_and_other_saga_are_not_found() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let parcel = "name: parcel\nsteps:\n  - id: pack\n    action: { worker: { queue: packing } }\n";
        let yaml = [("content-type", "application/yaml")];
        let put = shop.client.send(Method::PUT, "/v1/definitions/parcel?apply=true", &yaml, parcel).await;
        assert_eq!(put.status, 201, "{put:?}");
        let saga = shop.client.start(&json!({"definition": "parcel"})).await;
        for path in ["", "/log", "/events", "/ws", "?wait=1"] {
            for id in [NOBODY, &saga] {
                let answer = shop.client.get(&format!("/v1/orders/{id}{path}")).await;
                assert_problem(&answer, 404, "order-not-found");
            }
            let answer = shop.client.get(&format!("/v1/orders/seventeen{path}")).await;
            assert_problem(&answer, 400, "bad-id");
        }
        let tx = shop.run(&[], "complete").await;
        assert_problem(&shop.client.get(&format!("/v1/orders/{tx}?wait=soon")).await, 400, "bad-query");
        let path = format!("/v1/orders/{tx}/events");
        let answer = shop.client.send(Method::GET, &path, &[("last-event-id", "first")], "").await;
        assert_problem(&answer, 400, "bad-header");
    })
    .await;
}

#[tokio::test]
async fn operation_on_an_ended_order_is_refused() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        let tx = shop.run(&[], "complete").await;
        for action in ["cancel", "pause", "resume"] {
            let answer = shop.client.post(&format!("/v1/sagas/{tx}/{action}"), &json!({})).await;
            assert_problem(&answer, 409, "saga-ended");
        }
        let note = json!({"action": "retry", "note": "ada: again"});
        let answer = shop.client.post(&format!("/v1/sagas/{tx}/steps/payment/resolve"), &note).await;
        assert_eq!(answer.status, 409, "{answer:?}");
        assert_eq!(shop.outcome(&tx).await, "complete");
    })
    .await;
}

#[tokio::test]
async fn settings_that_are_wrong_are_refused_and_nothing_is_staged() {
    on_both_stores(async |stage| {
        let shop = stage.open().await;
        for (kind, change, place) in [
            ("services", json!({}), "changes nothing"),
            ("services", json!([]), "body"),
            ("services", json!({"order": "payment"}), "order"),
            ("services", json!({"order": ["payment", "inventory"]}), "logistics"),
            ("services", json!({"order": ["payment", "payment", "inventory", "logistics"]}), "order[1]"),
            ("services", json!({"order": ["payment", "inventory", "bank"]}), "order[2]"),
            ("services", json!({"endpoints": {"bank": {"url": "http://bank.example"}}}), "endpoints.bank"),
            ("services", json!({"endpoints": {"payment": {"url": "somewhere"}}}), "endpoints.payment.url"),
            (
                "services",
                json!({"endpoints": {"payment": {"url": "ftp://x.example"}}}),
                "endpoints.payment.url",
            ),
            ("services", json!({"endpoints": {"payment": {"uri": "http://x.example"}}}), "uri"),
            ("services", json!({"orders": []}), "orders"),
            ("timeouts", json!({}), "changes nothing"),
            ("timeouts", json!({"payment": 0}), "payment"),
            ("timeouts", json!({"payment": -1}), "payment"),
            ("timeouts", json!({"payment": "soon"}), "payment"),
            ("timeouts", json!({"payment": ["30s"]}), "payment"),
            ("timeouts", json!({"bank": "30s"}), "bank"),
            ("timeouts", json!("30s"), "body"),
        ] {
            let answer = shop.stage(kind, &change).await;
            assert_problem(&answer, 422, "invalid-fields");
            let said = answer.json()["problems"].to_string();
            assert!(said.contains(place), "{change}: {said}");
        }
        for kind in ["services", "timeouts"] {
            assert_eq!(shop.config(kind).await["staged"], json!(null));
            assert_problem(&shop.apply(kind).await, 409, "nothing-staged");
            assert_problem(&shop.discard(kind).await, 409, "nothing-staged");
        }
        shop.run(&[], "complete").await;
    })
    .await;
}

#[tokio::test]
async fn order_without_services_is_refused_with_what_is_missing() {
    on_both_stores(async |stage| {
        let shop = stage.open_unconfigured().await;
        let refused = shop.client.post("/v1/orders", &order(&[])).await;
        assert_problem(&refused, 409, "orders-not-configured");
        assert!(refused.detail().contains("/v1/admin/config/services"), "{}", refused.detail());
        assert_eq!(shop.stage("timeouts", &json!({"payment": "45s"})).await.status, 200);
        assert_problem(&shop.apply("timeouts").await, 409, "orders-not-configured");
        let half = json!({"endpoints": {"payment": {"url": "http://x.example", "rollback_url": "http://x.example"}}});
        assert_problem(&shop.stage("services", &half).await, 422, "invalid-fields");
        assert!(stage.rows("select order_id from orders").await.is_empty());
    })
    .await;
}
