//! A reader of server-sent events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde_json::Value;

use super::{Client, within};

/// One event as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A stream that is being read.
pub(crate) struct EventStream {
    response: Response<Incoming>,
    unread: String,
}

impl EventStream {
    pub(crate) async fn open(client: &Client, path: &str, last_event_id: Option<u64>) -> Self {
        let last = last_event_id.map(|id| id.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        let response = client.open(Method::GET, path, &headers, "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: String::new() }
    }

    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.unread = rest;
                if !event.starts_with(':') {
                    return Some(parse(&event));
                }
                continue;
            }
            let frame = within(self.response.body_mut().frame()).await?.unwrap();
            self.unread.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }

    /// Everything up to the end.
    pub(crate) async fn rest(mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn parse(event: &str) -> Sent {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    Sent {
        id: field("id: ").map(|id| id.parse().unwrap()),
        name: field("event: ").unwrap().to_owned(),
        data: serde_json::from_str(field("data: ").unwrap()).unwrap(),
    }
}
