//! Well-formed values that cause trouble.

use hyper::Method;
use serde_json::json;

use crate::http::support::{Answer, Running};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn started_with(server: &Running, body: impl Into<bytes::Bytes>) -> Answer {
    server.client.send(Method::POST, "/v1/sagas", &JSON, body).await
}

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, kind: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, kind), "{answer:?}");
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_refused() {
    let server = Running::start().await;
    for body in [
        &b"{\"definition\": \"gr\xffet\"}"[..],
        b"{\"definition\": \"greet\", \"input\": \"\xc3\x28\"}",
        b"\xff\xfe{}",
    ] {
        assert_problem(&started_with(&server, body).await, 400, "bad-json");
    }
    // Half of a pair of surrogates.
    let half = started_with(&server, "{\"definition\": \"\\ud800\"}").await;
    assert_problem(&half, 400, "bad-json");
    let definition =
        server.client.send(Method::POST, "/v1/definitions/check", &JSON, &b"{\"name\": \"\xff\"}"[..]).await;
    assert_eq!(definition.status, 200, "{definition:?}");
    assert!(
        definition.json()["problems"][0]["message"].as_str().unwrap().contains("UTF-8"),
        "{definition:?}"
    );
}

#[tokio::test]
async fn a_field_that_is_there_twice_is_refused_by_name() {
    let server = Running::start().await;
    for (body, name) in [
        ("{\"definition\": \"greet\", \"definition\": \"doomed\"}", "definition"),
        ("{\"definition\": \"greet\", \"attributes\": {\"a\": \"1\", \"a\": \"2\"}}", "`a`"),
    ] {
        let answer = started_with(&server, body).await;
        assert_problem(&answer, 422, "invalid-fields");
        assert!(answer.detail().contains(name), "{}", answer.detail());
    }
    let twice = "{\"name\": \"x\", \"name\": \"x\", \"steps\": []}";
    let definition = server.client.send(Method::POST, "/v1/definitions/check", &JSON, twice).await.json();
    assert!(definition["problems"][0].to_string().contains("twice"), "{definition}");
}

#[tokio::test]
async fn a_list_is_no_object_even_if_its_values_would_do() {
    let server = Running::start().await;
    let order = json!({ "order_id": "o", "customer_id": "c", "items": [["book", 1]], "amount": 1 });
    let failure = json!({ "token": 1, "error": ["broken", null, "failed", null] });
    for (path, body, place) in [
        ("/v1/sagas", json!(["greet", {}, null, null, {}]), "body"),
        ("/v1/orders", order, "items[0]"),
        ("/v1/jobs/1/fail", failure, "error"),
        ("/v1/jobs/1/complete", json!([1, {}]), "body"),
    ] {
        let answer = server.client.post(path, &body).await;
        assert_problem(&answer, 422, "invalid-fields");
        assert_eq!(answer.json()["problems"][0]["place"], place, "{answer:?}");
    }
    let services = json!({ "endpoints": { "payment": ["http://127.0.0.1:9/", null] } });
    let staged =
        server.client.send(Method::PUT, "/v1/admin/config/services", &JSON, services.to_string()).await;
    assert_problem(&staged, 422, "invalid-fields");
    assert_eq!(staged.json()["problems"][0]["place"], "endpoints.payment", "{staged:?}");
}

