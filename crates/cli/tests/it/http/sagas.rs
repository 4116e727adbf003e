//! Starting, finding and reading sagas.

use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Client, Running};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_started_saga_is_on_disk_and_says_where_it_is() {
    let server = Running::start().await;
    let answer =
        server.client.post("/v1/sagas", &json!({ "definition": "gated", "input": { "a": 1 } })).await;
    assert_eq!(answer.status, 202);
    let started = answer.json();
    let id = started["id"].as_str().unwrap();
    assert_eq!(answer.headers["location"], format!("/v1/sagas/{id}"));
    assert_eq!((&started["definition"], &started["version"]), (&json!("gated"), &json!(1)));
    assert!(started["status"].is_string() && started["stream_token"].is_string());
    let saga = server.client.get(&format!("/v1/sagas/{id}")).await.json();
    assert_eq!(saga["input"], json!({ "a": 1 }));
}

#[tokio::test]
async fn a_start_that_waits_answers_with_the_whole_saga() {
    let server = Running::start().await;
    let saga = server.client.run(&json!({ "definition": "greet", "input": { "name": "ada" } })).await;
    assert_eq!(saga["status"], "succeeded");
    assert_eq!(saga["steps"][0]["id"], "hello");
    assert_eq!(saga["steps"][0]["attempts"], 1);
    assert_eq!(saga["steps"][0]["result"], json!({ "greeting": "hello ada" }));
}

#[tokio::test]
async fn a_start_that_waits_in_vain_is_accepted_all_the_same() {
    let server = Running::start().await;
    let answer = server.client.post("/v1/sagas?wait=0", &json!({ "definition": "gated" })).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.json()["status"], "running");
}

#[tokio::test]
async fn rollback_shows_failed_step_reason_and_undone_steps() {
    let server = Running::start().await;
    let saga = server.client.run(&json!({ "definition": "doomed" })).await;
    assert_eq!(saga["status"], "compensated");
    assert_eq!(saga["failed_step"], "charge");
    assert_eq!(saga["error"]["code"], "CARD_DECLINED");
    assert_eq!(saga["steps"][0]["status"], "compensated");
    assert_eq!(saga["steps"][1]["error"]["kind"], "refused");
}

#[tokio::test]
async fn correlation_id_deadline_and_attributes_come_back() {
    let server = Running::start().await;
    let body = json!({
        "definition": "greet", "correlation_id": "order-1", "deadline": "2100-01-31T14:00:00+02:00",
        "attributes": { "tenant": "acme" },
    });
    let saga = server.client.run(&body).await;
    assert_eq!(saga["correlation_id"], "order-1");
    assert_eq!(saga["deadline"], "2100-01-31T12:00:00.000000Z");
    assert_eq!(saga["attributes"], json!({ "tenant": "acme" }));
    assert!(saga["created_at"].as_str().unwrap().ends_with('Z'));
}

async fn start_with_key(client: &Client, key: &str, body: &Value) -> crate::http::support::Answer {
    client.send(Method::POST, "/v1/sagas", &[JSON, ("idempotency-key", key)], body.to_string()).await
}

#[tokio::test]
async fn key_returns_its_saga_and_refuses_another_body() {
    let server = Running::start().await;
    let body = json!({ "definition": "greet", "input": { "name": "ada" } });
    let first = start_with_key(&server.client, "k-1", &body).await;
    let again = start_with_key(&server.client, "k-1", &body).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = json!({ "definition": "greet", "input": { "name": "bob" } });
    let refused = start_with_key(&server.client, "k-1", &other).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "idempotency-conflict"));
    assert_eq!(refused.json()["saga_id"], first.json()["id"]);
    for (field, value) in [
        ("correlation_id", json!("c")),
        ("attributes", json!({ "tenant": "acme" })),
        ("deadline", json!("2100-01-31T12:00:00Z")),
    ] {
        let mut other = body.clone();
        other[field] = value;
        let refused = start_with_key(&server.client, "k-1", &other).await;
        assert_eq!((refused.status, refused.problem().as_str()), (409, "idempotency-conflict"), "{field}");
        let fresh = start_with_key(&server.client, field, &other).await;
        let again = start_with_key(&server.client, field, &other).await;
        assert_eq!((fresh.status, again.status), (202, 202), "{field}");
        assert_eq!(fresh.json()["id"], again.json()["id"]);
        let plain = start_with_key(&server.client, field, &body).await;
        assert_eq!(plain.status, 409, "without {field}");
    }
}

