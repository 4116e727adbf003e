//! Graceful shutdown.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::support::{EventStream, Program, Running, within};

#[tokio::test]
async fn running_request_is_finished() {
    let mut server = Running::start().await;
    let body = json!({ "definition": "greet" }).to_string();
    let mut stream = TcpStream::connect(server.client.address).await.unwrap();
    let head = format!(
        "POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once it has begun to answer.
    let mut received = vec![0; 25];
    within(stream.read_exact(&mut received)).await.unwrap();
    assert!(received.starts_with(b"HTTP/1.1 100 Continue"));
    server.ask_to_stop();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    server.ended().await;
}

#[tokio::test]
async fn streams_end_and_nothing_new_is_accepted() {
    let mut server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let mut everything = EventStream::open(&server.client, "/v1/events", None).await;
    let mut stream = EventStream::open(&server.client, &format!("/v1/sagas/{id}/events"), None).await;
    stream.next().await.unwrap();
    server.ask_to_stop();
    while stream.next().await.is_some() {}
    while everything.next().await.is_some() {}
    server.switches.open_gate();
    let address = server.client.address;
    server.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn waiting_request_gets_the_current_state() {
    let mut server =
        Running::start_with(|config| config.limits.grace = std::time::Duration::from_millis(100)).await;
    let body = json!({ "definition": "gated" }).to_string();
    let mut events = EventStream::open(&server.client, "/v1/events?type=step.succeeded", None).await;
    let waiting = tokio::spawn({
        let client = server.client.clone();
        async move {
            let json = [("content-type", "application/json")];
            client.send(hyper::Method::POST, "/v1/sagas?wait=60", &json, body).await
        }
    });
    events.next().await.unwrap();
    server.ask_to_stop();
    let answer = within(waiting).await.unwrap();
    assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("running")));
    server.ended().await;
}

#[tokio::test]
async fn a_signal_ends_the_program_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let mut program = Program::serve(&db, &[]).await;
    let mut stream = EventStream::open(&program.client, "/v1/events", None).await;
    program.terminate();
    assert!(stream.next().await.is_none());
    assert_eq!(program.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_the_program_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let mut program =
        Program::serve(&db, &[("BACKSTITCH_LIMITS_BODY_TIMEOUT", "1h"), ("BACKSTITCH_LIMITS_GRACE", "1h")])
            .await;
    let mut stream = TcpStream::connect(program.client.address).await.unwrap();
    let head = "POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
                content-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = vec![0; 25];
    within(stream.read_exact(&mut received)).await.unwrap();
    program.terminate();
    program.logs("shutting down").await;
    program.terminate();
    assert_eq!(program.exit_code().await, Some(1));
}
