//! Connections and their limits.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::http::support::{Running, within};

const SOON: Duration = Duration::from_millis(200);

async fn connect(server: &Running) -> TcpStream {
    within(TcpStream::connect(server.client.address)).await.unwrap()
}

async fn everything(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    // A connection that was cut hard ends with an error; what came before counts.
    let _ = within(stream.read_to_end(&mut received)).await;
    String::from_utf8_lossy(&received).into_owned()
}

/// Asks on a connection that is kept, and reads the answer, which has a short JSON body.
async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut received = String::new();
    while !received.ends_with('}') {
        let mut buffer = [0; 1024];
        let read = within(stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "closed after {received:?}");
        received.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    received
}

#[tokio::test]
async fn a_connection_whose_head_dribbles_in_is_cut() {
    let server = Running::start_with(|config| config.limits.header_timeout = SOON).await;
    let mut slow = connect(&server).await;
    slow.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-slow: ").await.unwrap();
    assert_eq!(everything(&mut slow).await, "");
    let mut silent = connect(&server).await;
    assert_eq!(everything(&mut silent).await, "");
}

#[tokio::test]
async fn a_connection_that_stays_idle_is_closed() {
    let server = Running::start_with(|config| config.limits.idle_timeout = SOON).await;
    let mut idle = connect(&server).await;
    assert!(ask(&mut idle).await.starts_with("HTTP/1.1 200"));
    assert_eq!(everything(&mut idle).await, "");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_with_a_timeout() {
    let server = Running::start_with(|config| config.limits.body_timeout = SOON).await;
    let mut slow = connect(&server).await;
    let head = "POST /v1/sagas HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let answer = everything(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request-timeout"), "{answer}");
}

#[tokio::test]
async fn excess_connection_gets_503_and_frees_its_place() {
    let server = Running::start_with(|config| config.limits.connections = 2).await;
    let mut first = connect(&server).await;
    let mut second = connect(&server).await;
    ask(&mut first).await;
    ask(&mut second).await;
    let mut third = connect(&server).await;
    third.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let answer = everything(&mut third).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too-many-connections"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    drop(first);
    within(answered(server.client.address)).await;
    assert!(ask(&mut second).await.starts_with("HTTP/1.1 200"));
}

/// Connects until there is room.
async fn answered(address: SocketAddr) {
    loop {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        if everything(&mut stream).await.starts_with("HTTP/1.1 200") {
            return;
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let server = Running::start_with(|config| {
        config.limits.connections = 2;
        config.limits.write_timeout = SOON;
    })
    .await;
    let id = server.client.run(&json!({ "definition": "wordy" })).await["id"].as_str().unwrap().to_owned();
    // Takes the second and last place, and does not let go of it by itself. The first is the client's own.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut deaf = within(socket.connect(server.client.address)).await.unwrap();
    let head = format!("GET /v1/sagas/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    deaf.write_all(head.as_bytes()).await.unwrap();
    within(answered(server.client.address)).await;
    let received = everything(&mut deaf).await;
    assert!(!received.contains("saga.succeeded"), "the whole log arrived: {} bytes", received.len());
}

#[tokio::test]
async fn http_2_works_without_upgrade() {
    let server = Running::start().await;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http::<http_body_util::Full<bytes::Bytes>>();
    let uri = format!("http://{}/health/live", server.client.address).parse().unwrap();
    let answer = within(client.get(uri)).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, hyper::Version::HTTP_2));
}

#[tokio::test]
async fn connection_without_http_is_closed() {
    let server = Running::start().await;
    let mut stream = connect(&server).await;
    stream.write_all(b"\x16\x03\x01\x02\x00 hello\r\n\r\n").await.unwrap();
    let answer = everything(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
}
