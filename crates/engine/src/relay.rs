//! Sends what the outbox holds, at least once each.

use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::Retry;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::runtime::Shared;
use crate::runtime::guarded::{self, Ended};
use crate::sink::Message;
use crate::store;
use crate::store::outbox::{ALERTS, Outgoing, Report, Sent};

/// Messages on their way at once.
const AT_ONCE: usize = 256;
/// Sends of one message before it is given up.
const MAX_ATTEMPTS: u32 = 6;

/// How long one claim of a message lasts: longer than any send may take.
fn lease(shared: &Shared) -> Duration {
    shared.options.send_timeout * 2
}

/// Waits between sends of one message: 5 s, doubling.
fn backoff() -> Retry {
    Retry::after_each([5, 10, 20, 40, 80, 160].map(Duration::from_secs).to_vec())
}

/// Sends what is due, for as long as the engine runs, and lets what is on its way arrive.
pub(crate) async fn relay(shared: Arc<Shared>) {
    let _busy = shared.busy();
    tokio::select! {
        () = Relay::new(shared.clone()).run() => {}
        // What was being sent is taken for in doubt and sent again by the next life.
        () = shared.stopped() => {}
    }
}

/// Each message goes its own way, so that a slow one holds up no other.
struct Relay {
    shared: Arc<Shared>,
    sends: JoinSet<Sent>,
    swept: Option<Instant>,
}

impl Relay {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, sends: JoinSet::new(), swept: None }
    }

    async fn run(mut self) {
        while !self.shared.is_stopping() {
            if let Err(error) = self.send_due().await {
                tracing::warn!(%error, "the outbox cannot be read");
            }
            self.settle_some().await;
        }
        while !self.sends.is_empty() {
            self.settle_some().await;
        }
    }

    /// Begins to send what is due, as far as there is room.
    async fn send_due(&mut self) -> Result<(), store::Error> {
        let room = AT_ONCE - self.sends.len();
        if room == 0 || !self.is_worth_a_claim().await? {
            return Ok(());
        }
        // The lease begins here, and so does each send: it is over before anybody takes the message again.
        for outgoing in self.shared.store.claim_outbox(lease(&self.shared), room).await? {
            let shared = self.shared.clone();
            let sending = async move { send(&shared, &outgoing).await };
            self.sends.spawn(self.shared.tracked(sending));
        }
        Ok(())
    }

    /// What a sender took and never settled has no due time: now and then, and first of all, it is looked for.
    async fn is_worth_a_claim(&mut self) -> Result<bool, store::Error> {
        if self.swept.is_none_or(|at| at.elapsed() >= lease(&self.shared) / 2) {
            self.swept = Some(Instant::now());
            return Ok(true);
        }
        let next = self.shared.store.next_outgoing().await?;
        Ok(next.is_some_and(|due| due <= self.shared.options.clock.now()))
    }

    /// Waits until something has been sent or there may be more to send. What has ended by then is settled at once.
    async fn settle_some(&mut self) {
        let mut ended = Vec::new();
        tokio::select! {
            Some(sent) = self.sends.join_next() => ended.push(sent),
            _ = self.shared.outbox.wait(self.shared.options.tick) => {}
        }
        ended.extend(std::iter::from_fn(|| self.sends.try_join_next()));
        // A send that broke down is left to its lease.
        let sent: Vec<Sent> = ended.into_iter().filter_map(Result::ok).collect();
        if sent.is_empty() {
            return;
        }
        if let Err(error) = self.shared.store.settle_outbox(&sent).await {
            tracing::warn!(%error, "what was sent is not on disk: it will be sent again");
        }
    }
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
        Ended::Answered(Ok(_)) => {
            return Sent { id: outgoing.id, lock: outgoing.lock, report: Report::Delivered };
        }
        Ended::Answered(Err(undelivered)) => undelivered.to_string(),
        Ended::Panicked(_) => "the sink panicked".to_owned(),
        Ended::TimedOut => format!("no answer within {} ms", timeout.as_millis()),
    };
    let attempts = outgoing.attempts + 1;
    // An alert is owed to somebody: it is tried until it is out.
    let report = if attempts >= MAX_ATTEMPTS && message.topic != ALERTS {
        tracing::error!(topic = %message.topic, key = %message.idempotency_key, %error, "message given up");
        Report::Aborted { error }
    } else {
        let wait = backoff().wait(attempts, 0);
        Report::Retry { at: shared.options.clock.now().plus(wait), error }
    };
    Sent { id: outgoing.id, lock: outgoing.lock, report }
}
