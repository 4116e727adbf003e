//! Sends webhooks from this process: what the delivery runtime does with deliveries.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::delivery::limiter::Verdict;
use backstitch::delivery::{
    AttemptEnd, Claim, Claimer, DeliveryPolicy, DeliveryRuntime, Outcome, Schedule, Unsettled,
};
use backstitch::{ArrivingAnswer, Timestamp};
use futures::future::join_all;
use tokio::time::Instant;

use super::call::{Call, Uncallable};
use super::claims::{Claimant, WebhookClaims};
use super::dispatch::Dispatch;
use super::error::Error;
use super::jobs::{Lane, Report};
use super::observer::{Attempted, Observer};
use super::sender::{Exchange, Sender, code};
use super::signature::WebhookId;
use super::subscription::Subscription;
use super::subscriptions::Subscriptions;

/// Attempts of one claim at most.
const BATCH: usize = 256;
/// The interval between searches for expired leases.
const EXPIRED_EVERY: Duration = Duration::from_secs(1);
/// Jobs that other nodes make are found within this time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The wait after a database that did not answer.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// The sender ends every attempt by itself; this much later the runtime does.
const GRACE: Duration = Duration::from_secs(5);
/// The error code of an attempt that panicked.
const PANICKED: &str = "panicked";

/// Sends webhooks for as long as it runs.
pub struct DeliveryWorker {
    policy: Arc<WebhookPolicy>,
}

/// What the delivery runtime does with deliveries.
struct WebhookPolicy {
    dispatch: Arc<Dispatch>,
    sender: Sender,
    subscriptions: Arc<Subscriptions>,
    observer: Arc<dyn Observer>,
    expired_at: Mutex<Instant>,
}

/// A request that was made, or not.
struct Request {
    started_at: Timestamp,
    /// What came of it; otherwise why its message id cannot be one.
    exchange: Result<Exchange, String>,
}

/// What is written about a job.
#[derive(Clone)]
enum JobResult {
    /// The result of its attempt.
    Report {
        report: Report,
        /// The endpoint that wants no more webhooks, if it said so.
        gone: Option<(i64, Arc<Call>)>,
        /// No lease expires before the report is written: it arrived while its lease lasted.
        #[expect(dead_code, reason = "held until it is dropped")]
        arriving: Arc<ArrivingAnswer>,
    },
    /// No request was made.
    GiveBack { job: i64, token: i64 },
}

impl DeliveryWorker {
    /// Sends what is handed out here.
    #[must_use]
    pub fn new(
        dispatch: Arc<Dispatch>,
        sender: Sender,
        subscriptions: Arc<Subscriptions>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let expired_at = Mutex::new(Instant::now());
        Self { policy: Arc::new(WebhookPolicy { dispatch, sender, subscriptions, observer, expired_at }) }
    }

    /// Sends until `closing`; then running attempts end. Dropped before that, it leaves them to be made again when their
    /// leases have expired.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        DeliveryRuntime::new(self.policy.clone()).run(closing).await;
    }

    /// Sends this to a subscription now, whatever its limits, and returns what came of it. It is no delivery: nothing of it
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
        let WebhookPolicy { dispatch, sender, .. } = &*self.policy;
        let call = dispatch.call(Lane::of(subscription)).map_err(|why| match why {
            Uncallable::Secret(why) => Error::Secret(why),
            why => Error::invalid("subscription", why.to_string()),
        })?;
        Ok(sender.send(call.request(id, payload.into(), 1, dispatch.clock.now())).await)
    }
}

impl WebhookPolicy {
    async fn write(&self, result: &JobResult) -> Result<(), Error> {
        let jobs = &self.dispatch.jobs;
        match result {
            JobResult::GiveBack { job, token } => {
                let answered = jobs.give_back(*job, *token).await?;
                tracing::warn!(job, ?answered, "webhook lease too short for its request; job given back");
            }
            JobResult::Report { report, gone, .. } => {
                let answered = jobs.report(report.clone()).await?;
                tracing::debug!(job = report.job, ?answered, "webhook attempt reported");
                if let Some((subscription, call)) = gone
                    && let Err(error) = self.subscriptions.gone(*subscription, &call.lane().url).await
                {
                    tracing::warn!(subscription, %error, "webhook endpoint is gone; subscription not disabled");
                }
            }
        }
        Ok(())
    }
}

impl DeliveryPolicy for WebhookPolicy {
    type Claims = WebhookClaims;
    type Response = Request;
    type Settlement = JobResult;

    fn claimer(&self) -> &Claimer<WebhookClaims> {
        &self.dispatch.claimer
    }

    fn claimant(&self) -> Claimant {
        Claimant::ThisProcess
    }

