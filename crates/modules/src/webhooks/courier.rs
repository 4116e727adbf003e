//! The workers of this process: lease attempts, make them, and report what came of them.

mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::call::Uncallable;
use super::dispatch::{By, Dispatch, Dispatched, Found, Wanted, Which};
use super::error::Error;
use super::jobs::{Lane, Leased, Report};
use super::observer::{Attempted, Observer};
use super::sender::{Exchange, Sender};
use super::signature::WebhookId;
use super::subscription::Subscription;
use super::subscriptions::Subscriptions;
use rounds::Rounds;

/// Attempts taken up at once at most.
const BATCH: usize = 256;
/// How often is looked for leases that ran out.
const TICK: Duration = Duration::from_secs(1);
/// The pause after a look that the database did not answer.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// Kept for what nothing was sent for, because its message id cannot be one.
const BAD_ID: &str = "bad_request";

/// Makes attempts for as long as it is run.
pub struct Courier {
    dispatch: Arc<Dispatch>,
    maker: Arc<Maker>,
}

/// Makes one attempt and reports it.
struct Maker {
    dispatch: Arc<Dispatch>,
    sender: Sender,
    subscriptions: Arc<Subscriptions>,
    observer: Arc<dyn Observer>,
    /// A place is free again.
    freed: Notify,
    /// Set when attempts are awaited for the last time.
    is_closing: AtomicBool,
}

impl Courier {
    /// A courier that makes the attempts handed out here.
    #[must_use]
    pub fn new(
        dispatch: Arc<Dispatch>,
        sender: Sender,
        subscriptions: Arc<Subscriptions>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let maker = Maker {
            dispatch: dispatch.clone(),
            sender,
            subscriptions,
            observer,
            freed: Notify::new(),
            is_closing: AtomicBool::new(false),
        };
        Self { dispatch, maker: Arc::new(maker) }
    }

    /// Makes attempts until `closing`; then finishes those under way. Dropped before that, it leaves them to be made again
    /// when their leases have run out.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let mut closing = std::pin::pin!(closing);
        let mut attempts = JoinSet::new();
        let mut looked_for_expired = Instant::now();
        let mut rounds = Rounds::new();
        let pace = self.dispatch.jobs.base.pace();
        loop {
            while attempts.try_join_next().is_some() {}
            // Asked for before looking, so that nothing is missed.
            let offered = self.dispatch.jobs.offered();
            let freed = self.maker.freed.notified();
            let began = Instant::now();
            let which = rounds.next();
            let wait = match self.look(&which, &mut looked_for_expired).await {
                Ok(found) => {
                    let wait = rounds.learn(&which, &found);
                    for dispatched in found.work {
                        attempts.spawn(self.maker.clone().make(dispatched));
                    }
                    wait
                }
                Err(error) => {
                    tracing::warn!(%error, "webhooks wait for the database");
                    STORE_RETRY
                }
            };
            pace.record(began);
            let worth_a_look = async {
                tokio::select! {
                    () = offered => {}
                    () = freed => {}
                    () = tokio::time::sleep(wait) => {}
                }
                tokio::time::sleep_until(pace.next(began)).await;
            };
            tokio::select! {
                biased;
                () = &mut closing => break,
                () = worth_a_look => {}
            }
        }
        self.maker.is_closing.store(true, Ordering::Relaxed);
        self.finish(attempts).await;
    }

    /// Lets what is under way arrive. Until then it counts among what this node has of its endpoints' limits.
    async fn finish(&self, mut attempts: JoinSet<()>) {
        let mut beat = tokio::time::interval(TICK);
        while !attempts.is_empty() {
            tokio::select! {
                _ = attempts.join_next() => {}
                _ = beat.tick() => {
                    if let Err(error) = self.dispatch.crew.show_up().await {
                        tracing::warn!(%error, "other nodes may give endpoints what this one still has");
                    }
                }
            }
        }
        self.dispatch.leave().await;
    }

    async fn look(&self, which: &Which, looked_for_expired: &mut Instant) -> Result<Found, Error> {
        if looked_for_expired.elapsed() >= TICK {
            self.dispatch.expire().await?;
            *looked_for_expired = Instant::now();
        }
        let wanted = Wanted { most: BATCH, lease: Duration::ZERO, by: By::Itself };
        self.dispatch.lease(which, wanted).await
    }

    /// Sends this to a subscription now, whatever its limits, and tells what came of it. It is no delivery: nothing of it
    /// is kept, and it is not tried again.
    ///
    /// # Errors
    /// When the subscription cannot be called.
    pub async fn try_out(
        &self,
        subscription: &Subscription,
        id: WebhookId,
        payload: String,
    ) -> Result<Exchange, Error> {
        let call = self.dispatch.call(Lane::of(subscription)).map_err(|why| match why {
            Uncallable::Secret(why) => Error::Secret(why),
            why => Error::invalid("subscription", why.to_string()),
        })?;
        let now = self.dispatch.clock.now();
        Ok(self.maker.sender.send(call.request(id, payload.into(), 1, now)).await)
    }
}

