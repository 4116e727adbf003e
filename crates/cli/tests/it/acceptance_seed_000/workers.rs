//! Outside workers lease deliveries from the queue `webhooks` and call the endpoints themselves.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::acceptance_seed_000::stage::{Open, expect, number, on_both_stores, with};

const OUTSIDE: [(&str, &str); 1] = [("BACKSTITCH_WEBHOOKS_CONCURRENCY", "0")];

async fn lease(open: &Open, lease_seconds: u64) -> Value {
    lease_some(open, lease_seconds).await.remove(0)
}

/// Leases all jobs that are ready, once there is at least one.
async fn lease_some(open: &Open, lease_seconds: u64) -> Vec<Value> {
    open.client.lease(&json!({ "queues": ["webhooks"], "limit": 100, "lease_seconds": lease_seconds })).await
}

/// Leases all jobs that are ready within the wait, which can be none.
async fn lease_all(open: &Open, lease_seconds: u64, wait_seconds: u64) -> Vec<Value> {
    let asked = json!({
        "queues": ["webhooks"], "limit": 100, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds
    });
    let leased = expect(&open.client.post("/v1/jobs/lease", &asked).await, 200);
    leased["jobs"].as_array().unwrap().clone()
}

async fn report(open: &Open, job: &Value, what: &str, more: Value) -> crate::support::Answer {
    let path = format!("/v1/jobs/{}/{what}", job["job_id"]);
    open.client.post(&path, &with(json!({ "token": job["token"] }), more)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_1_s6_4_worker_gets_the_signed_request_and_counts_once() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&OUTSIDE).await;
        let made = open.subscribe(&with(stage.terms("a"), json!({ "headers": { "x-tenant": "t-1" } }))).await;
        let told = open.tell("o-1").await;
        let job = lease(&open, 300).await;
        let delivery = number(&job, "delivery_id");
        let request = &job["payload"];
        assert_eq!((&request["url"], &request["type"]), (&made["url"], &json!("order.created")));
        assert_eq!((&request["webhook_id"], &job["attempt"]), (&told["webhook_id"], &json!(1)));
        let mut headers = HeaderMap::new();
        for (name, value) in request["headers"].as_object().unwrap() {
            let value = HeaderValue::from_str(value.as_str().unwrap()).unwrap();
            headers.insert(name.parse::<HeaderName>().unwrap(), value);
        }
        assert_eq!(headers["x-tenant"], "t-1");
        let body = request["body"].as_str().unwrap();
        assert_eq!(body, r#"{"order":"o-1"}"#);
        Webhook::new(made["secret"].as_str().unwrap()).unwrap().verify(body.as_bytes(), &headers).unwrap();

        assert_eq!(report(&open, &job, "heartbeat", json!({ "lease_seconds": 600 })).await.status, 200);
        let failure = json!({ "error": { "message": "it says no", "code": "http_418" } });
        let failed = expect(&report(&open, &job, "fail", failure.clone()).await, 200);
        assert_eq!(failed["repeated"], false);
        let again = expect(&report(&open, &job, "fail", failure).await, 200);
        assert_eq!(again["repeated"], true);
        let second = lease(&open, 300).await;
        assert_eq!((&second["attempt"], &second["delivery_id"]), (&json!(2), &json!(delivery)));
        assert_eq!(second["payload"]["body"], request["body"]);
        let waits = open.delivery(delivery).await;
        assert_eq!((&waits["attempt_count"], &waits["final_error_code"]), (&json!(1), &json!("http_418")));
        assert_eq!(report(&open, &second, "complete", json!({})).await.status, 200);
        let arrived = open.becomes(&told, "Completed").await;
        assert_eq!(
            (&arrived["attempt_count"], arrived["attempts"].as_array().unwrap().len()),
            (&json!(2), 2)
        );
        assert_eq!(expect(&report(&open, &second, "complete", json!({})).await, 200)["repeated"], true);
        assert_eq!(open.delivery(delivery).await, arrived);
        assert!(stage.receiver.heard("a").is_empty(), "the server itself calls nobody");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_lease_ran_out_is_refused_and_costs_no_attempt() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&OUTSIDE).await;
        // A lease outlasts the timeout of its request, so a short timeout makes a short lease possible.
        open.subscribe(&with(stage.terms("a"), json!({ "timeout": "1s" }))).await;
        let told = open.tell("o-1").await;
        let lost = lease(&open, 1).await;
        let taken_over = lease(&open, 300).await;
        assert_eq!((&taken_over["job_id"], &taken_over["attempt"]), (&lost["job_id"], &json!(1)));
        assert!(number(&taken_over, "token") > number(&lost, "token"));
        for what in ["heartbeat", "complete"] {
            let refused = report(&open, &lost, what, json!({})).await;
            assert_eq!((refused.status, refused.problem()), (409, "stale-lease".to_owned()), "{what}");
        }
        assert_eq!(report(&open, &taken_over, "complete", json!({})).await.status, 200);
        let arrived = open.becomes(&told, "Completed").await;
        assert_eq!(arrived["attempt_count"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_leases_count_against_limits_after_a_crash() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&OUTSIDE).await;
        open.subscribe(&with(stage.terms("a"), json!({ "max_concurrency": 2 }))).await;
        for order in ["o-1", "o-2", "o-3", "o-4"] {
            open.tell(order).await;
        }
        let mut before = lease_some(&open, 600).await;
        while before.len() < 2 {
            before.extend(lease_some(&open, 600).await);
        }
        assert_eq!(before.len(), 2);
        open.kill().await;
        let open = stage.open_with(&OUTSIDE).await;
        // Longer than other nodes wait for one that died.
        assert!(lease_all(&open, 600, 13).await.is_empty());
        assert_eq!(report(&open, &before[0], "complete", json!({})).await.status, 200);
        assert_eq!(lease_some(&open, 600).await.len(), 1);
        assert!(lease_all(&open, 600, 1).await.is_empty(), "the other one is still on its way");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_subscription_is_cleared_without_worker_requests() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&OUTSIDE).await;
        let made = open.subscribe(&stage.terms("a")).await;
        let told = open.tell("o-1").await;
        open.becomes(&told, "InProgress").await;
        let path = format!("/v1/webhooks/subscriptions/{}", made["id"]);
        assert_eq!(open.client.send(Method::DELETE, &path, &[], "").await.status, 204);
        let dead = open.becomes(&told, "DeadLettered").await;
        assert_eq!(dead["final_error_code"], "subscription_deleted");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_up_once_its_report_is_sent_has_reported() {
    on_both_stores(async |stage| {
        let open = stage.open_with(&OUTSIDE).await;
        open.subscribe(&stage.terms("a")).await;
        for number in 0..5 {
            let told = open.tell(&format!("o-{number}")).await;
            let job = lease(&open, 300).await;
            let body = json!({ "token": job["token"] }).to_string();
            let head = format!(
                "POST /v1/jobs/{}/complete HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                job["job_id"],
                body.len()
            );
            let mut stream = TcpStream::connect(open.client.address).await.unwrap();
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            drop(stream);
            open.becomes(&told, "Completed").await;
        }
    })
    .await;
}
