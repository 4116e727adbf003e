//! Live events, over server-sent events and WebSocket.

use futures::{SinkExt, StreamExt};
use hyper::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::http::support::{EventStream, Running, within};

async fn ended(server: &Running, definition: &str) -> String {
    let saga = server.client.run(&json!({ "definition": definition })).await;
    saga["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn stream_sends_numbered_events_and_ends_with_the_saga() {
    let server = Running::start().await;
    let id = ended(&server, "doomed").await;
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    let sent = EventStream::open(&server.client, &format!("/v1/sagas/{id}/events"), None).await.rest().await;
    let data: Vec<_> = sent.iter().map(|event| event.data.clone()).collect();
    assert_eq!(Value::from(data), log["items"]);
    for event in &sent {
        assert_eq!(event.id, event.data["seq"].as_u64());
        assert_eq!(event.name, event.data["type"]);
    }
}

#[tokio::test]
async fn reconnecting_reader_gets_exactly_what_it_missed() {
    let server = Running::start().await;
    let id = ended(&server, "doomed").await;
    let path = format!("/v1/sagas/{id}/events");
    let all = EventStream::open(&server.client, &path, None).await.rest().await;
    for read in 0..all.len() {
        let rest = EventStream::open(&server.client, &path, Some(read as u64)).await.rest().await;
        assert_eq!(rest, all[read..]);
    }
    let last = all.len().to_string();
    let answer = server.client.send(Method::GET, &path, &[("last-event-id", &last)], "").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
}

#[tokio::test]
async fn reader_ahead_of_the_log_is_refused() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let mut stream = EventStream::open(&server.client, &format!("/v1/sagas/{id}/events"), None).await;
    while stream.next().await.unwrap().id != Some(4) {}
    for path in [format!("/v1/sagas/{id}/events"), format!("/v1/sagas/{id}/ws?after=5")] {
        let kind = if path.contains("after") { "bad-query" } else { "bad-header" };
        let ahead = server.client.send(Method::GET, &path, &[("last-event-id", "5")], "").await;
        assert_eq!((ahead.status, ahead.problem().as_str()), (400, kind), "{path}: {ahead:?}");
        assert!(ahead.detail().contains("the newest event is number 4"), "{ahead:?}");
    }
    server.switches.open_gate();
    while stream.next().await.is_some() {}
    let path = format!("/v1/sagas/{id}/events");
    let past = server.client.send(Method::GET, &path, &[("last-event-id", "1000")], "").await;
    assert_eq!((past.status, past.problem().as_str()), (400, "bad-header"), "ended sagas too: {past:?}");
}

#[tokio::test]
async fn a_reader_that_leaves_in_the_middle_misses_nothing() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let path = format!("/v1/sagas/{id}/events");
    let mut stream = EventStream::open(&server.client, &path, None).await;
    let mut read = Vec::new();
    while read.last().is_none_or(|event: &u64| *event < 4) {
        read.push(stream.next().await.unwrap().id.unwrap());
    }
    drop(stream);
    let mut stream = EventStream::open(&server.client, &path, read.last().copied()).await;
    server.switches.open_gate();
    while let Some(event) = stream.next().await {
        read.push(event.id.unwrap());
    }
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    assert_eq!(read, (1..=log["items"].as_array().unwrap().len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn line_breaks_in_an_input_do_not_break_the_stream() {
    let server = Running::start().await;
    let body = "{\"definition\": \"greet\",\r\n\"input\": {\"name\":\r\n\n\"a\\nb\"}}";
    let json = [("content-type", "application/json")];
    let answer = server.client.send(Method::POST, "/v1/sagas?wait=30", &json, body).await;
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let sent = EventStream::open(&server.client, &format!("/v1/sagas/{id}/events"), None).await.rest().await;
    assert_eq!(sent[0].data["input"], json!({ "name": "a\nb" }));
}

#[tokio::test]
async fn the_stream_of_everything_is_filtered_and_has_no_ids() {
    let server = Running::start().await;
    let mut everything = EventStream::open(&server.client, "/v1/events", None).await;
    let path = "/v1/events?definition=doomed&type=saga.compensated";
    let mut filtered = EventStream::open(&server.client, path, None).await;
    let greeted = ended(&server, "greet").await;
    let doomed = ended(&server, "doomed").await;
    let first = everything.next().await.unwrap();
    assert_eq!((first.id, first.name.as_str()), (None, "saga.started"));
    assert_eq!((&first.data["saga_id"], &first.data["definition"]), (&json!(greeted), &json!("greet")));
    let only = filtered.next().await.unwrap();
    assert_eq!((only.name.as_str(), &only.data["saga_id"]), ("saga.compensated", &json!(doomed)));
}

async fn socket(
    server: &Running,
    path: &str,
) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>> {
    let address = format!("ws://{}{path}", server.client.address);
    within(tokio_tungstenite::connect_async(address)).await.unwrap().0
}

#[tokio::test]
async fn websocket_sends_the_same_and_closes_at_the_end() {
    let server = Running::start().await;
    let id = ended(&server, "doomed").await;
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json();
    let log = log["items"].as_array().unwrap();
    for after in [0, 3, log.len()] {
        let mut socket = socket(&server, &format!("/v1/sagas/{id}/ws?after={after}")).await;
        let mut told = Vec::new();
        let close = loop {
            match within(socket.next()).await.unwrap().unwrap() {
                Message::Text(text) => told.push(serde_json::from_str::<Value>(&text).unwrap()),
                Message::Close(frame) => break frame.unwrap(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told, log[after..]);
        assert_eq!(close.code, CloseCode::Normal);
    }
}

#[tokio::test]
async fn a_websocket_follows_a_saga_and_answers_pings() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let mut socket = socket(&server, &format!("/v1/sagas/{id}/ws?after=0")).await;
    socket.send(Message::Ping(bytes::Bytes::from_static(b"there?"))).await.unwrap();
    let mut last = String::new();
    let mut pong = false;
    while let Some(Ok(message)) = within(socket.next()).await {
        match message {
            Message::Text(text) => {
                let event: Value = serde_json::from_str(&text).unwrap();
                last = event["type"].as_str().unwrap().to_owned();
            }
            Message::Pong(words) => {
                pong = words == "there?";
                server.switches.open_gate();
            }
            _ => {}
        }
    }
    assert!(pong);
    assert_eq!(last, "saga.succeeded");
}

#[tokio::test]
async fn plain_request_to_a_websocket_is_refused() {
    let server = Running::start().await;
    let id = ended(&server, "greet").await;
    let answer = server.client.get(&format!("/v1/sagas/{id}/ws")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "bad-header"));
}
