//! The way of one topic's messages: so many at once, each within its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch_kernel::Timestamp;
use backstitch_kernel::delivery::{self, Delivery, Input, decide};
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::observer::{Attempt, Outcome};
use super::route::Route;
use super::sink::{Message, Receipt, Undelivered};
use crate::runtime::Shared;
use crate::runtime::catch_panic::{self, Ended};
use crate::store::outbox::{Outgoing, Report, Sent, Share};

/// Messages taken at a time at most: enough to drown the cost of a sync.
const LARGEST_SHARE: usize = 2048;

/// The error code in the log of a message that was sent.
const NO_ERROR: &str = "none";

/// A claimed message, and since when it is ours.
struct Claimed {
    outgoing: Outgoing,
    since: Instant,
}

/// What became of a message, and what whoever counts is told once that is on disk.
pub(super) struct Finished {
    pub(super) sent: Sent,
    topic: Arc<str>,
    adapter: &'static str,
    outcome: Option<Outcome>,
    age: Duration,
    /// Since when it was ours, and for how long.
    since: Instant,
    lease: Duration,
}

impl Finished {
    pub(super) fn was_given_back(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether nobody else can have taken the message.
    pub(super) fn is_ours(&self) -> bool {
        self.since.elapsed() < self.lease
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn attempt(&self) -> Option<Attempt<'_>> {
        let outcome = self.outcome?;
        Some(Attempt { topic: &self.topic, adapter: self.adapter, outcome, age: self.age })
    }
}

/// One topic's way out. What is put into it ends as [`Finished`]. Its concurrency is no [`Limit`](crate::Limit): the lane
/// alone takes its messages, in their order, so a stream that buffers so many futures is enough.
pub(super) struct Lane {
    queue: mpsc::UnboundedSender<Claimed>,
    in_hand: Arc<AtomicUsize>,
    concurrency: usize,
    /// How many messages to have in hand.
    share: usize,
    lease: Duration,
}

impl Lane {
    pub(super) fn open(
        shared: &Arc<Shared>,
        topic: &str,
        route: Route,
        finished: mpsc::UnboundedSender<Finished>,
    ) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let timeout = route.timeout.unwrap_or(shared.options.send_timeout);
        let in_hand = Arc::new(AtomicUsize::new(0));
        let concurrency = route.concurrency;
        let lease = timeout * 2;
        let sending = Sending { shared: shared.clone(), topic: topic.into(), route, timeout, lease };
        let work = sending.work(waiting, in_hand.clone(), finished);
        let stopped = shared.clone();
        tokio::spawn(shared.tracked(async move {
            tokio::select! {
                () = work => {}
                // What was being sent is taken for in doubt.
                () = stopped.stopped() => {}
            }
        }));
        Self { queue, in_hand, concurrency, share: concurrency, lease }
    }

    /// How many more messages to take; nothing while there are enough: at least one for each place, and half a share.
    pub(super) fn wants(&self, topic: &str) -> Option<Share> {
        let in_hand = self.in_hand.load(Ordering::Relaxed);
        let enough = self.concurrency.max(self.share / 2 + 1);
        let limit = self.share.saturating_sub(in_hand);
        (in_hand < enough && limit > 0).then(|| Share { topic: topic.to_owned(), limit, lease: self.lease })
    }

    /// Sends these. A lane that got all it asked for while it had nothing to do may have more in hand next time.
    pub(super) fn send(&mut self, claimed: Vec<Outgoing>, since: Instant) {
        let was_idle = self.in_hand.fetch_add(claimed.len(), Ordering::Relaxed) == 0;
        if was_idle && claimed.len() >= self.share {
            self.share = (self.share * 2).min(LARGEST_SHARE.max(self.concurrency));
        }
        for outgoing in claimed {
            // A lane that broke down leaves its messages to their leases.
            let _ = self.queue.send(Claimed { outgoing, since });
        }
    }

    /// It had more in hand than it could send in time.
    pub(super) fn slow_down(&mut self) {
        self.share = self.concurrency;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) == 0
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }
}

struct Sending {
    shared: Arc<Shared>,
    topic: Arc<str>,
    route: Route,
    timeout: Duration,
    lease: Duration,
}

