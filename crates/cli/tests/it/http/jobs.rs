//! Outside workers over HTTP.

use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Client, Running};

async fn declare(client: &Client) {
    let body = json!({"name": "parcel", "steps": [
        {"id": "pack", "action": {"worker": {"queue": "packing"}}, "retry": {"count": 1, "delay": "1ms"},
         "compensate": {"worker": {"queue": "unpacking"}}},
        {"id": "send", "action": {"worker": {"queue": "post"}}},
    ]});
    let headers = [("content-type", "application/json")];
    let answer =
        client.send(Method::PUT, "/v1/definitions/parcel?apply=true", &headers, body.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// The one job that comes into this queue, however often the queue is named.
async fn lease(client: &Client, queue: &str) -> Value {
    let jobs = client.lease(&json!({"queues": [queue, queue], "limit": 10, "lease_seconds": 300})).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs[0].clone()
}

async fn report(client: &Client, job: &Value, what: &str, mut body: Value) -> crate::http::support::Answer {
    if body["token"].is_null() {
        body["token"] = job["token"].clone();
    }
    client.post(&format!("/v1/jobs/{}/{what}", job["job_id"]), &body).await
}

async fn started() -> (Running, String) {
    let server = Running::start().await;
    declare(&server.client).await;
    let id = server.client.start(&json!({"definition": "parcel", "input": {"weight": 3}})).await;
    (server, id)
}

#[tokio::test]
async fn workers_carry_a_saga_to_its_end() {
    let (server, id) = started().await;
    let client = &server.client;
    let pack = lease(client, "packing").await;
    assert_eq!((&pack["saga_id"], &pack["step"], &pack["phase"]), (&json!(id), &json!("pack"), &json!("do")));
    assert_eq!(pack["idempotency_key"], format!("{id}:pack:do"));
    assert_eq!(
        pack["payload"],
        json!({"saga_id": id, "step": "pack", "phase": "do", "attempt": 1, "input": {"weight": 3}, "results": {}})
    );
    let done = report(client, &pack, "complete", json!({"result": {"box": 7}})).await;
    assert_eq!((done.status, &done.json()["repeated"]), (200, &json!(false)), "{done:?}");
    let again = report(client, &pack, "complete", json!({"result": {"box": 8}})).await;
    assert_eq!((again.status, &again.json()["repeated"]), (200, &json!(true)));
    let send = lease(client, "post").await;
    assert_eq!(send["payload"]["results"], json!({"pack": {"box": 7}}), "the first answer counts");
    assert_eq!(report(client, &send, "complete", json!({})).await.status, 200);
    let saga = client.ended(&id).await;
    assert_eq!(saga["status"], "succeeded", "{saga}");
}

#[tokio::test]
async fn workers_refusal_is_rolled_back_by_workers() {
    let (server, id) = started().await;
    let client = &server.client;
    report(client, &lease(client, "packing").await, "complete", json!({"result": 1})).await;
    let error = json!({"error": {"message": "no such address", "code": "ADDRESS", "kind": "refused"}});
    assert_eq!(report(client, &lease(client, "post").await, "fail", error).await.status, 200);
    let unpack = lease(client, "unpacking").await;
    assert_eq!((&unpack["phase"], &unpack["payload"]["result"]), (&json!("undo"), &json!(1)));
    assert_eq!(unpack["payload"]["error"]["code"], "ADDRESS");
    report(client, &unpack, "complete", json!({})).await;
    let saga = client.ended(&id).await;
    assert_eq!((&saga["status"], &saga["failed_step"]), (&json!("compensated"), &json!("send")));
}

#[tokio::test]
async fn a_failure_worth_another_try_comes_back_as_the_next_attempt() {
    let (server, _) = started().await;
    let first = lease(&server.client, "packing").await;
    report(&server.client, &first, "fail", json!({"error": {"message": "no boxes left"}})).await;
    let second = lease(&server.client, "packing").await;
    assert_eq!((&first["attempt"], &second["attempt"]), (&json!(1), &json!(2)));
    assert_eq!(first["idempotency_key"], second["idempotency_key"]);
    let late = report(&server.client, &first, "heartbeat", json!({})).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "stale-lease"));
}

