//! Deliveries for outside workers, who lease them as `webhooks` and call the endpoints themselves.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox::Answer;
use backstitch::{Desk, Error as EngineError, Payload, Subject, Timestamp, Work, store};
use serde_json::value::RawValue;

use super::error::Error;
use super::jobs::{Answered, Jobs, Lane, Leased, Report};

/// The queue that workers name.
pub const QUEUE: &str = "webhooks";
/// Lanes looked at for one request of a worker.
const LANES: usize = 100;
/// The code of a failure that its worker gives none for.
const WORKER_FAILED: &str = "worker_failed";

/// What an outside worker gets to know of a delivery, beside what it is known by.
#[async_trait]
pub trait Describe: Send + Sync + 'static {
    /// The headers to send with this payload, the signatures among them.
    async fn headers(&self, lane: &Lane, leased: &Leased) -> Result<Vec<(String, String)>, Error>;
}

/// Hands deliveries to outside workers.
pub struct Counter {
    jobs: Arc<Jobs>,
    describe: Arc<dyn Describe>,
}

impl Counter {
    /// Deliveries of these jobs, described so; for [`Engine::open_desk`](backstitch::Engine::open_desk).
    #[must_use]
    pub fn of(jobs: Arc<Jobs>, describe: Arc<dyn Describe>) -> Self {
        Self { jobs, describe }
    }

    async fn work(&self, lane: &Lane, leased: Leased) -> Result<Work, EngineError> {
        let headers = self.describe.headers(lane, &leased).await.map_err(told)?;
        let unreadable = |why: serde_json::Error| EngineError::BadInput(why.to_string());
        let payload: &RawValue = serde_json::from_str(&leased.payload).map_err(unreadable)?;
        let body = Body {
            delivery_id: leased.delivery,
            event_id: leased.event,
            subscription_id: leased.lane,
            attempt: leased.attempt,
            url: &lane.url,
            headers: &headers,
            webhook_id: &leased.webhook_id,
            kind: &leased.kind,
            payload,
        };
        Ok(Work {
            job: leased.job,
            token: leased.token,
            queue: QUEUE.to_owned(),
            subject: Subject::Delivery { id: leased.delivery },
            attempt: leased.attempt,
            idempotency_key: leased.webhook_id.clone(),
            body: Payload::encode(&body).map_err(unreadable)?,
            lease_until: leased.until,
        })
    }
}

#[derive(serde::Serialize)]
struct Body<'a> {
    delivery_id: i64,
    event_id: i64,
    subscription_id: i64,
    attempt: u32,
    url: &'a str,
    headers: &'a [(String, String)],
    webhook_id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: &'a RawValue,
}

#[async_trait]
impl Desk for Counter {
    fn queue(&self) -> &str {
        QUEUE
    }

    async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        self.jobs.expire().await.map_err(told)?;
        let (mut work, mut after) = (Vec::new(), 0);
        loop {
            let lanes = self.jobs.lanes(after, LANES).await.map_err(told)?;
            for lane in &lanes.deleted {
                self.jobs.close_lane(*lane).await.map_err(told)?;
            }
            for lane in &lanes.open {
                let wanted =
                    (limit - work.len()).min(usize::try_from(lane.max_concurrency).unwrap_or(usize::MAX));
                for leased in self.jobs.lease(&[(lane.id, wanted)], lease).await.map_err(told)? {
                    let job = leased.job;
                    match self.work(lane, leased).await {
                        Ok(one) => work.push(one),
                        // One that cannot be described must not keep the others from their worker; its lease runs out.
                        Err(error) => tracing::error!(job, %error, "this delivery cannot be handed out"),
                    }
                }
                if work.len() >= limit {
                    return Ok(work);
                }
            }
            match lanes.next {
                Some(next) => after = next,
                None => return Ok(work),
            }
        }
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        match self.jobs.extend(job, token, lease).await.map_err(told)? {
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
        let mut report = Report { job, token, ..Report::default() };
        match answer {
            Answer::Succeeded(result) => report.body = (result != "null").then(|| result.clone()),
            Answer::Failed(error) => {
                report.error_code = Some(error.code.clone().unwrap_or_else(|| WORKER_FAILED.to_owned()));
                report.error = Some(error.message.clone());
                report.retry_after = error.retry_after;
            }
        }
        match self.jobs.report(report).await.map_err(told)? {
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