#[tokio::test]
async fn a_body_that_may_be_left_out_may_be_null() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    for body in ["", "null", " null\n", "{}"] {
        let operation = if body.is_empty() || body == " null\n" { "pause" } else { "resume" };
        let path = format!("/v1/sagas/{id}/{operation}");
        let answer = server.client.send(Method::POST, &path, &JSON, body).await;
        assert!(matches!(answer.status, 202 | 409), "{body:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_nul_character_is_refused_where_something_is_found_by_it() {
    let server = Running::start().await;
    for body in [
        json!({ "definition": "greet", "correlation_id": "a\0" }),
        json!({ "definition": "greet", "attributes": { "a\0": "1" } }),
        json!({ "definition": "greet", "attributes": { "a": "\0" } }),
    ] {
        assert_problem(&started_with(&server, body.to_string()).await, 422, "invalid-fields");
    }
    let unknown = started_with(&server, json!({ "definition": "\0" }).to_string()).await;
    assert_problem(&unknown, 422, "unknown-definition");
    let kept = server.client.run(&json!({ "definition": "greet", "input": "a\0b" })).await;
    assert_eq!(kept["input"], "a\0b", "an input is nobody's label");
}

#[tokio::test]
async fn paths_that_are_escaped_badly_are_refused_as_problems() {
    let server = Running::start().await;
    for path in [
        "/v1/sagas/%FF",
        "/v1/sagas/%zz",
        "/v1/sagas/%",
        "/v1/jobs/%FF/complete",
        "/v1/orders/%C3%28",
        "/v1/definitions/%FF",
        "/docs/errors/%FF",
    ] {
        let method = if path.contains("/jobs/") { Method::POST } else { Method::GET };
        assert_problem(&server.client.send(method, path, &JSON, "").await, 400, "bad-id");
    }
    for path in ["/v1/definitions/%00", "/v1/definitions/%2e%2e%2f", "/v1/definitions/%25"] {
        assert_problem(&server.client.get(path).await, 404, "definition-not-found");
    }
    for path in ["/v1/sagas/%2F", "/v1//sagas", "/v1/sagas/"] {
        let answer = server.client.get(path).await;
        assert!(matches!(answer.problem().as_str(), "bad-id" | "not-found"), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn numbers_out_of_range_are_refused() {
    let server = Running::start().await;
    for number in ["99999999999999999999", "-1", "1.5", "1e3", "NaN", "0x10", "%2B5%20"] {
        let answer = server.client.get(&format!("/v1/sagas?limit={number}")).await;
        assert_problem(&answer, 400, "bad-query");
    }
    for number in ["9223372036854775808", "-9223372036854775809", "1.0"] {
        let answer = server.client.post(&format!("/v1/jobs/{number}/complete"), &json!({ "token": 1 })).await;
        assert_problem(&answer, 400, "bad-id");
    }
    for number in ["99999999999999999999", "-1", "1.5", "1e3", "\"1\"", "true"] {
        let body = format!("{{\"queues\": [\"q\"], \"limit\": {number}}}");
        let answer = server.client.send(Method::POST, "/v1/jobs/lease", &JSON, body).await;
        assert_problem(&answer, 422, "invalid-fields");
    }
    let endless = started_with(&server, "{\"definition\": \"greet\", \"deadline\": 1e999}").await;
    assert!(matches!(endless.status, 400 | 422), "{endless:?}");
    for time in ["9999999999y", "18446744073709551615s"] {
        let answer = server.client.get(&format!("/v1/health?stuck_after={time}")).await;
        assert!(matches!(answer.status, 200 | 400), "{answer:?}");
    }
}

#[tokio::test]
async fn times_at_the_ends_of_the_calendar_do_no_harm() {
    let server = Running::start().await;
    for (deadline, status) in [
        ("9999-12-30T22:00:00Z", "succeeded"),
        ("0001-01-01T00:00:00Z", "compensated"),
        ("-009999-01-02T01:59:59Z", "compensated"),
    ] {
        let saga = server.client.run(&json!({ "definition": "greet", "deadline": deadline })).await;
        assert_eq!(saga["status"], status, "{saga}");
    }
    let beyond = started_with(
        &server,
        json!({ "definition": "greet", "deadline": "+12345-01-01T00:00:00Z" }).to_string(),
    );
    assert_problem(&beyond.await, 422, "invalid-fields");
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused_or_finds_nothing() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "greet" })).await["id"].as_str().unwrap().to_owned();
    for path in [
        "/v1/sagas?cursor=17".to_owned(),
        "/v1/sagas?cursor=parcel".to_owned(),
        "/v1/sagas?cursor=".to_owned(),
        format!("/v1/sagas/{id}/log?cursor={id}"),
        format!("/v1/admin/alerts?cursor={id}"),
        "/v1/admin/alerts?cursor=%00".to_owned(),
    ] {
        assert_problem(&server.client.get(&path).await, 400, "bad-query");
    }
    let definitions = server.client.get("/v1/definitions?cursor=%00").await;
    assert_eq!((definitions.status, &definitions.json()["items"]), (200, &json!([])));
}

#[tokio::test]
async fn endless_retry_after_costs_only_its_saga() {
    let server = Running::start().await;
    let body = json!({ "name": "parcel", "steps": [{ "id": "pack", "action": { "worker": { "queue": "packing" } } }] });
    let declared =
        server.client.send(Method::PUT, "/v1/definitions/parcel?apply=true", &JSON, body.to_string()).await;
    assert_eq!(declared.status, 201, "{declared:?}");
    let id = server.client.start(&json!({ "definition": "parcel" })).await;
    let leased = server.client.lease(&json!({ "queues": ["packing"], "lease_seconds": 300 })).await;
    let job = &leased[0];
    let error = json!({ "message": "later\0", "code": "\0", "retry_after_seconds": u64::MAX });
    let failed = server
        .client
        .post(&format!("/v1/jobs/{}/fail", job["job_id"]), &json!({ "token": job["token"], "error": error }))
        .await;
    assert_eq!(failed.status, 200, "{failed:?}");
    let cancelled = server.client.post(&format!("/v1/sagas/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
    let ended = server.client.ended(&id).await;
    assert_eq!(ended["status"], "compensated", "{ended}");
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    for event in log["items"].as_array().unwrap() {
        if let Some(at) = event["retry_at"].as_str() {
            assert!(at.ends_with('Z'), "{event}");
        }
    }
}
