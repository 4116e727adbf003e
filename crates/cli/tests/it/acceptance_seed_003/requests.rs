//! §2, §4 and §7: responses of `/do/order`.

use std::time::Duration;

use hyper::Method;
use serde_json::json;

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{on_both_stores, order};
use crate::support::within;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test(flavor = "multi_thread")]
async fn s2_1_s7_first_request_stores_key_and_message() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open().await;
        let answer = open.ask(&order("k-1")).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let accepted = answer.json();
        assert_eq!((&accepted["topic"], &accepted["idempotency_key"]), (&json!("orders"), &json!("k-1")));
        assert_eq!(accepted["attempts"], 0);
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("accepted"));
        let kept = desk.place.rows("select idempotency_key, request_digest from outbox_orders").await;
        let digest = accepted["request_digest"].as_str().unwrap().to_owned();
        assert_eq!(kept, [[Some("k-1".to_owned()), Some(digest)]]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_s7_repeated_request_returns_the_messages_status() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open().await;
        let id = open.accepted("k-1").await;
        desk.broker.has_heard(1).await;
        let current = open.ask(&order("k-1")).await;
        assert_eq!((current.status, &current.json()["status"]), (200, &json!("sending")));
        desk.broker.be(Mood::Takes);
        open.becomes(id, "succeeded").await;
        // The same document, written otherwise.
        let other_way = r#"{ "tags":["a","b"], "quantity": 1e2, "side":"B\u0055Y","symbol":"7203.T","idempotency_key":"k-1" }"#;
        let past = open.client.send(Method::POST, "/do/order", &JSON, other_way).await;
        assert_eq!(past.status, 200, "{past:?}");
        let past = past.json();
        assert_eq!((&past["id"], &past["status"]), (&json!(id), &json!("succeeded")));
        assert_eq!(past["result"], json!({ "order_no": "no-k-1" }));
        assert_eq!(desk.broker.counts()["k-1"], 1);
        assert_eq!(desk.value("select count(*) from outbox").await.as_deref(), Some("1"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_s7_conflicting_request_names_paths_and_no_values() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let first = open.ask(&order("k-1")).await.json();
        let mut other = order("k-1");
        (other["quantity"], other["tags"][1], other["secret"]) =
            (json!(999_777), json!("x"), json!("hush-hush"));
        let refused = open.ask(&other).await;
        assert_eq!((refused.status, refused.problem()), (409, "idempotency-conflict".to_owned()));
        let told = refused.json();
        assert_eq!(told["first_digest"], first["request_digest"]);
        assert_eq!(told["first_at"], first["created_at"]);
        assert_ne!(told["digest"], told["first_digest"]);
        assert_eq!(told["differs"], json!(["/quantity", "/secret", "/tags/1"]));
        let text = String::from_utf8(refused.body.to_vec()).unwrap();
        assert!(!text.contains("hush-hush") && !text.contains("999777"), "{text}");
        assert_eq!(desk.value("select count(*) from outbox").await.as_deref(), Some("1"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_many_at_once_with_one_key_make_one_message() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let request = order("k-1");
        let answers = futures::future::join_all((0..40).map(|_| open.ask(&request))).await;
        let accepted = answers.iter().filter(|answer| answer.status == 202).count();
        let known = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((accepted, known), (1, 39));
        let ids: std::collections::HashSet<i64> =
            answers.iter().map(|answer| answer.json()["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_request_is_refused_and_nothing_is_stored() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        for (body, status) in [
            (json!({ "symbol": "x" }), 422),
            (json!({ "idempotency_key": "", "symbol": "x" }), 422),
            (json!({ "idempotency_key": 7, "symbol": "x" }), 422),
            (json!({ "idempotency_key": "k".repeat(513), "symbol": "x" }), 422),
            (json!({ "idempotency_key": "k" }), 422),
            (json!([]), 422),
            (json!({ "idempotency_key": "k", "big": "x".repeat(300_000) }), 413),
        ] {
            let answer = open.ask(&body).await;
            assert_eq!(answer.status, status, "{answer:?}");
            assert!(!answer.detail().is_empty());
        }
        assert_eq!(open.client.send(Method::POST, "/do/order", &JSON, "{").await.status, 400);
        assert_eq!(open.client.get("/do/order").await.status, 405);
        for (path, status) in [
            ("/v1/outbox/0", 404),
            ("/v1/outbox/x", 400),
            ("/v1/outbox?status=sent", 400),
            ("/v1/outbox?cursor=-1", 400),
            ("/v1/outbox?limit=0", 400),
        ] {
            let answer = open.client.get(path).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
        }
        let elsewhere = json!({ "topic": "nowhere", "idempotency_key": "k", "payload": 1 });
        let refused = open.client.post("/v1/outbox", &elsewhere).await;
        assert_eq!((refused.status, refused.problem()), (422, "unknown-topic".to_owned()));
        assert_eq!(refused.json()["topics"], json!(["orders"]));
        let own = json!({ "topic": "backstitch.alerts", "idempotency_key": "k", "payload": 1 });
        assert_eq!(open.client.post("/v1/outbox", &own).await.status, 422);
        assert_eq!(desk.value("select count(*) from outbox").await.as_deref(), Some("0"));
        assert_eq!(desk.value("select count(*) from idempotency_ledger").await.as_deref(), Some("0"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_a_request_that_expires_before_it_is_sent_is_aborted() {
    on_both_stores(Mood::Refuses, async |desk| {
        let open = desk.open_with("backoff = [\"1h\"]", &[]).await;
        let mut request = order("k-1");
        request["expires_at"] = json!((jiff::Timestamp::now() + Duration::from_secs(2)).to_string());
        let accepted = open.ask(&request).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let accepted = accepted.json();
        assert!(accepted["expires_at"].is_string() && accepted["payload"].get("expires_at").is_none());
        let aborted = open.becomes(accepted["id"].as_i64().unwrap(), "aborted").await;
        assert_eq!(aborted["last_error_code"], "EXPIRED", "{aborted}");
        assert_eq!(open.ask(&order("k-1")).await.status, 200, "the time is no part of the request");
        for bad in [json!("soon"), json!(7), json!({})] {
            request["expires_at"] = bad;
            let refused = open.ask(&request).await;
            assert_eq!(refused.status, 422, "{refused:?}");
            assert!(refused.detail().contains("expires_at"), "{refused:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_the_idempotency_key_header_is_the_key() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let send = async |key: &str, body: serde_json::Value| {
            let headers = [JSON[0], ("idempotency-key", key)];
            open.client.send(Method::POST, "/do/order", &headers, body.to_string()).await
        };
        let first = send("k-1", json!({ "sku": "a" })).await;
        assert_eq!((first.status, &first.json()["idempotency_key"]), (202, &json!("k-1")), "{first:?}");
        let both = json!({ "idempotency_key": "k-1", "sku": "a" });
        assert_eq!(send("k-1", both.clone()).await.status, 200);
        assert_eq!(open.ask(&both).await.status, 200);
        let refused = send("k-2", both).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.detail().contains("differ"), "{refused:?}");
        assert_eq!(send("k-1", json!({ "sku": "b" })).await.status, 409);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_any_topic_is_published_listed_and_followed() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let new =
            json!({ "topic": "orders", "idempotency_key": "m-1", "ordering_key": "o", "payload": [1, null] });
        let accepted = open.client.post("/v1/outbox", &new).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let id = accepted.json()["id"].as_i64().unwrap();
        let arrived = open.becomes(id, "succeeded").await;
        assert_eq!((&arrived["payload"], &arrived["ordering_key"]), (&json!([1, null]), &json!("o")));
        assert_eq!(open.client.post("/v1/outbox", &new).await.status, 200);
        let mut other = new.clone();
        other["payload"] = json!([2]);
        assert_eq!(open.client.post("/v1/outbox", &other).await.problem(), "idempotency-conflict");
        open.accepted("k-2").await;
        let page = open.client.get("/v1/outbox?limit=1").await.json();
        assert_eq!(page["items"][0]["idempotency_key"], "k-2");
        let cursor = page["next_cursor"].as_i64().unwrap();
        let rest = open.client.get(&format!("/v1/outbox?topic=orders&cursor={cursor}")).await.json();
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &json!(null)));
        let done = open.client.get("/v1/outbox?status=aborted").await.json();
        assert_eq!(done["items"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_message_and_key_are_deleted_at_their_ages() {
    on_both_stores(Mood::Takes, async |desk| {
        let ages = |sent, keys| {
            [
                ("BACKSTITCH_RETENTION_OUTBOX_SENT", sent),
                ("BACKSTITCH_RETENTION_OUTBOX_ABORTED", sent),
                ("BACKSTITCH_RETENTION_IDEMPOTENCY", keys),
            ]
        };
        let gone = async |sql: &str| {
            within(async {
                while desk.value(sql).await.as_deref() != Some("0") {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        };
        let mut open = desk.open_with("", &ages("1s", "1h")).await;
        open.accepted("k-1").await;
        gone("select count(*) from outbox").await;
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("succeeded"));
        let known = open.ask(&order("k-1")).await;
        assert_eq!((known.status, known.problem().as_str()), (409, "idempotency-conflict"));
        assert!(known.detail().contains("removed for its age"), "{known:?}");
        open.program.terminate();
        open.program.exit_code().await;
        let open = desk.open_with("", &ages("1s", "1s")).await;
        gone("select count(*) from idempotency_ledger").await;
        open.accepted("k-1").await;
        desk.broker.has_heard(2).await;
    })
    .await;
}
