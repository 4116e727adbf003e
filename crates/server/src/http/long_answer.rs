//! Answers that go on, as streams of events do.
//!
//! Hyper holds sixteen kilobytes for every connection, also where nothing happens for hours. So once the head of such an
//! answer is out, what follows is written here; and when the answer has ended, hyper has the connection again.

use std::future::pending;

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Method, Request, Response, StatusCode, Version};
use futures::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::io::AsyncWriteExt;

use super::socket::{Held, Socket};

/// Events that are there together are written together, up to so many bytes.
const TOGETHER: usize = 64 * 1024;

/// Whether the answer to this could be written here: in chunks, with nothing of the request left to be read.
pub(super) fn may_follow(request: &Request<Incoming>) -> bool {
    let closes = |value: &axum::http::HeaderValue| {
        value.to_str().map_or(true, |options| options.to_ascii_lowercase().contains("close"))
    };
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && !request.headers().get_all(CONNECTION).iter().any(closes)
}

/// Whether this answer goes on.
pub(super) fn goes_on(response: &Response<Body>) -> bool {
    let headers = response.headers();
    response.status() == StatusCode::OK
        && headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
        && !headers.contains_key(CONTENT_LENGTH)
}

/// Writes the rest of an answer whose head is out. Returns the connection for the next request, unless it is over.
pub(super) async fn write(mut socket: Socket, mut body: Body) -> Option<Held> {
    loop {
        let mut frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = hung_up(&socket) => return None,
        };
        let mut chunks = Vec::new();
        let ended = loop {
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        append(&mut chunks, &data);
                    }
                }
                // Cut without its end: the reader sees that something is missing.
                Some(Err(_)) => return None,
                None => {
                    chunks.extend_from_slice(b"0\r\n\r\n");
                    break true;
                }
            }
            if chunks.len() >= TOGETHER {
                break false;
            }
            match body.frame().now_or_never() {
                Some(next) => frame = next,
                None => break false,
            }
        };
        socket.write_all(&chunks).await.ok()?;
        socket.flush().await.ok()?;
        if ended {
            return socket.held.take();
        }
    }
}

/// A chunk of nothing would be the end.
fn append(chunks: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        chunks.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        chunks.extend_from_slice(data);
        chunks.extend_from_slice(b"\r\n");
    }
}

/// Ends when the client has. What it says meanwhile is left for later.
async fn hung_up(socket: &Socket) {
    if let Some(held) = &socket.held
        && let Ok(1) = held.stream.peek(&mut [0]).await
    {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_of_events_go_on() {
        let answer =
            |kind: &'static str| Response::builder().header(CONTENT_TYPE, kind).body(Body::empty()).unwrap();
        assert!(goes_on(&answer("text/event-stream")));
        assert!(!goes_on(&answer("application/json")));
        let mut problem = answer("text/event-stream");
        *problem.status_mut() = StatusCode::NO_CONTENT;
        assert!(!goes_on(&problem));
    }

    #[test]
    fn data_becomes_a_chunk_and_nothing_none() {
        let mut chunks = Vec::new();
        append(&mut chunks, b"");
        append(&mut chunks, b"data: 1\n\n");
        append(&mut chunks, &[b'x'; 16]);
        assert_eq!(String::from_utf8_lossy(&chunks), "9\r\ndata: 1\n\n\r\n10\r\nxxxxxxxxxxxxxxxx\r\n");
    }
}