impl Sending {
    async fn work(
        self,
        mut waiting: mpsc::UnboundedReceiver<Claimed>,
        in_hand: Arc<AtomicUsize>,
        finished: mpsc::UnboundedSender<Finished>,
    ) {
        let messages = stream::poll_fn(|context| waiting.poll_recv(context));
        let sent = messages.for_each_concurrent(self.route.concurrency, |claimed| async {
            let done = self.send(claimed).await;
            in_hand.fetch_sub(1, Ordering::Relaxed);
            // Nobody there to hear of it: the lease's end does the same.
            let _ = finished.send(done);
        });
        sent.await;
    }

    /// A send that began would be over within its timeout. What has waited for its turn that long is left for somebody
    /// who can begin at once, and so is everything when the engine stops.
    async fn send(&self, claimed: Claimed) -> Finished {
        let Claimed { outgoing, since } = claimed;
        if since.elapsed() > self.timeout || self.shared.is_stopping() {
            return self.finished(&outgoing, since, Report::GivenBack, None);
        }
        let message = Message {
            topic: outgoing.message.topic.clone(),
            idempotency_key: outgoing.message.idempotency_key.clone(),
            ordering_key: outgoing.message.ordering_key.clone(),
            payload: outgoing.message.payload.clone(),
            in_doubt: outgoing.in_doubt,
        };
        let sending = async { self.route.sink.send(&message).await };
        let answer = match catch_panic::run(self.timeout, sending).await {
            Ended::Answered(answer) => answer,
            Ended::Panicked(_) => Err(Undelivered::new("panicked", "the sink panicked")),
            Ended::TimedOut => {
                Err(Undelivered::new("timeout", format!("no answer within {:?}", self.timeout)))
            }
        };
        let (report, outcome) = self.judge(&outgoing, answer);
        self.finished(&outgoing, since, report, Some(outcome))
    }

    fn finished(
        &self,
        outgoing: &Outgoing,
        since: Instant,
        report: Report,
        outcome: Option<Outcome>,
    ) -> Finished {
        Finished {
            sent: Sent { id: outgoing.id, lock: outgoing.lock, report },
            topic: self.topic.clone(),
            adapter: self.route.sink.name(),
            outcome,
            age: self.now().since(outgoing.created_at),
            since,
            lease: self.lease,
        }
    }

    /// What the message becomes is the kernel's to say.
    fn judge(&self, outgoing: &Outgoing, answer: Result<Receipt, Undelivered>) -> (Report, Outcome) {
        let error = match answer {
            Ok(receipt) => {
                self.log(outgoing, "succeeded", None);
                return (Report::Delivered(receipt.answer), Outcome::Sent);
            }
            Err(error) => error,
        };
        let now = self.now();
        let under_way = Delivery {
            status: delivery::Status::InProgress,
            attempt_count: outgoing.attempts,
            next_attempt_at: now,
            job: outgoing.lock,
            final_error_code: None,
        };
        let outcome = delivery::Outcome::Failed { code: error.code.clone(), retry_after: error.retry_after };
        let input = Input::Reported { job: outgoing.lock, outcome };
        let policy = self.route.policy();
        match decide(&under_way, input, &policy, outgoing.id.unsigned_abs(), now) {
            Ok(next) if next.status == delivery::Status::DeadLettered => {
                self.log(outgoing, "aborted", Some(&error));
                (Report::Aborted(error), Outcome::Aborted)
            }
            decided => {
                self.log(outgoing, "failed", Some(&error));
                // A wait and not a time: the store may have another clock than this process, and by that a message expires.
                let after = decided.map(|next| next.next_attempt_at.since(now)).unwrap_or_default();
                (Report::Retry { after, error }, Outcome::Failed)
            }
        }
    }

    fn log(&self, outgoing: &Outgoing, status: &str, error: Option<&Undelivered>) {
        let message = &outgoing.message;
        let (key, attempts, adapter) =
            (&message.idempotency_key, outgoing.attempts + 1, self.route.sink.name());
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

    fn now(&self) -> Timestamp {
        self.shared.options.clock.now()
    }
}
