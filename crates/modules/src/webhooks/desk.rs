//! Deliveries for outside workers, who lease them as `webhooks` and call the endpoints themselves.

mod turns;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::delivery::limiter::{Permit, Verdict};
use backstitch::delivery::{Claim, Claimed, PollScope};
use backstitch::inbox::Answer;
use backstitch::{Desk, Error as EngineError, Payload, Subject, Timestamp, Work, store};

use tokio::time::Instant;

use super::claims::{Claimant, lease_for};
use super::dispatch::{Dispatch, HandedOut, WebhookClaim};
use super::error::Error;
use super::jobs::{Answered, LEASE_EXPIRED, Report, Sent, Won, code_kept};
use super::observer::{Attempted, Observer};
use super::sender::{is_gone, refuses_one_event, wants_quiet};
use super::subscriptions::Subscriptions;
use turns::Turns;

/// The queue that workers name.
pub const QUEUE: &str = "webhooks";
/// How often is looked for workers that do not come back.
const FREED_EVERY: Duration = Duration::from_secs(1);
/// The code of a failure that its worker gives none for.
const WORKER_FAILED: &str = "worker_failed";

/// Hands deliveries to outside workers.
pub struct Counter(Arc<Books>);

/// What is handed out here, and what came of it.
struct Books {
    dispatch: Arc<Dispatch>,
    subscriptions: Arc<Subscriptions>,
    observer: Arc<dyn Observer>,
    /// What workers have got here and not answered here, by job.
    held: Mutex<HashMap<i64, Held>>,
    turns: Turns,
}

/// What a worker holds.
struct Held {
    token: i64,
    lane: i64,
    sent: Sent,
    permit: Permit<i64>,
    /// How long its request may take.
    timeout: Duration,
    since: Instant,
}

impl Counter {
    /// The deliveries that are handed out here; for [`Engine::open_desk`](backstitch::Engine::open_desk). Somebody has to
    /// [free](Self::free_places) the places of workers that do not come back.
    #[must_use]
    pub fn of(
        dispatch: Arc<Dispatch>,
        subscriptions: Arc<Subscriptions>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self(Arc::new(Books {
            dispatch,
            subscriptions,
            observer,
            held: Mutex::default(),
            turns: Turns::new(),
        }))
    }

    /// Frees places for as long as it is polled. What workers have the other nodes see, so none of them has to keep a part for a
    /// node that nobody asks.
    pub async fn run(&self) {
        self.0.run().await;
    }

    /// Puts back what workers did not come back for, and frees their places; those too of whom another node has heard.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn free_places(&self) -> Result<(), Error> {
        self.0.free_places().await
    }
}

