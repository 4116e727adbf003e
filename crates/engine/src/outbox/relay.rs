//! The relay: delivers the outbox's messages to the sinks of their topics, at least once each.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch_kernel::Timestamp;
use backstitch_kernel::delivery::{self, Delivery, Input, decide};

use super::claims::{OutboxClaims, Topic};
use super::observer::{Attempt, Outcome as SendOutcome};
use super::sink::{Message, Receipt, Undelivered};
use crate::delivery::limiter::{Limiter, LimiterSettings, Verdict};
use crate::delivery::{
    AttemptEnd, Claim, Claimer, DeliveryPolicy, DeliveryRuntime, Outcome, Schedule, Unsettled,
};
use crate::group_commit::Pace;
use crate::runtime::Shared;
use crate::store;
use crate::store::isolation::{Isolated, isolate};
use crate::store::outbox::{Outgoing, Report, Sent};
use crate::store::parked::{OUTBOX, park};

/// The longest pause between two claims on a store that other nodes use too.
const LONGEST_PACE: Duration = Duration::from_millis(5);
/// The error code in the log of a message that was sent.
const NO_ERROR: &str = "none";

/// Sends what is due, for as long as the engine runs, and lets running attempts end.
pub(crate) async fn relay(shared: Arc<Shared>) {
    let _busy = shared.busy();
    let policy = Arc::new(OutboxPolicy::new(shared.clone()));
    let runtime = DeliveryRuntime::new(policy).tracked_by(shared.task_tracker());
    tokio::select! {
        () = runtime.run(shared.stopping()) => {}
        // Running attempts are in doubt: their messages are sent again by the next process.
        () = shared.stopped() => {}
    }
}

/// What the delivery runtime does with messages.
struct OutboxPolicy {
    shared: Arc<Shared>,
    claimer: Claimer<OutboxClaims>,
    /// Messages whose results the database rejects and that are parked already.
    parked: Mutex<HashSet<i64>>,
}

/// The result of a send, and what the observer hears once it is durable.
#[derive(Clone)]
struct MessageResult {
    sent: Sent,
    topic: Arc<str>,
    adapter: &'static str,
    outcome: Option<SendOutcome>,
    age: Duration,
}

impl OutboxPolicy {
    fn new(shared: Arc<Shared>) -> Self {
        // No receiver has a share of anything: each topic has places of its own.
        let limiter = Limiter::new(LimiterSettings { places: usize::MAX, ..LimiterSettings::default() });
        let claims = OutboxClaims::new(shared.clone(), limiter.clone());
        Self { shared, claimer: Claimer::new(claims, limiter), parked: Mutex::default() }
    }

    fn result(
        &self,
        claim: &Claim<OutboxClaims>,
        report: Report,
        outcome: Option<SendOutcome>,
    ) -> MessageResult {
        let Outgoing { id, lock, created_at, .. } = claim.item;
        MessageResult {
            sent: Sent { id, lock, report },
            topic: claim.partition.clone(),
            adapter: claim.route.route.sink.name(),
            outcome,
            age: self.now().since(created_at),
        }
    }

    /// What a message becomes: the kernel decides.
    fn decide(
        &self,
        topic: &Topic,
        outgoing: &Outgoing,
        response: Result<Receipt, Undelivered>,
    ) -> (Report, SendOutcome) {
        let error = match response {
            Ok(receipt) => {
                log(topic, outgoing, "succeeded", None);
                return (Report::Delivered(receipt.answer), SendOutcome::Sent);
            }
            Err(error) => error,
        };
        let now = self.now();
        let in_progress = Delivery {
            status: delivery::Status::InProgress,
            attempt_count: outgoing.attempts,
            next_attempt_at: now,
            job: outgoing.lock,
            final_error_code: None,
        };
        let outcome = delivery::Outcome::Failed { code: error.code.clone(), retry_after: error.retry_after };
        let input = Input::Reported { job: outgoing.lock, outcome };
        let policy = topic.route.policy();
        match decide(&in_progress, input, &policy, outgoing.id.unsigned_abs(), now) {
            Ok(next) if next.status == delivery::Status::DeadLettered => {
                log(topic, outgoing, "aborted", Some(&error));
                (Report::Aborted(error), SendOutcome::Aborted)
            }
            decided => {
                log(topic, outgoing, "failed", Some(&error));
                // A wait and not a time: the store may have another clock than this process, and by that a message expires.
                let after = decided.map(|next| next.next_attempt_at.since(now)).unwrap_or_default();
                (Report::Retry { after, error }, SendOutcome::Failed)
            }
        }
    }

