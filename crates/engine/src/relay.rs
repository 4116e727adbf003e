//! Sends what the outbox holds, at least once each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::{Payload, Retry};
use tokio::time::Instant;

use crate::runtime::Shared;
use crate::runtime::guarded::{self, Ended};
use crate::store::outbox::{Outgoing, Report, Sent};

/// Messages claimed at once.
const BATCH: usize = 256;
/// Sends of one message before it is given up.
const MAX_ATTEMPTS: u32 = 6;

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

/// Somewhere messages go. A message may come more than once; its idempotency key tells.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Hands a message over; `Ok` only once the other side has it.
    ///
    /// # Errors
    /// What went wrong; the message is tried again.
    async fn send(&self, message: &Message) -> Result<(), String>;
}

/// Writes messages to the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSink;

#[async_trait]
impl Sink for LogSink {
    async fn send(&self, message: &Message) -> Result<(), String> {
        tracing::info!(
            topic = %message.topic,
            key = %message.idempotency_key,
            in_doubt = message.in_doubt,
            payload = %message.payload.as_str(),
            "outbox message"
        );
        Ok(())
    }
}

/// How long one claim of a message lasts: longer than any send may take.
fn lease(shared: &Shared) -> Duration {
    shared.options.send_timeout * 2
}

/// Waits between sends of one message: 5 s, doubling.
fn backoff() -> Retry {
    Retry::after_each([5, 10, 20, 40, 80, 160].map(Duration::from_secs).to_vec())
}

/// Sends what is due, for as long as the engine runs.
pub(crate) async fn relay(shared: Arc<Shared>) {
    let mut swept: Option<Instant> = None;
    while !shared.is_stopping() {
        // What a sender took and never settled has no due time: now and then, and first of all, it is looked for.
        let sweep = swept.is_none_or(|at| at.elapsed() >= lease(&shared) / 2);
        if sweep {
            swept = Some(Instant::now());
        }
        let sent = tokio::select! {
            sent = send_due(&shared, sweep) => sent,
            // What was being sent is taken for in doubt and sent again by the next life.
            () = shared.stopped() => return,
        };
        let wait = match sent {
            Ok(BATCH) => Duration::ZERO,
            Ok(_) => shared.options.tick,
            Err(error) => {
                tracing::warn!(%error, "the outbox cannot be read");
                shared.options.tick
            }
        };
        shared.outbox.wait(wait).await;
    }
}

/// Sends one batch; says how many messages it held.
async fn send_due(shared: &Shared, sweep: bool) -> Result<usize, crate::store::Error> {
    let now = shared.options.clock.now();
    if !sweep && shared.store.next_outgoing().await?.is_none_or(|due| due > now) {
        return Ok(0);
    }
    let claimed = shared.store.claim_outbox(lease(shared), BATCH).await?;
    let sends = claimed.iter().map(|outgoing| send(shared, outgoing));
    let sent: Vec<Sent> = futures::future::join_all(sends).await;
    if !sent.is_empty() {
        shared.store.settle_outbox(&sent).await?;
    }
    Ok(claimed.len())
}

async fn send(shared: &Shared, outgoing: &Outgoing) -> Sent {
    let message = Message {
        topic: outgoing.message.topic.clone(),
        idempotency_key: outgoing.message.idempotency_key.clone(),
        ordering_key: outgoing.message.ordering_key.clone(),
        payload: outgoing.message.payload.clone(),
        in_doubt: outgoing.in_doubt,
    };
    let timeout = shared.options.send_timeout;
    let error = match guarded::run(timeout, async { shared.options.sink.send(&message).await }).await {
        Ended::Answered(Ok(())) => {
            return Sent { id: outgoing.id, lock: outgoing.lock, report: Report::Delivered };
        }
        Ended::Answered(Err(error)) => error,
        Ended::Panicked(_) => "the sink panicked".to_owned(),
        Ended::TimedOut => format!("no answer within {} ms", timeout.as_millis()),
    };
    let attempts = outgoing.attempts + 1;
    let report = if attempts >= MAX_ATTEMPTS {
        tracing::error!(topic = %message.topic, key = %message.idempotency_key, %error, "message given up");
        Report::Aborted { error }
    } else {
        let wait = backoff().wait(attempts, 0);
        Report::Retry { at: shared.options.clock.now().plus(wait), error }
    };
    Sent { id: outgoing.id, lock: outgoing.lock, report }
}