impl Books {
    fn work(&self, Claimed { claim, permit }: WebhookClaim) -> Result<Work, EngineError> {
        let Claim { route: call, item: leased, .. } = claim;
        let refused = |why: String| EngineError::BadInput(why);
        let signed = call.signed_headers(&leased, self.dispatch.clock.now()).map_err(refused)?;
        // Values were text when they were given.
        let headers =
            signed.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())));
        let lane = call.lane();
        let described = Described {
            delivery_id: leased.delivery,
            event_id: leased.event,
            subscription_id: leased.lane,
            attempt: leased.attempt,
            url: &lane.url,
            timeout_seconds: lane.timeout.as_secs_f64(),
            headers: headers.collect(),
            webhook_id: &leased.webhook_id,
            kind: &leased.kind,
            body: &leased.payload,
        };
        let body = Payload::encode(&described).map_err(|why| refused(why.to_string()))?;
        let held = Held {
            token: leased.token,
            lane: lane.id,
            sent: call.sent().clone(),
            permit,
            timeout: lane.timeout,
            since: Instant::now(),
        };
        self.held().insert(leased.job, held);
        Ok(Work {
            job: leased.job,
            token: leased.token,
            queue: QUEUE.to_owned(),
            subject: Subject::Delivery { id: leased.delivery },
            attempt: leased.attempt,
            idempotency_key: leased.webhook_id,
            body,
            lease_until: leased.until,
        })
    }

    async fn run(&self) {
        loop {
            tokio::time::sleep(FREED_EVERY).await;
            if self.held().is_empty() {
                continue;
            }
            if let Err(error) = self.free_places().await {
                tracing::warn!(%error, "who still has deliveries cannot be found out");
            }
        }
    }

    async fn free_places(&self) -> Result<(), Error> {
        self.dispatch.expire().await?;
        let jobs: HashMap<i64, i64> = self.held().iter().map(|(job, held)| (*job, held.token)).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let over = self.dispatch.jobs.over(&jobs).await?;
        let is_over =
            |job: &i64, held: &mut Held| jobs.get(job) == Some(&held.token) && over.contains_key(job);
        let freed: Vec<_> = self.held().extract_if(is_over).collect();
        let room = !freed.is_empty();
        for (job, held) in freed {
            // How long the endpoint asked to be left alone, only the node knows that heard of it.
            let won = over.get(&job).and_then(Option::as_ref);
            held.permit.release(won.map_or(Verdict::Unknown, shown_by), None);
        }
        if room {
            self.dispatch.jobs.base.work_soon();
        }
        Ok(())
    }

    /// What the answer to a delivery says about its endpoint, wherever it was handed out.
    async fn judge(&self, known: Known, report: &Report) {
        let status = report.response_code;
        let (error_code, duration) = (report.error_code.as_deref(), known.since());
        self.observer.attempted(&Attempted { error_code, duration });
        let verdict = verdict_on(error_code);
        let quiet_for = report.retry_after.filter(|_| status.is_some_and(wants_quiet));
        let (lane, sent) = match known {
            Known::Held(held) => {
                held.permit.release(verdict, quiet_for);
                self.dispatch.jobs.base.work_soon();
                (held.lane, Some(held.sent))
            }
            Known::Elsewhere(handed_out) => {
                self.dispatch.membership.outside_lease_ended();
                self.dispatch.limiter.observe(&handed_out.lane, verdict, quiet_for);
                (handed_out.lane, handed_out.sent)
            }
        };
        if let Some(Sent { url, .. }) = sent.filter(|_| status.is_some_and(is_gone))
            && let Err(error) = self.subscriptions.gone(lane, &url).await
        {
            tracing::warn!(subscription = lane, %error, "the endpoint is gone, and could not be disabled");
        }
    }

    /// What is known of a delivery that a worker has under this token. What is held here is taken out, so that nobody frees
    /// its place meanwhile.
    async fn known(&self, job: i64, token: i64) -> Result<Option<Known>, Error> {
        let held = match self.held().entry(job) {
            Entry::Occupied(held) if held.get().token == token => Some(held.remove()),
            _ => None,
        };
        match held {
            Some(held) => Ok(Some(Known::Held(held))),
            None => Ok(self.dispatch.handed_out(job).await?.map(Known::Elsewhere)),
        }
    }

    /// Holds on to what was not answered after all.
    fn keep(&self, job: i64, known: Option<Known>) {
        if let Some(Known::Held(held)) = known {
            match self.held().entry(job) {
                Entry::Vacant(free) => {
                    free.insert(held);
                }
                // Somebody has got it anew by now.
                Entry::Occupied(_) => held.permit.release(Verdict::Unknown, None),
            }
        }
    }

    /// How long the request may take of what a worker has got here.
    fn timeout_of(&self, job: i64) -> Option<Duration> {
        self.held().get(&job).map(|held| held.timeout)
    }

    async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        let Some(turn) = self.turns.take(|| self.dispatch.jobs.base.offered()).await else {
            return Ok(Vec::new());
        };
        self.free_places().await.map_err(told)?;
        let claimant = Claimant::OutsideWorkers(lease);
        let claimed = self.dispatch.claimer.claim(&PollScope::All, limit, claimant).await;
        let mut found = claimed.map_err(told)?.claimed;
        // A worker is promised no lease that its request may outlive. Giving back takes time too.
        while let Some(late) = found.iter().position(|claimed| !claimed.is_in_time()) {
            self.dispatch.give_back(found.swap_remove(late)).await;
        }
        let mut work = Vec::with_capacity(found.len());
        for claimed in found {
            let job = claimed.claim.item.job;
            match self.work(claimed) {
                Ok(one) => work.push(one),
                // One that cannot be described must not keep the others from their worker; its lease runs out.
                Err(error) => tracing::error!(job, %error, "this delivery cannot be handed out"),
            }
        }
        if work.is_empty() && limit > 0 {
            turn.was_in_vain();
        }
        Ok(work)
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        let timeout = match self.timeout_of(job) {
            Some(timeout) => Some(timeout),
            None => self.dispatch.handed_out(job).await.map_err(told)?.map(|known| known.timeout),
        };
        let lease = timeout.map_or(lease, |timeout| lease_for(timeout, lease));
        match self.dispatch.jobs.extend(job, token, lease).await.map_err(told)? {
            Ok(until) => Ok(Some(until)),
            Err(Answered::Unknown) => Ok(None),
            Err(Answered::Before(_)) => Err(EngineError::JobOver(job)),
            Err(Answered::Stale(_) | Answered::Now) => Err(EngineError::StaleLease(job)),
        }
    }

    async fn answer(
        &self,
        job: i64,
        token: i64,
        answer: &Answer,
    ) -> Result<Option<backstitch::Answered>, EngineError> {
        let known = self.known(job, token).await.map_err(told)?;
        let sent = known.as_ref().and_then(Known::sent);
        let mut report = Report { job, token, sent, ..Report::default() };
        match answer {
            Answer::Succeeded(result) => report.body = (result != "null").then(|| result.clone()),
            Answer::Failed(error) => {
                let code = error.code.as_deref().unwrap_or(WORKER_FAILED);
                report.error_code = Some(code.to_owned());
                report.response_code = status_in(code);
                report.error = Some(error.message.clone());
                report.retry_after = error.retry_after;
            }
        }
        let answered = match self.dispatch.jobs.report(report.clone()).await {
            Ok(answered) => answered,
            Err(error) => {
                self.keep(job, known);
                return Err(told(error));
            }
        };
        match known {
            Some(known) if answered == Answered::Now => self.judge(known, &report).await,
            // Whoever it belongs to, it is not this worker.
            Some(Known::Held(held)) => held.permit.release(Verdict::Unknown, None),
            _ => {}
        }
        match answered {
            Answered::Now => Ok(Some(backstitch::Answered::Now)),
            // It was given up meanwhile, or said otherwise before: whoever says this is not to think that it counts.
            Answered::Before(won) if !says(&report, &won) => Err(EngineError::JobOver(job)),
            Answered::Before(_) => Ok(Some(backstitch::Answered::Before)),
            Answered::Unknown => Ok(None),
            Answered::Stale(_) => Err(EngineError::StaleLease(job)),
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<i64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a delivery that a worker has.
enum Known {
    Held(Held),
    Elsewhere(HandedOut),
}

impl Known {
    fn sent(&self) -> Option<Sent> {
        match self {
            Self::Held(held) => Some(held.sent.clone()),
            Self::Elsewhere(handed_out) => handed_out.sent.clone(),
        }
    }

    /// How long the worker had it.
    fn since(&self) -> Option<Duration> {
        match self {
            Self::Held(held) => Some(held.since.elapsed()),
            Self::Elsewhere(_) => None,
        }
    }
}

/// What a result says about its endpoint.
fn verdict_on(error_code: Option<&str>) -> Verdict {
    match error_code {
        Some(code) if !status_in(code).is_some_and(refuses_one_event) => Verdict::Failing,
        _ => Verdict::Healthy,
    }
}

/// Whether this is what counted.
fn says(report: &Report, won: &Won) -> bool {
    match (won, report.error_code.as_deref()) {
        (Won::Completed, None) => true,
        (Won::Failed(counted), Some(code)) => *counted == code_kept(code),
        _ => false,
    }
}

/// The same of one that another node has heard of.
fn shown_by(won: &Won) -> Verdict {
    match won {
        Won::Completed => Verdict::Healthy,
        Won::Failed(code) if code == LEASE_EXPIRED => Verdict::Unknown,
        Won::Failed(code) => verdict_on(Some(code)),
    }
}

/// The status in a code such as `http_503`.
fn status_in(code: &str) -> Option<u16> {
    code.strip_prefix("http_")?.parse().ok()
}

#[derive(serde::Serialize)]
struct Described<'a> {
    delivery_id: i64,
    event_id: i64,
    subscription_id: i64,
    attempt: u32,
    url: &'a str,
    /// How long the request may take; the lease is longer.
    timeout_seconds: f64,
    headers: BTreeMap<&'a str, Cow<'a, str>>,
    webhook_id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    /// To be sent byte by byte so: it is what was signed.
    body: &'a str,
}

#[async_trait]
impl Desk for Counter {
    fn serves(&self, queue: &str) -> bool {
        queue == QUEUE
    }

    async fn get_ready(&self) -> Result<(), EngineError> {
        let Books { dispatch, .. } = &*self.0;
        dispatch.membership.heartbeat().await.map_err(|why| told(why.into()))?;
        // A worker may not come again for long, and by then the others would not know this node any more.
        if let Some(begins_at) = dispatch.membership.begins_at() {
            tokio::time::sleep_until(begins_at).await;
        }
        Ok(())
    }

    async fn lease(&self, _queues: &[&str], limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        self.0.lease(limit, lease).await
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        self.0.extend(job, token, lease).await
    }

    async fn answer(
        &self,
        job: i64,
        token: i64,
        answer: &Answer,
    ) -> Result<Option<backstitch::Answered>, EngineError> {
        // A worker that goes away meanwhile has answered all the same, and what it says of the endpoint counts.
        let (books, answer) = (self.0.clone(), answer.clone());
        let answered = tokio::spawn(async move { books.answer(job, token, &answer).await });
        answered
            .await
            .unwrap_or_else(|why| Err(told(Error::Store(store::Error::Unavailable(why.to_string())))))
    }
}

fn told(why: Error) -> EngineError {
    match why {
        Error::Store(why) => EngineError::Store(why.into()),
        Error::Batch(why) => EngineError::Store(why),
        other => EngineError::Store(store::Error::Unavailable(other.to_string()).into()),
    }
}
