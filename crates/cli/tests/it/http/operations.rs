//! Cancel, pause, resume and resolve.

use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Client, EventStream, Running};

/// Waits until the saga's log holds an event of this type.
async fn happened(client: &Client, id: &str, name: &str) {
    let mut events = EventStream::open(client, &format!("/v1/sagas/{id}/events"), None).await;
    while let Some(event) = events.next().await {
        if event.name == name {
            return;
        }
    }
    panic!("{name} never happened");
}

async fn at_its_end(client: &Client, id: &str) -> Value {
    client.ended(id).await
}

#[tokio::test]
async fn a_cancelled_saga_is_rolled_back() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let answer =
        server.client.post(&format!("/v1/sagas/{id}/cancel"), &json!({ "note": "not wanted" })).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["id"], id.as_str());
    server.switches.open_gate();
    let saga = at_its_end(&server.client, &id).await;
    assert_eq!((&saga["status"], &saga["error"]["kind"]), (&json!("compensated"), &json!("cancelled")));
    assert!(saga["error"]["message"].as_str().unwrap().contains("not wanted"), "{saga}");
}

#[tokio::test]
async fn cancel_without_a_note_leaves_a_reason() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    assert_eq!(server.client.post(&format!("/v1/sagas/{id}/cancel"), &json!({})).await.status, 202);
    server.switches.open_gate();
    let saga = at_its_end(&server.client, &id).await;
    assert_eq!(saga["error"]["message"], "cancelled without a note");
}

#[tokio::test]
async fn a_paused_saga_waits_until_it_is_resumed() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let path = |what: &str| format!("/v1/sagas/{id}/{what}");
    let resumed = server.client.post(&path("resume"), &json!({})).await;
    assert_eq!((resumed.status, resumed.problem().as_str()), (409, "state-forbids"));
    let paused = server.client.send(Method::POST, &path("pause"), &[], "").await;
    assert_eq!(paused.status, 202, "without a body too: {paused:?}");
    happened(&server.client, &id, "saga.paused").await;
    let again = server.client.post(&path("pause"), &json!({})).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "state-forbids"));
    assert_eq!(server.client.get(&format!("/v1/sagas/{id}")).await.json()["paused"], true);
    assert_eq!(server.client.post(&path("resume"), &json!({ "note": "go on" })).await.status, 202);
    server.switches.open_gate();
    assert_eq!(at_its_end(&server.client, &id).await["status"], "succeeded");
}

#[tokio::test]
async fn ended_saga_cannot_be_changed() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "greet" })).await["id"].as_str().unwrap().to_owned();
    for what in ["cancel", "pause", "resume"] {
        let answer = server.client.post(&format!("/v1/sagas/{id}/{what}"), &json!({})).await;
        assert_eq!((answer.status, answer.problem().as_str()), (409, "saga-ended"), "{what}");
        assert_eq!(answer.json()["saga_status"], "succeeded");
    }
    let note = json!({ "action": "retry", "note": "n" });
    let answer = server.client.post(&format!("/v1/sagas/{id}/steps/hello/resolve"), &note).await;
    assert_eq!(answer.status, 409, "{answer:?}");
}

#[tokio::test]
async fn stuck_rollback_continues_after_its_resolution() {
    let server = Running::start().await;
    let saga = server.client.run(&json!({ "definition": "stuck" })).await;
    assert_eq!(
        (&saga["status"], &saga["steps"][0]["status"]),
        (&json!("failed"), &json!("compensation_failed"))
    );
    let health = server.client.get("/v1/health").await.json();
    assert_eq!((&health["status"], &health["failed"]), (&json!("attention"), &json!(1)), "{health}");
    assert_eq!(health["active"], json!({}), "a failed rollback is not active: {health}");
    server.switches.repair_undo();
    let id = saga["id"].as_str().unwrap();
    let note = json!({ "action": "retry", "note": "ada: the service is back" });
    let answer = server.client.post(&format!("/v1/sagas/{id}/steps/reserve/resolve"), &note).await;
    assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("compensating")), "{answer:?}");
    assert_eq!(at_its_end(&server.client, id).await["status"], "compensated");
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    let resolved =
        log["items"].as_array().unwrap().iter().find(|event| event["type"] == "step.resolved").unwrap();
    assert_eq!((&resolved["action"], &resolved["note"]), (&json!("retry"), &note["note"]));
}

#[tokio::test]
async fn the_log_says_under_which_name_a_saga_was_operated() {
    let (server, [operator]) = Running::with_keys(["operator"]).await;
    let operator = server.client.with_key(&operator);
    let id = operator.start(&json!({ "definition": "gated" })).await;
    let path = |what: &str| format!("/v1/sagas/{id}/{what}");
    assert_eq!(operator.post(&path("pause"), &json!({ "note": "look first" })).await.status, 202);
    happened(&operator, &id, "saga.paused").await;
    assert_eq!(operator.send(Method::POST, &path("resume"), &[], "").await.status, 202);
    happened(&operator, &id, "saga.resumed").await;
    assert_eq!(operator.post(&path("cancel"), &json!({ "note": " not wanted " })).await.status, 202);
    server.switches.open_gate();
    let saga = at_its_end(&operator, &id).await;
    let why = saga["error"]["message"].as_str().unwrap();
    assert!(why.contains("a test: not wanted"), "{saga}");

    let saga = operator.run(&json!({ "definition": "stuck" })).await;
    let stuck = saga["id"].as_str().unwrap();
    let resolve = format!("/v1/sagas/{stuck}/steps/reserve/resolve");
    let empty = operator.post(&resolve, &json!({ "action": "skip", "note": " " })).await;
    assert_eq!(empty.status, 422, "a name is no note: {empty:?}");
    let decided = json!({ "action": "skip", "note": "it stays reserved" });
    assert_eq!(operator.post(&resolve, &decided).await.status, 202);
    at_its_end(&operator, stuck).await;

    for (saga, event, note) in [
        (id.as_str(), "saga.paused", "a test: look first"),
        (&id, "saga.resumed", "a test"),
        (stuck, "step.resolved", "a test: it stays reserved"),
    ] {
        let log = operator.get(&format!("/v1/sagas/{saga}/log")).await.json();
        let found = log["items"].as_array().unwrap().iter().find(|item| item["type"] == event);
        assert_eq!(found.unwrap()["note"], note, "{log}");
    }
}