impl Maker {
    async fn make(self: Arc<Self>, dispatched: Dispatched) {
        if !dispatched.is_in_time() {
            self.dispatch.give_back(dispatched).await;
            self.freed.notify_one();
            return;
        }
        let Dispatched { call, leased, place, ours_until } = dispatched;
        let Leased { job, token, .. } = leased;
        let started_at = self.dispatch.clock.now();
        let mut report = Report { job, token, started_at: Some(started_at), ..Report::default() };
        let lane = leased.lane;
        let mut gone = false;
        match WebhookId::new(leased.webhook_id) {
            Ok(id) => {
                let request = call.request(id, leased.payload.into(), leased.attempt, started_at);
                let exchange = self.sender.send(request).await;
                place.leave(exchange.verdict(), exchange.quiet_for());
                let (error_code, duration) = (exchange.error_code(), Some(exchange.duration));
                self.observer.attempted(&Attempted { error_code, duration });
                gone = exchange.gone;
                report.sent = (!exchange.unsent).then(|| call.sent().clone());
                fill(&mut report, exchange);
            }
            Err(why) => {
                drop(place);
                report.error_code = Some(BAD_ID.to_owned());
                report.error = Some(why.to_string());
            }
        }
        self.freed.notify_one();
        self.report(report, ours_until).await;
        if gone && let Err(error) = self.subscriptions.gone(lane, &call.lane().url).await {
            tracing::warn!(subscription = lane, %error, "the endpoint is gone, and its subscription could not be disabled");
        }
    }

    /// Reports until that is written. The lease does not expire before: the report arrived while it lasted. A process that ends
    /// waits for the end of the lease only.
    async fn report(&self, report: Report, until: Instant) {
        let _arriving = self.dispatch.jobs.base.arriving.arrive();
        let job = report.job;
        loop {
            match self.dispatch.jobs.report(report.clone()).await {
                Ok(answered) => {
                    tracing::debug!(job, ?answered, "reported");
                    return;
                }
                Err(error @ Error::Closed) => {
                    tracing::error!(job, %error, "what came of an attempt was not written: it is made again");
                    return;
                }
                Err(error) if Instant::now() < until || !self.is_closing.load(Ordering::Relaxed) => {
                    tracing::warn!(job, %error, "what came of an attempt cannot be written yet");
                    tokio::time::sleep(STORE_RETRY).await;
                }
                Err(error) => {
                    tracing::error!(job, %error, "what came of an attempt was not written: it is made again");
                    return;
                }
            }
        }
    }
}

fn fill(report: &mut Report, exchange: Exchange) {
    report.error_code = exchange.error_code().map(str::to_owned);
    report.retry_after = exchange.retry_after();
    report.error = exchange.error;
    report.response_code = exchange.status;
    report.body = Some(exchange.body_start).filter(|body| !body.is_empty());
    report.duration = Some(exchange.duration);
}