#[tokio::test]
async fn an_input_is_handed_on_as_it_was_written() {
    let server = Running::start().await;
    let body = "{\"definition\": \"gated\", \"input\": {\"n\": 1.0e2,\r\n \"big\": 12345678901234567890123}}";
    let answer = server.client.send(Method::POST, "/v1/sagas", &[JSON], body).await;
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let saga = server.client.get(&format!("/v1/sagas/{id}")).await;
    let text = String::from_utf8(saga.body.to_vec()).unwrap();
    assert!(text.contains("{\"n\": 1.0e2,\r\n \"big\": 12345678901234567890123}"), "{text}");
}

#[tokio::test]
async fn waiting_for_a_saga_answers_when_it_is_at_its_end() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let path = format!("/v1/sagas/{id}?wait=60");
    let waiting = server.client.get(&path);
    let (saga, ()) = tokio::join!(waiting, async { server.switches.open_gate() });
    assert_eq!(saga.json()["status"], "succeeded");
    let in_vain = server.client.start(&json!({ "definition": "gated" })).await;
    let saga = server.client.get(&format!("/v1/sagas/{in_vain}?wait=0")).await;
    assert_eq!(saga.json()["status"], "running");
}

#[tokio::test]
async fn sagas_are_listed_newest_first_page_by_page() {
    let server = Running::start().await;
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(server.client.start(&json!({ "definition": "greet" })).await);
    }
    started.reverse();
    let mut listed = Vec::new();
    let mut path = "/v1/sagas?limit=2".to_owned();
    loop {
        let page = server.client.get(&path).await.json();
        let items = page["items"].as_array().unwrap();
        listed.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/sagas?limit=2&cursor={next}");
    }
    assert_eq!(listed, started);
}

#[tokio::test]
async fn sagas_are_found_by_every_filter() {
    let server = Running::start().await;
    let body = json!({ "definition": "doomed", "correlation_id": "c 1", "attributes": { "tenant": "a&b" } });
    let found = server.client.run(&body).await;
    server.client.run(&json!({ "definition": "greet" })).await;
    for filter in ["status=compensated", "definition=doomed", "correlation_id=c%201", "attr.tenant=a%26b"] {
        let page = server.client.get(&format!("/v1/sagas?{filter}")).await.json();
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{filter}");
        let item = &page["items"][0];
        assert_eq!(item["id"], found["id"], "{filter}");
        assert_eq!((&item["status"], &item["failed_step"]), (&json!("compensated"), &json!("charge")));
    }
    let none = server.client.get("/v1/sagas?definition=doomed&status=running").await.json();
    assert_eq!(none, json!({ "items": [], "next_cursor": null }));
}

#[tokio::test]
async fn log_lists_every_event_in_pages() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "doomed", "input": 7 })).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let whole = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    let events = whole["items"].as_array().unwrap().clone();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types.first(), Some(&"saga.started"));
    assert_eq!(types.last(), Some(&"saga.compensated"));
    assert_eq!(events[0]["input"], 7);
    let compensating = events.iter().find(|event| event["type"] == "saga.compensating").unwrap();
    assert_eq!(
        (&compensating["failed_step"], &compensating["error"]["code"]),
        (&json!("charge"), &json!("CARD_DECLINED"))
    );
    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let mut paged = Vec::new();
    let mut path = format!("/v1/sagas/{id}/log?limit=3");
    loop {
        let page = server.client.get(&path).await.json();
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/sagas/{id}/log?limit=3&cursor={next}");
    }
    assert_eq!(paged, events);
}
