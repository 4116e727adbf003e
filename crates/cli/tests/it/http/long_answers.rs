//! Streams on connections that are reused.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::support::{EventStream, Running, within};

const LIVE: &str = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection and what has come over it.
struct Raw {
    stream: TcpStream,
    received: String,
}

impl Raw {
    async fn connect(server: &Running) -> Self {
        Self {
            stream: within(TcpStream::connect(server.client.address)).await.unwrap(),
            received: String::new(),
        }
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until this has come for the nth time.
    async fn hear(&mut self, words: &str, times: usize) {
        while self.received.matches(words).count() < times {
            let mut buffer = [0; 4096];
            let read = within(self.stream.read(&mut buffer)).await.unwrap();
            assert!(read > 0, "closed after {}", self.received);
            self.received.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    }

    async fn is_closed(&mut self) -> bool {
        matches!(within(self.stream.read(&mut [0; 64])).await, Ok(0) | Err(_))
    }
}

fn events_of(id: &str) -> String {
    format!("GET /v1/sagas/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

async fn gated(server: &Running) -> String {
    server.client.start(&json!({ "definition": "gated" })).await
}

#[tokio::test]
async fn a_connection_is_used_again_after_each_stream() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "doomed" })).await["id"].as_str().unwrap().to_owned();
    let mut raw = Raw::connect(&server).await;
    for time in 1..=3 {
        raw.say(&events_of(&id)).await;
        raw.hear("\r\n0\r\n\r\n", time).await;
        raw.say(LIVE).await;
        raw.hear("{\"status\":\"ok\"}", time).await;
    }
    assert_eq!(raw.received.matches("event: saga.compensated\n").count(), 3);
    assert_eq!(raw.received.matches("transfer-encoding: chunked").count(), 3);
}

#[tokio::test]
async fn requests_that_come_together_are_all_answered_in_their_order() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "doomed" })).await["id"].as_str().unwrap().to_owned();
    let mut raw = Raw::connect(&server).await;
    raw.say(&format!("{LIVE}{}{LIVE}{}{LIVE}", events_of(&id), events_of(&id))).await;
    raw.hear("{\"status\":\"ok\"}", 3).await;
    let order: Vec<_> = raw
        .received
        .lines()
        .filter(|line| line.contains("{\"status\":\"ok\"}") || line.contains("event: saga.compensated"))
        .map(|line| if line.contains("ok") { "live" } else { "stream" })
        .collect();
    assert_eq!(order, ["live", "stream", "live", "stream", "live"]);
}

#[tokio::test]
async fn request_during_a_stream_is_answered_after_it() {
    let server = Running::start().await;
    let id = gated(&server).await;
    let mut raw = Raw::connect(&server).await;
    raw.say(&events_of(&id)).await;
    raw.hear("event: saga.started", 1).await;
    raw.say(LIVE).await;
    server.switches.open_gate();
    raw.hear("event: saga.succeeded", 1).await;
    raw.hear("{\"status\":\"ok\"}", 1).await;
}

#[tokio::test]
async fn a_reader_that_wants_the_connection_closed_gets_it_closed() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "doomed" })).await["id"].as_str().unwrap().to_owned();
    let mut raw = Raw::connect(&server).await;
    raw.say(&events_of(&id).replace("host: localhost", "host: localhost\r\nConnection: Close")).await;
    raw.hear("\r\n0\r\n\r\n", 1).await;
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_reader_of_old_gets_the_stream_until_the_connection_ends() {
    let server = Running::start().await;
    let id = server.client.run(&json!({ "definition": "doomed" })).await["id"].as_str().unwrap().to_owned();
    let mut raw = Raw::connect(&server).await;
    raw.say(&events_of(&id).replace("HTTP/1.1", "HTTP/1.0")).await;
    raw.hear("event: saga.compensated", 1).await;
    assert!(!raw.received.contains("chunked"), "{}", raw.received);
}

#[tokio::test]
async fn disconnected_idle_reader_frees_its_place() {
    // One place is the client's own.
    let server = Running::start_with(|config| config.limits.connections = 2).await;
    for _ in 0..5 {
        let id = gated(&server).await;
        let mut raw = loop {
            let mut raw = Raw::connect(&server).await;
            raw.say(&events_of(&id)).await;
            let mut first = [0; 12];
            // Turned away until the place of the one before is free.
            if within(raw.stream.read_exact(&mut first)).await.is_ok() && &first == b"HTTP/1.1 200" {
                break raw;
            }
        };
        raw.hear("event: saga.started", 1).await;
        drop(raw);
    }
}

#[tokio::test]
async fn many_streams_wait_side_by_side_and_each_hears_its_own() {
    let server = Running::start().await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        let id = gated(&server).await;
        streams.push(EventStream::open(&server.client, &format!("/v1/sagas/{id}/events"), None).await);
    }
    let mut bystanders = Vec::new();
    for _ in 0..200 {
        bystanders.push(EventStream::open(&server.client, "/v1/events?type=saga.failed", None).await);
    }
    for _ in &streams {
        server.switches.open_gate();
    }
    for stream in streams {
        assert_eq!(stream.rest().await.last().unwrap().name, "saga.succeeded");
    }
    server.client.run(&json!({ "definition": "stuck" })).await;
    for mut bystander in bystanders {
        assert_eq!(bystander.next().await.unwrap().name, "saga.failed", "and nothing before");
    }
}