    /// Writes a batch. Parks the messages whose results are rejected, each once: parked again, it would wait longer each time
    /// after its lease. Returns their places in the batch.
    async fn write(&self, results: &[MessageResult]) -> Result<Vec<usize>, store::Error> {
        let store = &*self.shared.store;
        let sent = results.iter().map(|result| result.sent.clone()).collect();
        let settle = |sent: Vec<Sent>| async move { store.settle_outbox(&sent).await };
        let Isolated { rejected, failed, .. } = isolate(sent, settle).await.into();
        let ids: HashSet<i64> = rejected.iter().map(|(sent, _)| sent.id).collect();
        let rejected = rejected.into_iter().map(|(sent, error)| (sent.id, error));
        let new: Vec<_> = rejected.filter(|(id, _)| !self.parked().contains(id)).collect();
        park(store, OUTBOX, &new).await?;
        self.parked().extend(new.iter().map(|(id, _)| id));
        if let Some(error) = failed {
            return Err(error);
        }
        let is_rejected = |place: &usize| results.get(*place).is_some_and(|it| ids.contains(&it.sent.id));
        Ok((0..results.len()).filter(is_rejected).collect())
    }

    fn parked(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.options.clock.now()
    }
}

impl DeliveryPolicy for OutboxPolicy {
    type Claims = OutboxClaims;
    type Response = Result<Receipt, Undelivered>;
    type Settlement = MessageResult;

    fn claimer(&self) -> &Claimer<OutboxClaims> {
        &self.claimer
    }

    fn claimant(&self) {}

    fn schedule(&self) -> Schedule {
        let tick = self.shared.options.tick;
        Schedule {
            batch: usize::MAX,
            poll_interval: tick,
            store_retry: tick,
            pace: if self.shared.store.is_shared() { Pace::new(LONGEST_PACE) } else { Pace::unlimited() },
            settlers: 1,
            poll_when_settled: true,
        }
    }

    async fn woken(&self) {
        self.shared.outbox.woken().await;
    }

    async fn maintain(&self) -> Result<(), store::Error> {
        self.claimer.policy().rescue().await
    }

    fn attempts_at_once(&self, topic: &Topic) -> usize {
        topic.route.concurrency
    }

    async fn attempt(&self, claim: &Claim<OutboxClaims>) -> Result<Receipt, Undelivered> {
        let Outgoing { message, in_doubt, .. } = &claim.item;
        let message = Message {
            topic: message.topic.clone(),
            idempotency_key: message.idempotency_key.clone(),
            ordering_key: message.ordering_key.clone(),
            payload: message.payload.clone(),
            in_doubt: *in_doubt,
        };
        claim.route.route.sink.send(&message).await
    }

    fn judge(
        &self,
        claim: &Claim<OutboxClaims>,
        end: AttemptEnd<Result<Receipt, Undelivered>>,
    ) -> Outcome<MessageResult> {
        let response = match end {
            AttemptEnd::Answered(response) => response,
            AttemptEnd::TimedOut => {
                Err(Undelivered::new("timeout", format!("no answer within {:?}", claim.timeout)))
            }
            AttemptEnd::Panicked => Err(Undelivered::new("panicked", "the sink panicked")),
        };
        let (report, outcome) = self.decide(&claim.route, &claim.item, response);
        let settlement = self.result(claim, report, Some(outcome));
        // A sink is not paused: each message waits for its own backoff.
        Outcome { settlement, verdict: Verdict::Unknown, retry_after: None }
    }

    fn give_back(&self, claim: &Claim<OutboxClaims>) -> MessageResult {
        claim.route.shrink();
        self.result(claim, Report::GivenBack, None)
    }

    fn has_room(&self, claim: &Claim<OutboxClaims>) -> bool {
        claim.route.wants_more(self.claimer.limiter().held(&claim.partition))
    }

    async fn settle(&self, batch: &[MessageResult]) -> Unsettled {
        match self.write(batch).await {
            Ok(rejected) => Unsettled { rejected, ..Unsettled::default() },
            Err(error) => Unsettled::all(batch.len(), &error),
        }
    }

    fn settled(&self, result: &MessageResult) {
        self.lost(result);
        if let Some(outcome) = result.outcome {
            let MessageResult { topic, adapter, age, .. } = result;
            self.shared.options.observer.attempted(&Attempt { topic, adapter, outcome, age: *age });
        }
    }

    fn lost(&self, result: &MessageResult) {
        self.parked().remove(&result.sent.id);
    }
}

fn log(topic: &Topic, outgoing: &Outgoing, status: &str, error: Option<&Undelivered>) {
    let message = &outgoing.message;
    let (key, attempts, adapter) = (&message.idempotency_key, outgoing.attempts + 1, topic.route.sink.name());
    let (topic, in_doubt) = (&message.topic, outgoing.in_doubt);
    match error {
        None => tracing::info!(
            %topic, idempotency_key = %key, status, attempts, adapter, in_doubt, last_error_code = NO_ERROR,
            "outbox message sent"
        ),
        Some(error) => tracing::warn!(
            %topic, idempotency_key = %key, status, attempts, adapter, in_doubt, last_error_code = %error.code,
            error = %error.message, "outbox message not sent"
        ),
    }
}
