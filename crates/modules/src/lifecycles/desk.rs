//! Actions for outside workers, who lease them from the queues that machines name.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox;
use backstitch::kernel::lease::{Refused, Status};
use backstitch::kernel::lifecycle::Input;
use backstitch::store::jobs::{Job, Report as JobReport, Settlement};
use backstitch::{Answered, Desk, Error as EngineError, Payload, Subject, Timestamp, Work};

use super::base::Base;
use super::batch::{Ask, NotMoved, Offered, QUEUES, Report, queue};
use super::errand::Errand;
use super::looking;
use super::writer::Writer;
use crate::batcher::NotWritten;
use crate::question::{Statement, statement};

const HAS_WORK: Statement = statement!("lifecycles/has_work");

/// Hands actions to outside workers.
pub(super) struct Counter {
    base: Arc<Base>,
    writer: Arc<Writer>,
}

impl Counter {
    pub(super) fn new(base: Arc<Base>, writer: Arc<Writer>) -> Self {
        Self { base, writer }
    }

    /// The job and what it is about; nothing where it is not one of lifecycles.
    async fn job(&self, job: i64) -> Result<Option<(Job, Offered)>, EngineError> {
        let found = self.base.store().job(job).await?.filter(|found| found.queue.starts_with(QUEUES));
        Ok(found.and_then(|found| Some((found.clone(), found.payload.decode::<Offered>().ok()?))))
    }

    /// What a worker gets; none, and the job is over, where nobody waits for it any more.
    async fn work(&self, job: Job) -> Result<Option<Work>, EngineError> {
        let offered = job.payload.decode::<Offered>().ok();
        let standing = match &offered {
            Some(Offered { machine, key, .. }) => looking::find(&self.base, machine, key).await?,
            None => None,
        };
        let waits = standing.zip(offered).filter(|(standing, offered)| {
            standing.instance.entry == offered.entry && standing.instance.failures + 1 == offered.attempt
        });
        let Some((standing, offered)) = waits else {
            let report =
                JobReport::Failed { error: "nobody waits for it any more".to_owned(), retry_at: None };
            let settlement = Settlement { id: job.id, token: job.lease.token, report };
            self.base.store().settle_jobs(&[settlement]).await?;
            return Ok(None);
        };
        let results = looking::results(&self.base, standing.id).await?;
        let errand = Errand::of(&standing, results, Duration::ZERO)
            .map_err(|why| EngineError::BadInput(why.to_string()))?;
        Ok(Some(Work {
            job: job.id,
            token: job.lease.token,
            queue: job.queue.strip_prefix(QUEUES).unwrap_or(&job.queue).to_owned(),
            subject: Subject::State {
                lifecycle: standing.id,
                machine: offered.machine.to_string(),
                key: offered.key.to_string(),
                state: errand.state,
            },
            attempt: offered.attempt,
            idempotency_key: errand.idempotency_key,
            body: errand.body,
            lease_until: job.lease.until,
        }))
    }
}

#[async_trait]
impl Desk for Counter {
    /// Any queue may be one that a machine names, but for those that no machine can.
    fn serves(&self, queue: &str) -> bool {
        !queue.contains('\0')
    }

    async fn get_ready(&self) -> Result<(), EngineError> {
        Ok(())
    }

    async fn lease(&self, queues: &[&str], limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        let queues: Vec<String> = queues.iter().map(|name| queue(name)).collect();
        // To lease is to write, and most workers are after something else.
        let named = serde_json::to_string(&queues).map_err(|why| EngineError::BadInput(why.to_string()))?;
        if self.base.read(HAS_WORK, vec![named.into()]).await?.is_empty() {
            return Ok(Vec::new());
        }
        let leasing = self.base.store().lease_jobs(&queues, lease, limit).await?;
        let mut taken = Vec::with_capacity(leasing.leased.len());
        for leased in leasing.leased {
            let id = leased.job.id;
            match self.work(leased.job).await {
                Ok(work) => taken.extend(work),
                // One that cannot be read must not keep the others from their worker; its lease runs out.
                Err(error) => tracing::error!(job = id, %error, "this job cannot be handed out"),
            }
        }
        Ok(taken)
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        if self.job(job).await?.is_none() {
            return Ok(None);
        }
        let report = JobReport::StillWorking { lease };
        let settled = self.base.store().settle_jobs(&[Settlement { id: job, token, report }]).await?;
        match settled.into_iter().next() {
            Some(Ok(())) => {
                let (found, _) = self.job(job).await?.ok_or(EngineError::NoSuchJob(job))?;
                Ok(Some(found.lease.until))
            }
            Some(Err(Refused::Finished)) => Err(EngineError::JobOver(job)),
            Some(Err(Refused::Stale | Refused::Unavailable)) | None => Err(EngineError::StaleLease(job)),
        }
    }

    async fn answer(
        &self,
        job: i64,
        token: i64,
        answer: &inbox::Answer,
    ) -> Result<Option<Answered>, EngineError> {
        let Some((found, offered)) = self.job(job).await? else { return Ok(None) };
        let outcome = match answer {
            inbox::Answer::Succeeded(result) => Ok(Payload::parse(result.as_str())
                .map_err(|why| EngineError::BadInput(format!("the result is not JSON: {why}")))?),
            inbox::Answer::Failed(error) => Err(error.clone()),
        };
        let Offered { machine, key, entry, attempt } = offered;
        let ask = Ask {
            machine,
            key,
            input: Input::Answered { entry, attempt, token: None, outcome },
            id: found.saga,
            job: Some(Report { job, token }),
            seat: None,
        };
        match self.writer.write(ask).await {
            Ok(Ok(_)) => Ok(Some(Answered::Now)),
            Ok(Err(NotMoved::Job(Some(Refused::Finished)))) => match self.job(job).await? {
                // Taken back without an answer: nobody waits for one.
                Some((found, _)) if found.lease.status == Status::Failed && found.lease.attempts == 0 => {
                    Err(EngineError::JobOver(job))
                }
                _ => Ok(Some(Answered::Before)),
            },
            Ok(Err(NotMoved::Job(_))) => Err(EngineError::StaleLease(job)),
            Ok(Err(_)) => Err(EngineError::JobOver(job)),
            Err(NotWritten::Closed) => Err(EngineError::ShuttingDown),
            Err(NotWritten::Store(why)) => Err(EngineError::Store(why)),
        }
    }
}
