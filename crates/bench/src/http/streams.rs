//! Readers of server-sent events.

use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::{Clock, SystemClock};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde::Deserialize;

use super::Failure;
use super::client::{Client, Connection};

/// The used parts of an event.
#[derive(Deserialize)]
pub(super) struct Seen {
    pub(super) r#type: String,
    at: String,
}

impl Seen {
    /// Time since the decision, or since the request if that is later.
    pub(super) fn age(&self, asked: Timestamp) -> Duration {
        let now = SystemClock.now();
        let at = self.at.parse::<jiff::Timestamp>().map_or(now.as_micros(), jiff::Timestamp::as_microsecond);
        now.since(Timestamp::from_micros(at).max(asked))
    }

    pub(super) fn is_last(&self) -> bool {
        matches!(self.r#type.as_str(), "saga.succeeded" | "saga.compensated" | "saga.failed")
    }
}

/// A stream read event by event.
pub(super) struct Stream {
    body: Incoming,
    unread: BytesMut,
}

impl Stream {
    pub(super) async fn open(connection: &mut Connection, path: &str) -> Result<Self, Failure> {
        let response = connection.open(Method::GET, path, Bytes::new()).await?;
        if response.status() != 200 {
            return Err(format!("a stream was answered with {}", response.status()).into());
        }
        Ok(Self { body: response.into_body(), unread: BytesMut::new() })
    }

    /// The next event; none when the stream has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Seen>, Failure> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let frame = self.unread.split_to(end);
                self.unread.advance(2);
                let mut lines = frame.as_ref().split(|byte| *byte == b'\n');
                let data = lines.find_map(|line| line.strip_prefix(b"data: "));
                if let Some(data) = data {
                    return Ok(Some(serde_json::from_slice(data)?));
                }
                continue;
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

/// Idle streams of all events: they only need to stay open.
pub(super) async fn open_idle(client: &Client, count: usize) -> Result<Vec<(Connection, Stream)>, Failure> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = client.connect().await?;
        let stream = Stream::open(&mut connection, "/v1/events?type=saga.paused").await?;
        open.push((connection, stream));
    }
    Ok(open)
}
