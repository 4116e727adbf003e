//! Invalid requests are refused with the error and a remedy.

use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Answer, Running};

const NOBODY: &str = "0190b6f2-7e1a-7000-8000-000000000000";

async fn started_with(server: &Running, body: &str) -> Answer {
    let json = [("content-type", "application/json")];
    server.client.send(Method::POST, "/v1/sagas", &json, body.to_owned()).await
}

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, kind: &str, says: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, kind), "{answer:?}");
    assert!(answer.detail().contains(says), "{}", answer.detail());
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_line_and_column() {
    let server = Running::start().await;
    let answer = started_with(&server, "{\n  \"definition\": greet\n}").await;
    assert_problem(&answer, 400, "bad-json", "line 2 column 17");
    assert_eq!((&answer.json()["line"], &answer.json()["column"]), (&json!(2), &json!(17)));
    assert_problem(&started_with(&server, "").await, 400, "bad-json", "EOF");
    assert_problem(&started_with(&server, "{} {}").await, 400, "bad-json", "trailing characters");
}

#[tokio::test]
async fn unreadable_json_values_are_refused_everywhere() {
    let server = Running::start().await;
    let json = [("content-type", "application/json")];
    for odd in [r#""half of \ud83d""#, "1e400", r#"[{"\udc00": 1}]"#] {
        for (path, body) in [
            ("/v1/sagas", format!(r#"{{"definition": "greet", "input": {odd}}}"#)),
            ("/v1/outbox", format!(r#"{{"topic": "t", "idempotency_key": "k", "payload": {odd}}}"#)),
            ("/v1/webhooks/events", format!(r#"{{"type": "a.b", "payload": {{"a": {odd}}}}}"#)),
            ("/do/order", format!(r#"{{"idempotency_key": "k", "order": {odd}}}"#)),
        ] {
            let answer = server.client.send(Method::POST, path, &json, body).await;
            assert_problem(&answer, 400, "bad-json", "line 1 column");
        }
    }
}

#[tokio::test]
async fn wrong_types_missing_and_unknown_fields_are_named() {
    let server = Running::start().await;
    for (body, place) in [
        (json!({ "definition": 3 }), "definition"),
        (json!({ "input": {} }), "definition"),
        (json!({ "definition": "greet", "inputs": {} }), "inputs"),
        (json!({ "definition": "greet", "attributes": { "tenant": 3 } }), "attributes.tenant"),
        (json!({ "definition": "greet", "deadline": "tomorrow" }), "deadline"),
        (json!({ "definition": "greet", "correlation_id": [] }), "correlation_id"),
        (json!([]), "body"),
        (json!(["greet"]), "body"),
        (Value::Null, "body"),
    ] {
        let answer = started_with(&server, &body.to_string()).await;
        assert_problem(&answer, 422, "invalid-fields", "");
        let said = answer.json()["problems"][0].to_string();
        assert!(said.contains(place), "{body}: {said}");
    }
}

#[tokio::test]
async fn engine_refusal_is_passed_on() {
    let server = Running::start().await;
    let unknown = started_with(&server, &json!({ "definition": "nothing" }).to_string()).await;
    assert_problem(&unknown, 422, "unknown-definition", "`nothing`");
    let long = json!({ "definition": "greet", "correlation_id": "x".repeat(513) });
    assert_problem(&started_with(&server, &long.to_string()).await, 422, "invalid-fields", "513 bytes");
    let empty = json!({ "definition": "greet", "correlation_id": "" });
    assert_problem(&started_with(&server, &empty.to_string()).await, 422, "invalid-fields", "is empty");
    let large = json!({ "definition": "greet", "input": "x".repeat(300_000) });
    assert_problem(&started_with(&server, &large.to_string()).await, 413, "too-large", "262144");
}

#[tokio::test]
async fn a_body_in_another_charset_is_refused_wherever_one_is_read() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    let items = description["paths"].as_object().unwrap().iter();
    let operations =
        items.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |it| (path, it)));
    let reading: Vec<_> = operations.filter(|(_, (_, it))| it["requestBody"].is_object()).collect();
    assert!(reading.len() > 20, "{}", reading.len());
    for (path, (method, _)) in reading {
        let id = if path.starts_with("/v1/sagas") || path.starts_with("/v1/orders") { NOBODY } else { "1" };
        let named = ["{step}", "{name}", "{machine}", "{key}"];
        let target = named.iter().fold(path.replace("{id}", id), |path, name| path.replace(name, "a"));
        let method: Method = method.to_uppercase().parse().unwrap();
        let wide = [("content-type", "application/json; charset=utf-16")];
        let answer = server.client.send(method.clone(), &target, &wide, "{}").await;
        assert_problem(&answer, 415, "unsupported-media-type", "send it in UTF-8");
        let usual = [("content-type", "application/json; charset=\"UTF-8\"")];
        assert_ne!(server.client.send(method, &target, &usual, "{}").await.status, 415, "{path}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = Running::start_with(|config| config.limits.body_bytes = 1000).await;
    let body = json!({ "definition": "greet", "input": "x".repeat(2000) }).to_string();
    assert_problem(&started_with(&server, &body).await, 413, "too-large", "1000 bytes");
}

#[tokio::test]
async fn a_body_that_is_nested_too_deeply_is_refused() {
    let server = Running::start().await;
    let nested = |depth: usize| {
        format!("{{\"definition\":\"greet\",\"input\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
    };
    assert_eq!(started_with(&server, &nested(63)).await.status, 202);
    assert_problem(&started_with(&server, &nested(64)).await, 400, "json-too-deep", "64 levels");
    assert_problem(&started_with(&server, &nested(100_000)).await, 400, "json-too-deep", "64 levels");
}

#[tokio::test]
async fn a_body_of_another_type_is_refused() {
    let server = Running::start().await;
    for headers in [&[][..], &[("content-type", "text/plain")], &[("content-type", "application/jsonish")]] {
        let answer =
            server.client.send(Method::POST, "/v1/sagas", headers, "{\"definition\":\"greet\"}").await;
        assert_problem(&answer, 415, "unsupported-media-type", "application/json");
    }
    let with_charset = [("content-type", "Application/JSON; charset=utf-8")];
    let answer =
        server.client.send(Method::POST, "/v1/sagas", &with_charset, "{\"definition\":\"greet\"}").await;
    assert_eq!(answer.status, 202);
}

#[tokio::test]
async fn invalid_and_unknown_ids_get_different_errors() {
    let server = Running::start().await;
    for path in ["", "/log", "/events", "/ws"] {
        let bad = server.client.get(&format!("/v1/sagas/seventeen{path}")).await;
        assert_problem(&bad, 400, "bad-id", "`seventeen`");
        let unknown = server.client.get(&format!("/v1/sagas/{NOBODY}{path}")).await;
        assert_problem(&unknown, 404, "saga-not-found", NOBODY);
    }
    let waited = server.client.get(&format!("/v1/sagas/{NOBODY}?wait=1")).await;
    assert_problem(&waited, 404, "saga-not-found", NOBODY);
    for path in ["cancel", "pause", "resume"] {
        let unknown = server.client.post(&format!("/v1/sagas/{NOBODY}/{path}"), &json!({})).await;
        assert_problem(&unknown, 404, "saga-not-found", NOBODY);
    }
    let resolution = json!({ "action": "retry", "note": "n" });
    let unknown = server.client.post(&format!("/v1/sagas/{NOBODY}/steps/a/resolve"), &resolution).await;
    assert_problem(&unknown, 404, "saga-not-found", NOBODY);
}

#[tokio::test]
async fn query_parameters_that_are_wrong_are_named() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "greet" })).await;
    for (path, says) in [
        ("/v1/sagas?limit=0".to_owned(), "`limit` is `0`: use a whole number from 1 to 500"),
        ("/v1/sagas?limit=501".to_owned(), "`limit`"),
        ("/v1/sagas?limit=many".to_owned(), "`limit`"),
        ("/v1/sagas?cursor=abc".to_owned(), "`cursor`"),
        ("/v1/sagas?status=done".to_owned(), "`status`"),
        ("/v1/sagas?limt=3".to_owned(), "`limt` is unknown"),
        ("/v1/sagas?limit=3&limit=4".to_owned(), "`limit` is given twice"),
        (format!("/v1/sagas/{id}?wait=61"), "`wait`"),
        (format!("/v1/sagas/{id}?wait=-1"), "`wait`"),
        (format!("/v1/sagas/{id}?verbose=1"), "`verbose`"),
        (format!("/v1/sagas/{id}/log?cursor=first"), "`cursor`"),
        (format!("/v1/sagas/{id}/log?limit=1001"), "`limit`"),
        (format!("/v1/sagas/{id}/events?after=1"), "`after`"),
        (format!("/v1/sagas/{id}/ws?after=x"), "`after`"),
        ("/v1/events?kind=x".to_owned(), "`kind`"),
        ("/v1/health?stuck_after=soon".to_owned(), "`stuck_after`"),
    ] {
        let answer = server.client.get(&path).await;
        assert_problem(&answer, 400, "bad-query", says);
    }
    let posted = server.client.post("/v1/sagas?wit=3", &json!({ "definition": "greet" })).await;
    assert_problem(&posted, 400, "bad-query", "`wit`");
}

#[tokio::test]
async fn headers_that_cannot_be_read_are_named() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "greet" })).await;
    for number in ["x", "-1", "99999999999999999999"] {
        let path = format!("/v1/sagas/{id}/events");
        let answer = server.client.send(Method::GET, &path, &[("last-event-id", number)], "").await;
        assert_problem(&answer, 400, "bad-header", "Last-Event-ID");
    }
    let headers = [("content-type", "application/json"), ("idempotency-key", " ")];
    let answer = server.client.send(Method::POST, "/v1/sagas", &headers, "{\"definition\":\"greet\"}").await;
    assert_problem(&answer, 400, "bad-header", "Idempotency-Key");
}

