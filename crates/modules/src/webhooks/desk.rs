//! Deliveries for outside workers, who lease them as `webhooks` and call the endpoints themselves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox::Answer;
use backstitch::{Desk, Error as EngineError, Payload, Subject, Timestamp, Work, store};

use super::dispatch::{Dispatch, Dispatched, Term};
use super::error::Error;
use super::jobs::{Answered, Report};
use super::lanes::{Place, Verdict};

/// The queue that workers name.
pub const QUEUE: &str = "webhooks";
/// The code of a failure that its worker gives none for.
const WORKER_FAILED: &str = "worker_failed";

/// Hands deliveries to outside workers.
pub struct Counter {
    dispatch: Arc<Dispatch>,
    /// What workers of this process's callers hold, until when; a place is free again once they have answered.
    held: Mutex<HashMap<i64, (Place, Timestamp)>>,
}

impl Counter {
    /// The deliveries that are handed out here; for [`Engine::open_desk`](backstitch::Engine::open_desk).
    #[must_use]
    pub fn of(dispatch: Arc<Dispatch>) -> Self {
        Self { dispatch, held: Mutex::default() }
    }

    fn work(&self, Dispatched { call, leased, place }: Dispatched) -> Result<Work, EngineError> {
        let refused = |why: String| EngineError::BadInput(why);
        let signed = call.signed_headers(&leased, self.dispatch.clock.now()).map_err(refused)?;
        let headers = signed.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let described = Described {
            delivery_id: leased.delivery,
            event_id: leased.event,
            subscription_id: leased.lane,
            attempt: leased.attempt,
            url: &call.lane().url,
            headers: headers.collect(),
            webhook_id: &leased.webhook_id,
            kind: &leased.kind,
            body: &leased.payload,
        };
        let body = Payload::encode(&described).map_err(|why| refused(why.to_string()))?;
        self.held().insert(leased.job, (place, leased.until));
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

    /// Frees the places of workers who never came back.
    fn forget_lost(&self) {
        let now = self.dispatch.clock.now();
        for (_, (place, _)) in self.held().extract_if(|_, (_, until)| *until <= now) {
            place.leave(Verdict::Unknown, None);
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<i64, (Place, Timestamp)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(serde::Serialize)]
struct Described<'a> {
    delivery_id: i64,
    event_id: i64,
    subscription_id: i64,
    attempt: u32,
    url: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
    webhook_id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    /// To be sent byte by byte so: it is what was signed.
    body: &'a str,
}

#[async_trait]
impl Desk for Counter {
    fn queue(&self) -> &str {
        QUEUE
    }

    async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        self.forget_lost();
        self.dispatch.jobs.expire().await.map_err(told)?;
        let found = self.dispatch.lease(limit, Term::Exactly(lease)).await.map_err(told)?;
        let mut work = Vec::with_capacity(found.work.len());
        for dispatched in found.work {
            let job = dispatched.leased.job;
            match self.work(dispatched) {
                Ok(one) => work.push(one),
                // One that cannot be described must not keep the others from their worker; its lease runs out.
                Err(error) => tracing::error!(job, %error, "this delivery cannot be handed out"),
            }
        }
        Ok(work)
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        match self.dispatch.jobs.extend(job, token, lease).await.map_err(told)? {
            Ok(until) => {
                if let Some(held) = self.held().get_mut(&job) {
                    held.1 = until;
                }
                Ok(Some(until))
            }
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
        let mut report = Report { job, token, ..Report::default() };
        match answer {
            Answer::Succeeded(result) => report.body = (result != "null").then(|| result.clone()),
            Answer::Failed(error) => {
                report.error_code = Some(error.code.clone().unwrap_or_else(|| WORKER_FAILED.to_owned()));
                report.error = Some(error.message.clone());
                report.retry_after = error.retry_after;
            }
        }
        let verdict = if report.error_code.is_some() { Verdict::Ill } else { Verdict::Well };
        let answered = self.dispatch.jobs.report(report).await.map_err(told)?;
        if answered == Answered::Now
            && let Some((place, _)) = self.held().remove(&job)
        {
            place.leave(verdict, None);
        }
        match answered {
            Answered::Now => Ok(Some(backstitch::Answered::Now)),
            Answered::Before(_) => Ok(Some(backstitch::Answered::Before)),
            Answered::Unknown => Ok(None),
            Answered::Stale(_) => Err(EngineError::StaleLease(job)),
        }
    }
}

fn told(why: Error) -> EngineError {
    match why {
        Error::Store(why) => EngineError::Store(why.into()),
        Error::Batch(why) => EngineError::Store(why),
        other => EngineError::Store(store::Error::Unavailable(other.to_string()).into()),
    }
}
