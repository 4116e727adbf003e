//! Where messages of the outbox go.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::Payload;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it goes.
    pub topic: String,
    /// Receivers tell a repeated message by it.
    pub idempotency_key: String,
    /// Messages with the same one belong in order.
    pub ordering_key: Option<String>,
    /// What it says.
    pub payload: Payload,
    /// It may have been sent before: a sender took it and never came back.
    pub in_doubt: bool,
}

/// The other side has the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// What it answered, if that is worth keeping: whoever asks about the message is told.
    pub answer: Option<Payload>,
}

/// The other side does not have the message, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// What programs tell apart, such as `timeout` or `http_503`.
    pub code: String,
    /// What people read.
    pub message: String,
    /// The other side asked not to be sent it again sooner.
    pub retry_after: Option<Duration>,
}

impl Undelivered {
    /// For this reason.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retry_after: None }
    }

    /// The same with the other side's wish not to be sent it again sooner.
    #[must_use]
    pub fn with_retry_after(self, delay: Option<Duration>) -> Self {
        Self { retry_after: delay, ..self }
    }

    /// As the ledger keeps it for a message that is given up.
    pub(crate) fn as_result(&self) -> Payload {
        let told = serde_json::json!({ "code": self.code, "message": self.message });
        Payload::encode(&told).unwrap_or_else(|_| Payload::null())
    }
}

impl From<String> for Undelivered {
    fn from(message: String) -> Self {
        Self::new("failed", message)
    }
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// Somewhere messages go. A message may come more than once; its idempotency key tells.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// What it is called in logs and metrics.
    fn name(&self) -> &'static str {
        "sink"
    }

    /// Hands a message over; `Ok` only once the other side has it.
    ///
    /// # Errors
    /// What went wrong; the message is tried again.
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered>;
}

/// Writes messages to the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSink;

#[async_trait]
impl Sink for LogSink {
    fn name(&self) -> &'static str {
        "log"
    }

    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        tracing::info!(
            topic = %message.topic,
            key = %message.idempotency_key,
            in_doubt = message.in_doubt,
            payload = %message.payload.as_str(),
            "outbox message"
        );
        Ok(Receipt::default())
    }
}