    fn schedule(&self) -> Schedule {
        let base = &self.dispatch.jobs.base;
        Schedule {
            batch: BATCH,
            poll_interval: POLL_INTERVAL,
            store_retry: STORE_RETRY,
            pace: base.pace(),
            settlers: base.writers(),
            poll_when_settled: false,
        }
    }

    async fn woken(&self) {
        self.dispatch.jobs.offered().await;
    }

    async fn maintain(&self) -> Result<(), Error> {
        {
            let mut expired_at = self.expired_at.lock().unwrap_or_else(PoisonError::into_inner);
            if expired_at.elapsed() < EXPIRED_EVERY {
                return Ok(());
            }
            *expired_at = Instant::now();
        }
        self.dispatch.expire().await
    }

    /// As many as its limits let it claim.
    fn attempts_at_once(&self, _: &Call) -> usize {
        usize::MAX
    }

    fn time_limit(&self, claim: &Claim<WebhookClaims>) -> Duration {
        claim.timeout.saturating_add(GRACE)
    }

    async fn attempt(&self, claim: &Claim<WebhookClaims>) -> Request {
        let (leased, started_at) = (&claim.item, self.dispatch.clock.now());
        let exchange = match WebhookId::new(leased.webhook_id.clone()) {
            Ok(id) => {
                let payload = leased.payload.clone().into();
                let request = claim.route.request(id, payload, leased.attempt, started_at);
                Ok(self.sender.send(request).await)
            }
            Err(why) => Err(why.to_string()),
        };
        Request { started_at, exchange }
    }

    fn judge(&self, claim: &Claim<WebhookClaims>, end: AttemptEnd<Request>) -> Outcome<JobResult> {
        let (leased, call) = (&claim.item, &claim.route);
        let report = Report { job: leased.job, token: leased.token, ..Report::default() };
        let failed = |code: &str, error: &str| Report {
            error_code: Some(code.to_owned()),
            error: Some(error.to_owned()),
            ..report.clone()
        };
        // It did not end as attempts do: a request may have left.
        let unknown = |code, error| Report { sent: Some(call.sent().clone()), ..failed(code, error) };
        let (report, verdict, retry_after, gone) = match end {
            AttemptEnd::Answered(Request { started_at, exchange: Ok(exchange) }) => {
                let (error_code, duration) = (exchange.error_code(), Some(exchange.duration));
                self.observer.attempted(&Attempted { error_code, duration });
                let (verdict, retry_after) = (exchange.verdict(), exchange.quiet_for());
                let gone = exchange.gone.then(|| (leased.lane, call.clone()));
                let sent = (!exchange.unsent).then(|| call.sent().clone());
                let report = Report { started_at: Some(started_at), sent, ..report };
                (fill(report, exchange), verdict, retry_after, gone)
            }
            AttemptEnd::Answered(Request { started_at, exchange: Err(why) }) => {
                let report = Report { started_at: Some(started_at), ..failed(code::BAD_REQUEST, &why) };
                (report, Verdict::Unknown, None, None)
            }
            AttemptEnd::TimedOut => {
                let report = unknown(code::TIMEOUT, "the attempt did not end in time");
                (report, Verdict::Failing, None, None)
            }
            AttemptEnd::Panicked => {
                tracing::error!(job = leased.job, "webhook attempt panicked");
                (unknown(PANICKED, "the attempt panicked"), Verdict::Unknown, None, None)
            }
        };
        let arriving = Arc::new(self.dispatch.jobs.base.arriving.arrive());
        Outcome { settlement: JobResult::Report { report, gone, arriving }, verdict, retry_after }
    }

    fn give_back(&self, claim: &Claim<WebhookClaims>) -> JobResult {
        JobResult::GiveBack { job: claim.item.job, token: claim.item.token }
    }

    async fn settle(&self, batch: &[JobResult]) -> Unsettled {
        let written = join_all(batch.iter().map(|result| self.write(result))).await;
        let errors = written.into_iter().enumerate();
        let errors = errors.filter_map(|(place, result)| Some((place, result.err()?.to_string())));
        let (failed, errors): (Vec<_>, Vec<_>) = errors.unzip();
        Unsettled { failed, error: errors.into_iter().next(), ..Unsettled::default() }
    }

    /// A report that waits for the database keeps its lease from expiring.
    fn keeps_results_after_lease(&self) -> bool {
        true
    }

    async fn leave(&self) {
        self.dispatch.leave().await;
    }
}

fn fill(report: Report, exchange: Exchange) -> Report {
    Report {
        error_code: exchange.error_code().map(str::to_owned),
        retry_after: exchange.retry_after(),
        error: exchange.error,
        response_code: exchange.status,
        body: Some(exchange.body_start).filter(|body| !body.is_empty()),
        duration: Some(exchange.duration),
        ..report
    }
}
