//! Unusual requests, byte by byte.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::support::{Running, within};

const START: &str =
    "POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n";

/// Sends this and reads all that comes back.
async fn answer_to(server: &Running, request: &[u8]) -> String {
    let mut stream = within(TcpStream::connect(server.client.address)).await.unwrap();
    // A server that refuses early need not take the rest.
    let _ = within(stream.write_all(request)).await;
    let mut received = Vec::new();
    let _ = within(stream.read_to_end(&mut received)).await;
    String::from_utf8_lossy(&received).into_owned()
}

#[track_caller]
fn assert_problem(answer: &str, status: u16, kind: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains("application/problem+json") && answer.contains(kind), "{answer}");
}

#[tokio::test]
async fn a_chunked_body_is_read_and_refused_when_it_grows_too_large() {
    let server = Running::start_with(|config| config.limits.body_bytes = 1000).await;
    let head = format!("{START}transfer-encoding: chunked\r\n\r\n");
    let body = json!({ "definition": "greet" }).to_string();
    let fits = answer_to(&server, format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).await;
    assert!(fits.starts_with("HTTP/1.1 202"), "{fits}");
    let chunk = format!("64\r\n{}\r\n", "x".repeat(100));
    let large = answer_to(&server, format!("{head}{}0\r\n\r\n", chunk.repeat(11)).as_bytes()).await;
    assert_problem(&large, 413, "too-large");
    let cut = answer_to(&server, format!("{head}zz\r\nnot a chunk\r\n").as_bytes()).await;
    assert_problem(&cut, 400, "bad-json");
}

#[tokio::test]
async fn announced_oversized_body_is_refused_early() {
    let server = Running::start().await;
    let head = format!("{START}expect: 100-continue\r\ncontent-length: 999999999999\r\n\r\n");
    assert_problem(&answer_to(&server, head.as_bytes()).await, 413, "too-large");
}

#[tokio::test]
async fn expect_continue_is_answered() {
    let server = Running::start().await;
    let mut stream = within(TcpStream::connect(server.client.address)).await.unwrap();
    let body = json!({ "definition": "greet" }).to_string();
    let head = format!("{START}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    within(stream.read_exact(&mut told)).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test]
async fn oversized_request_still_gets_its_response() {
    let server = Running::start().await;
    let body = "x".repeat(8 * 1024 * 1024);
    let request = format!("{START}content-length: {}\r\n\r\n{body}", body.len());
    assert_problem(&answer_to(&server, request.as_bytes()).await, 413, "too-large");
}

#[tokio::test]
async fn lengths_that_contradict_each_other_are_refused() {
    let server = Running::start().await;
    for framing in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: -1\r\n",
        "content-length: 5x\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let answer = answer_to(&server, format!("{START}{framing}\r\n{{}}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_by_name() {
    let server = Running::start().await;
    for encoding in ["gzip", "br", "deflate, gzip", "unheard-of"] {
        let request = format!("{START}content-encoding: {encoding}\r\ncontent-length: 3\r\n\r\n\x1f\x0b\x08");
        let answer = answer_to(&server, request.as_bytes()).await;
        assert_problem(&answer, 415, "unsupported-media-type");
        assert!(answer.contains(encoding), "{answer}");
    }
    let body = json!({ "definition": "greet" }).to_string();
    let plain = format!("{START}content-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert!(answer_to(&server, plain.as_bytes()).await.starts_with("HTTP/1.1 202"));
}

#[tokio::test]
async fn requests_need_exactly_one_host() {
    let server = Running::start().await;
    for version in ["1.1", "1.0"] {
        for hosts in
            ["", "host: localhost\r\nhost: localhost\r\n", "host: localhost\r\nHost: evil.example\r\n"]
        {
            let request = format!("GET /health/live HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
            let answer = answer_to(&server, request.as_bytes()).await;
            // The server answers in the client's version.
            assert_problem(&answer.replace("HTTP/1.0", "HTTP/1.1"), 400, "bad-header");
            assert!(answer.contains("Host"), "{answer}");
        }
        let request =
            format!("GET /health/live HTTP/{version}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = answer_to(&server, request.as_bytes()).await;
        assert!(answer.contains(" 200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn target_that_names_another_host_is_refused() {
    let server = Running::start().await;
    let ask = async |target: &str, host: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        answer_to(&server, request.as_bytes()).await
    };
    for (target, host) in [
        ("http://localhost/health/live", "evil.example"),
        ("http://evil.example/health/live", "localhost"),
        ("http://localhost:1/health/live", "localhost:2"),
        ("http://evil.example@localhost/health/live", "localhost"),
    ] {
        let answer = ask(target, host).await;
        assert_problem(&answer, 400, "bad-header");
        assert!(answer.contains("name different hosts"), "{answer}");
    }
    for (target, host) in [
        ("http://localhost/health/live", "LOCALHOST:80"),
        ("http://localhost:7420/health/live", "localhost:7420"),
    ] {
        let answer = ask(target, host).await;
        assert!(answer.contains(" 200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn every_response_forbids_sniffing() {
    let server = Running::start().await;
    for path in ["/health/live", "/v1/sagas", "/v1/sagas/none", "/nowhere", "/metrics", "/docs", "/"] {
        let answer = server.client.get(path).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
    }
}

#[tokio::test]
async fn wrong_method_response_lists_allowed_methods() {
    let server = Running::start().await;
    for method in ["OPTIONS", "TRACE", "PATCH", "PROPFIND", "get"] {
        let request = format!("{method} /v1/sagas HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = answer_to(&server, request.as_bytes()).await;
        assert_problem(&answer, 405, "method-not-allowed");
        assert!(answer.contains("allow: POST, GET"), "{answer}");
    }
    let head = "HEAD /v1/sagas HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = answer_to(&server, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"), "{answer}");
    let all = "OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_problem(&answer_to(&server, all.as_bytes()).await, 404, "not-found");
}

#[tokio::test]
async fn addresses_and_heads_that_are_far_too_long_are_refused() {
    let server = Running::start().await;
    let get = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n")
    };
    let long = answer_to(&server, get(&format!("/v1/sagas/{}", "a".repeat(8_000)), "").as_bytes()).await;
    assert_problem(&long, 400, "bad-id");
    let path = answer_to(&server, get(&format!("/v1/sagas/{}", "a".repeat(100_000)), "").as_bytes()).await;
    assert!(path.starts_with("HTTP/1.1 414") || path.starts_with("HTTP/1.1 431"), "{path}");
    let header = format!("x-long: {}\r\n", "a".repeat(100_000));
    let header = answer_to(&server, get("/v1/sagas", &header).as_bytes()).await;
    assert!(header.starts_with("HTTP/1.1 431"), "{header}");
    let many = "x-many: a\r\n".repeat(1_000);
    let many = answer_to(&server, get("/v1/sagas", &many).as_bytes()).await;
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
}

#[tokio::test]
async fn invalid_http_does_not_disturb_the_next_connection() {
    let server =
        Running::start_with(|config| config.limits.header_timeout = Duration::from_millis(200)).await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"\r\n\r\n\r\n",
    ] {
        let answer = answer_to(&server, garbage).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(server.client.get("/health/live").await.status, 200);
}
