//! Live events of an order, by server-sent events.

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde::Deserialize;

use super::http::Http;
use crate::Failure;
use backstitch_api::sse::SseDecoder;

/// The displayed parts of an event.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Event {
    seq: u64,
    #[serde(rename = "type")]
    kind: String,
    step: Option<String>,
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    message: Option<String>,
    note: Option<String>,
}

impl Event {
    pub(super) fn is_start_of(&self, service: &str) -> bool {
        self.kind == "step.started" && self.step.as_deref() == Some(service)
    }

    /// The line to display, if the event is interesting.
    pub(super) fn told(&self) -> Option<String> {
        if let Some(message) = &self.message {
            return Some(message.clone());
        }
        let step = self.step.as_deref().unwrap_or_default();
        match self.kind.as_str() {
            "step.retry" => {
                let (attempt, of) = (self.attempt.unwrap_or_default(), self.max_attempts.unwrap_or_default());
                Some(format!("attempt {attempt} of {of} at {step} failed, trying again"))
            }
            "saga.adopted" => Some("Taken up by a new process".to_owned()),
            "step.resolved" => {
                Some(format!("Resolved by a person at {step}: {}", self.note.as_deref().unwrap_or_default()))
            }
            _ => None,
        }
    }
}

/// An open stream.
pub(super) struct Progress {
    http: Http,
    url: String,
    last: u64,
    body: Incoming,
    decoder: SseDecoder,
}

impl Progress {
    pub(super) async fn open(http: Http, url: String) -> Result<Self, Failure> {
        let body = from(&http, &url, 0).await?;
        Ok(Self { http, url, last: 0, body, decoder: SseDecoder::default() })
    }

    /// Resumes after the last event.
    pub(super) async fn resume(&mut self) -> Result<(), Failure> {
        self.body = from(&self.http, &self.url, self.last).await?;
        self.decoder = SseDecoder::default();
        Ok(())
    }

    /// The next event; none when the order has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(sent) = self.decoder.next_event() {
                let event: Event = serde_json::from_str(&sent.data)?;
                self.last = event.seq;
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(bytes) = frame?.into_data() {
                        self.decoder.push(&bytes)?;
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

async fn from(http: &Http, url: &str, last: u64) -> Result<Incoming, Failure> {
    let last = last.to_string();
    let answer = http.open(Method::GET, url, Some(("last-event-id", &last)), None).await?;
    if !answer.status().is_success() {
        return Err(format!("{url} was answered with {}", answer.status()).into());
    }
    Ok(answer.into_body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_lines_name_their_service() {
        let event: Event =
            serde_json::from_str(r#"{"seq":7,"type":"step.started","step":"payment"}"#).unwrap();
        assert!(event.is_start_of("payment") && !event.is_start_of("inventory"));
    }
}