#[tokio::test]
async fn unknown_path_is_404_and_wrong_method_405() {
    let server = Running::start().await;
    assert_problem(&server.client.get("/v2/sagas").await, 404, "not-found", "/docs");
    assert_problem(&server.client.get("/docs/errors/nothing").await, 404, "not-found", "");
    let answer = server.client.send(Method::DELETE, "/v1/sagas", &[], "").await;
    assert_problem(&answer, 405, "method-not-allowed", "DELETE");
    assert_eq!(answer.headers["allow"], "POST, GET");
    let answer = server.client.send(Method::PUT, "/health/live", &[], "").await;
    assert_eq!((answer.status, &answer.headers["allow"]), (405, &"GET".parse().unwrap()));
}

#[tokio::test]
async fn a_resolution_that_does_not_fit_is_refused() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "stuck" })).await;
    server.client.ended(&id).await;
    let path = format!("/v1/sagas/{id}/steps/reserve/resolve");
    for body in [
        json!({ "action": "retry" }),
        json!({ "action": "forget", "note": "n" }),
        json!({ "action": "retry", "note": "n", "who": "me" }),
        json!({ "action": "retry", "note": "  " }),
    ] {
        assert_problem(&server.client.post(&path, &body).await, 422, "invalid-fields", "");
    }
    let note = json!({ "action": "retry", "note": "n" });
    let nowhere = server.client.post(&format!("/v1/sagas/{id}/steps/nothing/resolve"), &note).await;
    assert_problem(&nowhere, 404, "step-not-found", "`nothing`");
    let not_stuck = server.client.post(&format!("/v1/sagas/{id}/steps/charge/resolve"), &note).await;
    assert_problem(&not_stuck, 409, "state-forbids", "charge");
}
