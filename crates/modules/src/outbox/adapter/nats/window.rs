//! How long a stream remembers keys. A repeated message that comes later is a new one to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, jetstream};
use backstitch_api::validate::shown_duration;

use super::Topic;
use crate::outgoing::reason;

/// A stream whose memory is looked at whenever there is a new connection.
pub(super) struct Watched {
    topic: String,
    stream: String,
    retry_span: Duration,
    /// What the operator was told last: the same is not told again.
    told: Mutex<Option<String>>,
}

impl Watched {
    pub(super) fn new(stream: &str, topic: &Topic<'_>) -> Self {
        Self {
            topic: topic.name.to_owned(),
            stream: stream.to_owned(),
            retry_span: topic.retry_span,
            told: Mutex::default(),
        }
    }

    /// Reads the stream's window, and warns if it is too short.
    pub(super) async fn look(self: Arc<Self>, client: Client) {
        let warning = match jetstream::new(client).get_stream(&self.stream).await {
            Ok(stream) => {
                let window = stream.cached_info().config.duplicate_window;
                too_short(&self.topic, &self.stream, window, self.retry_span)
            }
            Err(why) => Some(format!(
                "topic {}: nobody knows how long stream {} remembers keys, since it cannot be read ({why}: {}): create \
                 it, or let this login ask $JS.API.STREAM.INFO.{}",
                self.topic,
                self.stream,
                reason(&why),
                self.stream
            )),
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != warning {
            if let Some(warning) = &warning {
                tracing::warn!(topic = %self.topic, stream = %self.stream, "{warning}");
            }
            *told = warning;
        }
    }
}

/// What to tell the operator of a stream that forgets keys while their messages may still be sent again.
pub(super) fn too_short(topic: &str, stream: &str, window: Duration, retry_span: Duration) -> Option<String> {
    if window >= retry_span {
        return None;
    }
    let [window, span] = [window, retry_span].map(|time| shown_duration(whole_seconds(time)));
    Some(format!(
        "topic {topic}: stream {stream} remembers keys for {window}, but a message may be sent again for {span}: a late \
         repeat would be a second message. Raise the window (nats stream edit {stream} --dupe-window={}s), or shorten \
         backoff, max_attempts or timeout of the topic",
        whole_seconds(retry_span).as_secs()
    ))
}

/// Rounded up: a window a little too long does no harm.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_shorter_than_the_retry_span_is_warned_about_with_what_to_do() {
        let warned = |window_ms, span_ms| {
            too_short("orders", "ORDERS", Duration::from_millis(window_ms), Duration::from_millis(span_ms))
        };
        let warning = warned(120_000, 214_001).unwrap();
        for said in ["topic orders", "stream ORDERS", "for 2m", "for 3m 35s", "--dupe-window=215s", "backoff"]
        {
            assert!(warning.contains(said), "{said}: {warning}");
        }
        assert_eq!(warned(215_000, 215_000), None);
        assert_eq!(warned(600_000, 215_000), None);
        assert!(warned(0, 1).is_some(), "a stream that remembers nothing");
    }
}
