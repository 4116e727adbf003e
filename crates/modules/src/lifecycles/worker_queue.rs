//! The worker queue of actions: outside workers lease them from the queues that machines name.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::inbox;
use backstitch::jobs::{Job, JobOutcome, Settlement, lease_expired_error};
use backstitch::kernel::lease::{Refused, Status};
use backstitch::kernel::lifecycle::{Input, Refused as NotDecided};
use backstitch::store::isolation::Isolable as _;
use backstitch::store::parked::park;
use backstitch::{Answered, Error as EngineError, Payload, Subject, Timestamp, Work, WorkerQueue};
use futures::future::join_all;

use super::base::Base;
use super::batch::{Ask, NotMoved, Offered, QUEUES, Report, UNWANTED, queue};
use super::errand::Errand;
use super::looking;
use super::parked::JOBS;
use super::standing::Standing;
use super::writer::Writer;

/// Jobs that have lost their last lease and are failed together.
const LOST_AT_ONCE: usize = 256;

/// Leases actions to outside workers.
pub(super) struct ActionQueue {
    base: Arc<Base>,
    writer: Arc<Writer>,
}

impl ActionQueue {
    pub(super) fn new(base: Arc<Base>, writer: Arc<Writer>) -> Self {
        Self { base, writer }
    }

    /// The job and what it is about; nothing where it is not one of lifecycles.
    async fn job(&self, job: i64) -> Result<Option<(Job, Offered)>, EngineError> {
        let found = self.base.store().job(job).await?.filter(|found| found.queue.starts_with(QUEUES));
        Ok(found.and_then(|found| Some((found.clone(), found.payload.decode::<Offered>().ok()?))))
    }

    /// Ends a job whose attempt is no longer wanted.
    async fn drop_unwanted(&self, job: &Job) -> Result<(), EngineError> {
        let outcome = JobOutcome::Failed { error: UNWANTED.to_owned(), retry_after: None };
        let settlement = Settlement::new(job.id, job.lease.token, outcome);
        self.base.store().settle_jobs(&[settlement]).await?;
        Ok(())
    }

    /// Fails attempts that have lost their last lease.
    async fn fail_lost(&self, lost: Vec<i64>) -> Result<(), EngineError> {
        let failed = join_all(lost.iter().map(|job| self.fail(*job))).await;
        for (job, failed) in lost.into_iter().zip(failed) {
            match failed {
                // It keeps no worker from other jobs.
                Err(EngineError::Store(error)) if error.is_about_an_item() => {
                    park(&**self.base.store(), JOBS, &[(job, error)]).await?;
                }
                failed => failed?,
            }
        }
        Ok(())
    }

    /// The end of the job and what follows from it are one transaction.
    async fn fail(&self, job: i64) -> Result<(), EngineError> {
        let Some(found) = self.base.store().job(job).await? else { return Ok(()) };
        let Ok(Offered { machine, key, entry, attempt }) = found.payload.decode() else {
            return self.drop_unwanted(&found).await;
        };
        let ask = Ask {
            machine,
            key,
            input: Input::Answered { entry, attempt, token: None, outcome: Err(lease_expired_error()) },
            after: None,
            id: found.saga,
            job: Some(Report { job, token: found.lease.token, is_lost: true }),
            seat: None,
        };
        match self.writer.write(ask).await {
            // Its worker reported after all, or another node has failed it.
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

    /// What a worker gets; none, and the job ends, where its attempt is no longer wanted.
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
impl WorkerQueue for ActionQueue {
    /// Any queue may be one that a machine names, but for those that no machine can.
    fn serves(&self, queue: &str) -> bool {
        !queue.contains('\0')
    }

    async fn prepare(&self) -> Result<(), EngineError> {
        Ok(())
    }

    async fn lease(&self, queues: &[&str], limit: usize, lease: Duration) -> Result<Vec<Work>, EngineError> {
        let queues: Vec<String> = queues.iter().map(|name| queue(name)).collect();
        self.base.arriving.before_leases_expire().await;
        // To lease is to write, and most workers ask for other queues.
        let state = self.base.store().queue_state(&queues, JOBS, LOST_AT_ONCE).await?;
        if !state.has_jobs {
            return Ok(Vec::new());
        }
        self.fail_lost(state.lost).await?;
        let leased = self.base.store().lease_jobs(&queues, lease, limit).await?.leased;
        let mut taken = Vec::with_capacity(leased.len());
        let works = leased.into_iter().map(|job| async move { (job.id, self.work(job).await) });
        for (id, work) in join_all(works).await {
            match work {
                Ok(work) => taken.extend(work),
                // One that cannot be read must not keep the others from their worker; its lease expires.
                Err(error) => tracing::error!(job = id, %error, "job of a worker cannot be read"),
            }
        }
        Ok(taken)
    }

    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, EngineError> {
        if self.job(job).await?.is_none() {
            return Ok(None);
        }
        let renewal = Settlement::new(job, token, JobOutcome::Renewed { lease });
        match self.base.store().settle_jobs(&[renewal]).await?.into_iter().next() {
            Some(Ok(until)) => Ok(Some(until)),
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
                // Withdrawn without a result.
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
