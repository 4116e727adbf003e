//! What the broker's answer means for a message.

use async_nats::{RequestError, RequestErrorKind};
use backstitch::Payload;
use backstitch::sink::{Receipt, Undelivered};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::outgoing::{quoted, reason};

/// The broker's own numbers for what it refuses.
const STREAM_DOES_NOT_MATCH: u64 = 10_060;
const MESSAGE_EXCEEDS_MAXIMUM: u64 = 10_054;

/// What was answered to a message.
pub(super) struct Answer(Bytes);

impl Answer {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    No { error: Refusal },
    Yes(Ack),
}

/// The message is on the stream's disk.
#[derive(Deserialize, Serialize)]
struct Ack {
    stream: String,
    seq: u64,
    /// It was there before.
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Whether the right stream has it.
pub(super) fn judge(answer: Answer, subject: &str, stream: &str) -> Result<Receipt, Undelivered> {
    let Answer(bytes) = answer;
    let wrong_stream = |told: String| {
        let told = format!("{told}: let {stream} keep the subject {subject}, or name the stream that does");
        Undelivered::new("wrong_stream", told)
    };
    match serde_json::from_slice(&bytes) {
        Ok(Said::Yes(ack)) if ack.stream == stream => Ok(Receipt { answer: Payload::encode(&ack).ok() }),
        Ok(Said::Yes(ack)) => Err(wrong_stream(format!("the stream {} has it", ack.stream))),
        Ok(Said::No { error: Refusal { err_code, description } }) => Err(match err_code {
            STREAM_DOES_NOT_MATCH => {
                wrong_stream(format!("another stream than {stream} answered ({description})"))
            }
            MESSAGE_EXCEEDS_MAXIMUM => Undelivered::new(
                "too_large",
                format!("{stream} refuses it ({description}): raise its max_msg_size"),
            ),
            // Such as a full stream.
            code => Undelivered::new(format!("nats_{code}"), format!("{stream} refuses it: {description}")),
        }),
        Err(_) => {
            let told = format!("something other than a stream answered on {subject}: {}", quoted(&bytes));
            Err(Undelivered::new("bad_ack", told))
        }
    }
}

/// Why there was no answer.
pub(super) fn unanswered(error: &RequestError, subject: &str) -> Undelivered {
    match error.kind() {
        RequestErrorKind::NoResponders => Undelivered::new(
            "no_stream",
            format!(
                "no stream keeps the subject {subject}: add it to the stream, and see that JetStream is on"
            ),
        ),
        RequestErrorKind::MaxPayloadExceeded => Undelivered::new(
            "too_large",
            format!("the broker takes no message as large ({}): raise its max_payload", reason(error)),
        ),
        RequestErrorKind::TimedOut => Undelivered::new("no_ack", "the broker did not acknowledge in time"),
        RequestErrorKind::InvalidSubject => {
            Undelivered::new("bad_subject", format!("{subject} is no subject"))
        }
        RequestErrorKind::Other => Undelivered::new(
            "connection_lost",
            format!("the connection was lost before the broker acknowledged: {}", reason(error)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(said: &'static str) -> Result<String, String> {
        let answer = Answer::new(Bytes::from_static(said.as_bytes()));
        let receipt = judge(answer, "orders.placed", "ORDERS").map_err(|why| why.code)?;
        Ok(receipt.answer.unwrap().as_str().to_owned())
    }

    #[test]
    fn the_right_stream_says_where_it_is_and_whether_it_was_there_before() {
        let first = judged(r#"{"stream":"ORDERS","seq":7}"#);
        assert_eq!(first.unwrap(), r#"{"stream":"ORDERS","seq":7,"duplicate":false}"#);
        let again = judged(r#"{"stream":"ORDERS","seq":7,"domain":"hub","duplicate":true}"#);
        assert_eq!(again.unwrap(), r#"{"stream":"ORDERS","seq":7,"duplicate":true}"#);
    }

    #[test]
    fn every_refusal_has_its_code() {
        for (said, code) in [
            (r#"{"stream":"OTHER","seq":7}"#, "wrong_stream"),
            (
                r#"{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"OTHER","seq":0}"#,
                "wrong_stream",
            ),
            (
                r#"{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}"#,
                "too_large",
            ),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"ORDERS","seq":0}"#,
                "nats_10077",
            ),
            (r#"{"error":{"code":503,"description":"no"}}"#, "nats_0"),
            ("+OK", "bad_ack"),
            ("", "bad_ack"),
            (r#"{"stream":"ORDERS"}"#, "bad_ack"),
        ] {
            assert_eq!(judged(said).unwrap_err(), code, "{said}");
        }
    }
}
