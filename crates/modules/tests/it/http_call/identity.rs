//! What a service gets to know about who calls it.

use serde_json::{Value, json};

use crate::http_call::stage::{Stage, one_step};
use backstitch_testkit::service::{Reply, Service};

#[tokio::test]
async fn every_attempt_says_who_it_is_and_all_have_the_same_key() {
    let service = Service::scripted(|nth, _| match nth {
        1 => Reply::Last(Vec::new()),
        2 => Reply::http(503, ""),
        3 => Reply::http(422, ""),
        _ => Reply::http(200, ""),
    })
    .await;
    let stage = Stage::new().await;
    let more = format!("compensate: {{http: {{url: '{}'}}}}, retry: {{count: 2, delay: 1ms}}", service.url());
    stage.declare(&one_step(&service.url(), &more));
    let saga = stage.run("once").await.id.to_string();

    let heard = service.heard();
    assert_eq!(heard.len(), 4, "three attempts, and the doubt of the first is undone");
    let trace = format!("00-{}-", saga.replace('-', ""));
    let mut spans = Vec::new();
    for (nth, call) in heard.iter().enumerate() {
        let phase = if nth < 3 { "do" } else { "undo" };
        let attempt = if nth < 3 { nth + 1 } else { 1 };
        let header = |name: &str| call.headers.get(name).map(String::as_str).unwrap_or_default();
        assert_eq!(header("idempotency-key"), format!("{saga}:call:{phase}"));
        assert_eq!(header("x-backstitch-saga"), saga);
        assert_eq!(header("x-backstitch-step"), "call");
        assert_eq!(header("x-backstitch-attempt"), attempt.to_string());
        assert_eq!(header("content-type"), "application/json");
        assert!(header("user-agent").starts_with("backstitch/"));
        let span = header("traceparent").strip_prefix(&trace).unwrap().strip_suffix("-01").unwrap();
        assert_eq!(span.len(), 16);
        spans.push(span.to_owned());
        let body = call.json();
        assert_eq!(body["saga_id"], *saga);
        assert_eq!((&body["step"], &body["phase"]), (&json!("call"), &json!(phase)));
        assert_eq!((&body["attempt"], &body["input"]), (&json!(attempt), &json!({"amount": 7})));
        assert_eq!(body["results"], json!({}));
    }
    spans.sort();
    spans.dedup();
    assert_eq!(spans.len(), 4, "each attempt is a span of its own");
}

#[tokio::test]
async fn a_definition_chooses_method_address_and_headers() {
    let service = Service::always(|| Reply::http(200, "")).await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "GET"] {
        let stage = Stage::new().await;
        stage.declare(&format!(
            "{{name: m, steps: [{{id: a, action: {{http: {{method: {method}, url: '{}?x=1%20y', headers: {{Authorization: Bearer z}}}}}}}}]}}",
            service.url()
        ));
        assert!(stage.run("m").await.succeeded());
        let call = service.heard().pop().unwrap();
        assert_eq!(call.line, format!("{method} /call?x=1%20y HTTP/1.1"));
        assert_eq!(call.headers["authorization"], "Bearer z");
        assert_eq!(call.body.is_empty(), method == "GET", "a GET has no body");
        assert_eq!(call.headers.contains_key("content-type"), method != "GET");
    }
}

#[tokio::test]
async fn what_a_definition_accepts_is_all_that_is_accepted() {
    let service = Service::always(|| Reply::http(200, "")).await;
    let stage = Stage::new().await;
    let url = service.url();
    for (name, headers) in [("anything", "{}"), ("json", "{Accept: application/json}")] {
        stage.declare(&format!(
            "{{name: {name}, steps: [{{id: a, action: {{http: {{url: '{url}', headers: {headers}}}}}}}]}}"
        ));
        assert!(stage.run(name).await.succeeded());
    }
    let accepted: Vec<_> = service.heard().into_iter().map(|call| call.headers["accept"].clone()).collect();
    assert_eq!(accepted, ["*/*", "application/json"]);
}

#[tokio::test]
async fn later_steps_get_the_results_of_earlier_ones() {
    let service = Service::scripted(|nth, _| Reply::http(200, &format!("{{\"n\": {nth}}}"))).await;
    let stage = Stage::new().await;
    let url = service.url();
    stage.declare(&format!(
        "{{name: two, steps: [{{id: a, action: {{http: {{url: '{url}'}}}}}}, {{id: b, action: {{http: {{url: '{url}'}}}}}}]}}"
    ));
    assert!(stage.run("two").await.succeeded());
    assert_eq!(service.heard()[1].json()["results"], json!({"a": {"n": 1}}));
}

#[tokio::test]
async fn a_step_may_be_named_in_any_language() {
    let service = Service::always(|| Reply::http(200, "")).await;
    let stage = Stage::new().await;
    stage.declare(&format!(
        "{{name: n, steps: [{{id: überweisung, action: {{http: {{url: '{}'}}}}}}]}}",
        service.url()
    ));
    let ended = stage.run("n").await;
    assert!(ended.succeeded(), "{:?}", ended.error);
    let call = &service.heard()[0];
    assert_eq!(call.headers["x-backstitch-step"], "überweisung");
    assert_eq!(call.json()["step"], Value::from("überweisung"));
}