#[tokio::test]
async fn a_lease_is_proved_by_its_token() {
    let (server, _) = started().await;
    let job = lease(&server.client, "packing").await;
    for what in ["heartbeat", "complete"] {
        let stale = report(&server.client, &job, what, json!({"token": 999})).await;
        assert_eq!((stale.status, stale.problem().as_str()), (409, "stale-lease"), "{what}");
    }
    let kept = report(&server.client, &job, "heartbeat", json!({"lease_seconds": 600})).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    assert!(kept.json()["lease_until"].as_str() > job["lease_until"].as_str(), "{kept:?}");
    assert_eq!(kept.json()["cancelled"], json!(false));
}

#[tokio::test]
async fn heartbeat_informs_a_worker_of_a_rollback() {
    let (server, id) = started().await;
    let client = &server.client;
    let job = lease(client, "packing").await;
    let cancelled = client.post(&format!("/v1/sagas/{id}/cancel"), &json!({"note": "no"})).await;
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
    let beat = async || report(client, &job, "heartbeat", json!({})).await;
    let told = async {
        loop {
            let answer = beat().await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.json()["cancelled"] == json!(true) {
                break;
            }
        }
    };
    tokio::time::timeout(backstitch_testkit::PATIENCE, told).await.unwrap();
    let stopped = json!({"error": {"message": "stopped early", "kind": "refused"}});
    assert_eq!(report(client, &job, "fail", stopped).await.status, 200);
    let saga = client.get(&format!("/v1/sagas/{id}?wait=30")).await.json();
    assert_eq!(saga["status"], json!("compensated"));
}

#[tokio::test]
async fn heartbeat_for_an_unwanted_job_says_that_it_is_cancelled() {
    let server = Running::start().await;
    let client = &server.client;
    let body = json!({"name": "parcel", "steps": [
        {"id": "pack", "action": {"worker": {"queue": "packing"}}, "timeout": "1ms", "retry": {"count": 0}},
    ]});
    let headers = [("content-type", "application/json")];
    client.send(Method::PUT, "/v1/definitions/parcel?apply=true", &headers, body.to_string()).await;
    client.start(&json!({"definition": "parcel"})).await;
    let job = lease(client, "packing").await;
    let beat = async || report(client, &job, "heartbeat", json!({})).await;
    let told = async {
        loop {
            let answer = beat().await;
            if answer.status == 409 {
                break answer;
            }
        }
    };
    let told = tokio::time::timeout(backstitch_testkit::PATIENCE, told).await.unwrap();
    assert_eq!((told.problem().as_str(), &told.json()["cancelled"]), ("stale-lease", &json!(true)));
}

#[tokio::test]
async fn a_lease_that_makes_no_sense_is_refused() {
    let server = Running::start().await;
    let request = json!({"queues": [], "limit": 0, "lease_seconds": 0, "wait_seconds": 3600});
    let answer = server.client.post("/v1/jobs/lease", &request).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-fields"));
    assert_eq!(answer.json()["problems"].as_array().unwrap().len(), 4);
    let nothing = server.client.post("/v1/jobs/lease", &json!({"queues": ["empty"]})).await;
    assert_eq!((nothing.status, nothing.json()), (200, json!({"jobs": []})));
    let unknown = server.client.post("/v1/jobs/4711/complete", &json!({"token": 1})).await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "job-not-found"));
    let number = server.client.post("/v1/jobs/first/complete", &json!({"token": 1})).await;
    assert_eq!((number.status, number.problem().as_str()), (400, "bad-id"));
}

#[tokio::test]
async fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
    let server = Running::start().await;
    let headers = [("content-type", "application/json")];
    let body = r#"{"queues": ["q"], "limit": 2.0, "lease_seconds": 3e1, "wait_seconds": 0.0}"#;
    let answer = server.client.send(Method::POST, "/v1/jobs/lease", &headers, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
