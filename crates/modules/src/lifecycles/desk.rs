//! Actions for outside workers, who lease them from the queues that machines name.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox;
use backstitch::kernel::lease::{MAX_EXPIRIES, Refused, Status};
use backstitch::kernel::lifecycle::{Input, Refused as NotDecided};
use backstitch::store::isolation::Isolable as _;
use backstitch::store::jobs::{Job, Report as JobReport, Settlement, nobody_brings_it_back};
use backstitch::store::parked::park;
use backstitch::{Answered, Desk, Error as EngineError, Payload, Subject, Timestamp, Work};
use futures::future::join_all;

use super::base::Base;
use super::batch::{Ask, NotMoved, Offered, QUEUES, Report, queue};
use super::errand::Errand;
use super::looking;
use super::parked::JOBS;
use super::standing::Standing;
use super::writer::Writer;
use crate::question::{Statement, Value, statement};

const HAS_WORK: Statement = statement!("lifecycles/has_work");
const LOST_JOBS: Statement = statement!("lifecycles/lost_jobs");

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

    /// Ends a job that nobody waits for any more.
    async fn drop_unwanted(&self, job: &Job) -> Result<(), EngineError> {
        let report =
            JobReport::Failed { error: "nobody waits for it any more".to_owned(), retry_after: None };
        let settlement = Settlement { id: job.id, token: job.lease.token, report };
        self.base.store().settle_jobs(&[settlement]).await?;
        Ok(())
    }

    /// Gives up the attempts in these queues whose leases were all lost.
    async fn give_up_lost(&self, queues: &str) -> Result<(), EngineError> {
        let mut values: Vec<Value> = vec![queues.into(), MAX_EXPIRIES.into()];
        if !self.base.is_shared() {
            values.push(self.base.now().into());
        }
        let lost = self.base.read(LOST_JOBS, values).await?;
        let numbers = lost.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
        let given_up = join_all(numbers.iter().map(|job| self.give_up(*job))).await;
        for (job, given_up) in numbers.into_iter().zip(given_up) {
            match given_up {
                // It keeps no worker from other jobs.
                Err(EngineError::Store(error)) if error.is_about_an_item() => {
                    park(&**self.base.store(), JOBS, &[(job, error)]).await?;
                }
                given_up => given_up?,
            }
        }
        Ok(())
    }

    /// The end of the job and what follows from it are one transaction.
    async fn give_up(&self, job: i64) -> Result<(), EngineError> {
        let Some(found) = self.base.store().job(job).await? else { return Ok(()) };
        let Ok(Offered { machine, key, entry, attempt }) = found.payload.decode() else {
            return self.drop_unwanted(&found).await;
        };
        let ask = Ask {
            machine,
            key,
            input: Input::Answered { entry, attempt, token: None, outcome: Err(nobody_brings_it_back()) },
            after: None,
            id: found.saga,
            job: Some(Report { job, token: found.lease.token, is_lost: true }),
            seat: None,
        };
        match self.writer.write(ask).await {
            // Its worker was heard of after all, or somebody else has done this.
            Ok(Ok(_) | Err(NotMoved::Job(_))) => Ok(()),
            Ok(Err(_)) => self.drop_unwanted(&found).await,
            Err(why) => Err(why.into()),
        }
    }

    /// Begins the time of a worker that has leased a job; `None` where no instance waits for the job. The time continues
    /// where an earlier worker had leased it.
    async fn begin_time(&self, job: &Job, offered: &Offered) -> Result<Option<Standing>, EngineError> {
        let Offered { machine, key, entry, attempt } = offered.clone();
        let input = Input::Leased { entry, attempt };
        let ask = Ask { machine, key, input, after: None, id: job.saga, job: None, seat: None };
        match self.writer.write(ask).await {
            Ok(Ok(moved)) => Ok(Some(moved.standing)),
            Ok(Err(NotMoved::Refused { why: NotDecided::LeasedBefore { .. }, standing })) => {
                Ok(standing.map(|standing| *standing))
            }
            Ok(Err(_)) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// What a worker gets; none, and the job is over, where nobody waits for it any more.
    async fn work(&self, job: Job) -> Result<Option<Work>, EngineError> {
        let offered = job.payload.decode::<Offered>().ok();
        let standing = match &offered {
            Some(offered) => self.begin_time(&job, offered).await?,
            None => None,
        };
        let Some((standing, offered)) = standing.zip(offered) else {
            self.drop_unwanted(&job).await?;
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
        if self.base.read(HAS_WORK, vec![named.as_str().into()]).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.give_up_lost(&named).await?;
        let leasing = self.base.store().lease_jobs(&queues, lease, limit).await?;
        let mut taken = Vec::with_capacity(leasing.leased.len());
        let works = leasing.leased.into_iter().map(|leased| async move {
            let id = leased.job.id;
            (id, self.work(leased.job).await)
        });
        for (id, work) in join_all(works).await {
            match work {
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
            after: None,
            id: found.saga,
            job: Some(Report { job, token, is_lost: false }),
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
            Err(why) => Err(why.into()),
        }
    }
}
