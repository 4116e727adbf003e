//! Worker queues: attempts for outside workers, who lease them, renew the leases and report results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::lease::{self, Refused};
use backstitch_kernel::saga::{Phase, State, Status};
use backstitch_kernel::{Payload, SagaId, StepError, StepId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{
    Job, JobOutcome, JobResult, LeaseBatch, Settlement, WITHDRAWN, WORKER_QUEUES, Withdrawal,
    name_for_workers,
};
use crate::declared::Attempt;
use crate::engine::Engine;
use crate::error::Error;
use crate::inbox::{Answer, Message};
use crate::inspect::{self, Found};
use crate::runtime::attempts::bounded;
use crate::runtime::{ArrivingAnswers, Shared, StoreBackoff};
use crate::store::diagnostics::Queue;

/// The queue of jobs that workers of `queue` lease; hooks have queues of their own.
pub(crate) fn queue(queue: &str) -> String {
    format!("{WORKER_QUEUES}{queue}")
}

/// The error of a job that its saga does not wait for any more.
const UNWANTED: &str = "nobody waits for it any more";
/// The longest wait of one request for work.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// The attempt of a step that a job is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OfferedAttempt {
    pub(crate) step: StepId,
    pub(crate) phase: Phase,
    pub(crate) attempt: u32,
}

impl OfferedAttempt {
    /// The subject of its job.
    pub(crate) fn subject(&self) -> String {
        format!("{}:{}@{}", self.step, self.phase.as_str(), self.attempt)
    }

    /// The attempt that a job of this subject is about.
    pub(crate) fn of_subject(subject: &str) -> Option<Self> {
        let (step, attempt) = subject.split_once(':')?;
        let (phase, attempt) = attempt.split_once('@')?;
        let phase = [Phase::Do, Phase::Undo].into_iter().find(|known| known.as_str() == phase)?;
        Some(Self { step: StepId::from(step), phase, attempt: attempt.parse().ok()? })
    }

    /// The payload of its job.
    pub(crate) fn payload(&self) -> Payload {
        let Self { step, phase, attempt } = self;
        json!({"step": step, "phase": phase, "attempt": attempt}).into()
    }

    /// The message to the saga when its job is withdrawn.
    fn withdrawn_message(&self, leased_before: bool) -> Message {
        let error = if leased_before {
            StepError::in_doubt("withdrawn: the worker that had it has not been heard of")
        } else {
            StepError::refused("withdrawn before a worker took it")
        };
        let Self { step, phase, attempt } = self.clone();
        Message::Answered { step, phase, attempt, answer: Answer::Failed(error) }
    }
}

/// An attempt that a worker has just leased.
#[derive(Clone, Debug)]
pub struct Work {
    /// Its number.
    pub job: i64,
    /// Every report names it; a later lease of the same job has a higher one.
    pub token: i64,
    /// The queue it came from.
    pub queue: String,
    /// What it is an attempt of.
    pub subject: Subject,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The same on every attempt, so that a service recognizes a repeated call.
    pub idempotency_key: String,
    /// The input of the attempt; see [`Attempt::body`].
    pub body: Payload,
    /// Without a renewal or a result by then, another worker may lease it.
    pub lease_until: Timestamp,
}

/// What an attempt is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A step of a saga.
    Step {
        /// The saga.
        saga: SagaId,
        /// The step.
        step: StepId,
        /// Whether its action or its compensation is wanted.
        phase: Phase,
    },
    /// A message of a product that is to reach its destination.
    Delivery {
        /// Its number.
        id: i64,
    },
    /// The action of a lifecycle's state.
    State {
        /// The lifecycle.
        lifecycle: SagaId,
        /// The machine that describes it.
        machine: String,
        /// Which one of this machine it is.
        key: String,
        /// The state.
        state: String,
    },
}

/// Wakes the outside workers that wait for work.
#[derive(Clone)]
pub struct WorkerWaker(Arc<Notify>);

impl WorkerWaker {
    /// Jobs may be due.
    pub fn wake(&self) {
        self.0.notify_waiters();
    }
}

/// A product's work for outside workers, beside the steps of sagas.
#[async_trait]
pub trait WorkerQueue: Send + Sync + 'static {
    /// Whether workers that ask for this queue may get some of it.
    fn serves(&self, queue: &str) -> bool;

    /// Prepares for [`Self::lease`], which may take its time: it is done before anything else is leased.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn prepare(&self) -> Result<(), Error>;

    /// Leases up to `limit` attempts of these queues, all of which it serves.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn lease(&self, queues: &[&str], limit: usize, lease: Duration) -> Result<Vec<Work>, Error>;

    /// Renews a lease to `lease` from now; `None` for a job that is not this product's.
    ///
    /// # Errors
    /// When another worker has the lease, or the job has ended.
    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, Error>;

    /// Records a worker's result; `None` for a job that is not this product's.
    ///
    /// # Errors
    /// When another worker has the lease.
    async fn answer(&self, job: i64, token: i64, answer: &Answer) -> Result<Option<Answered>, Error>;
}

/// The worker queues of products.
#[derive(Default)]
pub(crate) struct WorkerQueues(RwLock<Vec<Arc<dyn WorkerQueue>>>);

impl WorkerQueues {
    fn add(&self, queue: Arc<dyn WorkerQueue>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    fn all(&self) -> Vec<Arc<dyn WorkerQueue>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that serve any of these queues.
    fn serving(&self, queues: &[String]) -> Vec<Arc<dyn WorkerQueue>> {
        let mut serving = self.all();
        serving.retain(|product| queues.iter().any(|queue| product.serves(queue)));
        serving
    }
}

/// A lease that a worker has extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedLease {
    /// When the lease ends.
    pub until: Timestamp,
    /// Whether the saga is being rolled back: the worker may stop early and report what it knows. The rollback waits for
    /// that report.
    pub cancelled: bool,
}

/// Whether a result was the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was, and is recorded.
    Now,
    /// The job already had a result under the same lease; nothing changed.
    Before,
}

impl Engine {
    /// Lets outside workers lease a product's work too.
    pub fn add_worker_queue(&self, queue: Arc<dyn WorkerQueue>) {
        self.shared().worker_queues.add(queue);
    }

    /// Wakes the workers that wait for work, for a product that enqueues jobs. It keeps no engine running.
    #[must_use]
    pub fn worker_waker(&self) -> WorkerWaker {
        WorkerWaker(self.shared().work.clone())
    }

    /// Answers of outside workers that have arrived and are not written yet, for a product whose work may time out.
    #[must_use]
    pub fn arriving_answers(&self) -> ArrivingAnswers {
        self.shared().arriving.clone()
    }

    /// Leases up to `limit` attempts that wait in these queues. When there are none it waits for `wait` at most.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn lease_work(
        &self,
        queues: &[String],
        limit: usize,
        lease: Duration,
        wait: Duration,
    ) -> Result<Vec<Work>, Error> {
        let shared = self.shared();
        // Each once: a store that looked twice would lease the same job twice.
        let products = shared.worker_queues.serving(queues);
        let asked: BTreeSet<&str> = queues.iter().map(String::as_str).collect();
        let queues: BTreeSet<String> = queues.iter().map(|name| queue(name)).collect();
        let queues: Vec<String> = queues.into_iter().collect();
        let over = Instant::now() + wait.min(LONGEST_WAIT);
        loop {
            let offered = shared.work.notified();
            tokio::pin!(offered);
            // From here on nothing that is offered is missed.
            offered.as_mut().enable();
            if shared.is_stopping() {
                return Err(Error::ShuttingDown);
            }
            for product in &products {
                product.prepare().await?;
            }
            shared.arriving.before_leases_expire().await;
            let LeaseBatch { leased, notified } = shared.store.lease_jobs(&queues, lease, limit).await?;
            for saga in notified {
                shared.inbox_changed(saga);
            }
            for job in leased.iter().filter(|job| job.queue.starts_with(WORKER_QUEUES)) {
                shared.inbox_changed(job.saga);
            }
            let found_some = !leased.is_empty();
            let mut taken = Vec::with_capacity(leased.len());
            for job in leased {
                let (id, saga) = (job.id, job.saga);
                match begin_work(shared, job).await {
                    Ok(work) => taken.extend(work),
                    // One that cannot be read must not keep the others from their worker; its lease expires.
                    Err(error) => tracing::error!(job = id, %saga, %error, "job of a worker cannot be read"),
                }
            }
            for product in &products {
                if taken.len() >= limit {
                    break;
                }
                let served: Vec<&str> = asked.iter().copied().filter(|queue| product.serves(queue)).collect();
                match product.lease(&served, limit - taken.len(), lease).await {
                    Ok(work) => taken.extend(work),
                    Err(error) if taken.is_empty() => return Err(error),
                    // What is leased already goes to its worker all the same.
                    Err(error) => {
                        tracing::warn!(queues = ?served, %error, "jobs of these queues cannot be leased for now");
                    }
                }
            }
            if !taken.is_empty() || Instant::now() >= over {
                return Ok(taken);
            }
            if found_some {
                continue;
            }
            // Other processes enqueue jobs too, and leases expire: both are found by polling.
            let look_again = over.min(Instant::now() + shared.options.tick);
            let _ = tokio::time::timeout_at(look_again, offered).await;
        }
    }

    /// The queues whose jobs wait for a worker, up to so many, each with the job that has waited longest.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn waiting_for_workers(&self, limit: usize) -> Result<Vec<Queue>, Error> {
        let pending = self.shared().store.survey(limit).await?.pending;
        let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
        for waiting in pending {
            let Some(queue) = name_for_workers(&waiting.queue).map(str::to_owned) else { continue };
            let waiting = Queue { queue: queue.clone(), ..waiting };
            // Sagas and products may share a name, and so their workers.
            let longest = queues.entry(queue).or_insert_with(|| waiting.clone());
            if waiting.late > longest.late {
                *longest = waiting;
            }
        }
        Ok(queues.into_values().take(limit).collect())
    }

    /// Extends a lease to `lease` from now, and tells the worker whether its work is cancelled.
    ///
    /// # Errors
    /// When another worker has the lease, the job has ended, or the attempt is no longer wanted.
    pub async fn extend_lease(&self, job: i64, token: i64, lease: Duration) -> Result<ExtendedLease, Error> {
        let shared = self.shared();
        let cancelled = match still_wanted(shared, job).await {
            Err(Error::NoSuchJob(_)) => {
                for product in shared.worker_queues.all() {
                    if let Some(until) = product.extend(job, token, lease).await? {
                        return Ok(ExtendedLease { until, cancelled: false });
                    }
                }
                return Err(Error::NoSuchJob(job));
            }
            found => found?.cancelled,
        };
        let renewal = Settlement::new(job, token, JobOutcome::Renewed { lease });
        let settled = shared.store.settle_jobs(&[renewal]).await?;
        match settled.into_iter().next() {
            Some(Ok(until)) => Ok(ExtendedLease { until, cancelled }),
            Some(Err(Refused::Finished)) => {
                still_wanted(shared, job).await?;
                Err(Error::JobOver(job))
            }
            Some(Err(Refused::Stale | Refused::Unavailable)) | None => Err(Error::StaleLease(job)),
        }
    }

    /// Records a worker's result.
    ///
    /// # Errors
    /// When the result is too large, another worker has the lease, or the attempt is no longer wanted.
    pub async fn complete_work(&self, job: i64, token: i64, result: Payload) -> Result<Answered, Error> {
        let (size, limit) = (result.len(), self.shared().options.max_payload);
        if size > limit {
            return Err(Error::TooLong { what: "the result", size, limit });
        }
        answer(self.shared(), job, token, Answer::Succeeded(result.as_str().to_owned())).await
    }

    /// Records a worker's failure; what becomes of the step is up to its retries.
    ///
    /// # Errors
    /// When another worker has the lease, or the attempt is no longer wanted.
    pub async fn fail_work(&self, job: i64, token: i64, error: StepError) -> Result<Answered, Error> {
        answer(self.shared(), job, token, Answer::Failed(bounded(error))).await
    }
}

/// Withdraws an attempt that no worker has leased; `false` when one has, or it has ended. Retries until the store answers.
pub(crate) async fn withdraw(shared: Arc<Shared>, saga: SagaId, offered: OfferedAttempt) -> bool {
    let withdrawal = Withdrawal {
        saga,
        subject: offered.subject(),
        never_leased: offered.withdrawn_message(false),
        leased_before: offered.withdrawn_message(true),
    };
    let mut backoff = StoreBackoff::default();
    loop {
        match shared.store.withdraw_job(&withdrawal, shared.options.clock.now()).await {
            Ok(withdrawn) => return withdrawn,
            Err(error) => {
                if backoff.is_news("withdrawal", &error) {
                    tracing::warn!(%saga, %error, "job of an unwanted attempt cannot be withdrawn yet");
                }
            }
        }
        backoff.wait(&shared).await;
    }
}

/// The attempt of a job that has just been leased; none, and the job ends, when its saga does not wait for it any more.
async fn begin_work(shared: &Arc<Shared>, job: Job) -> Result<Option<Work>, Error> {
    let Some(waiting) = waiting(shared, &job).await? else {
        let error = UNWANTED.to_owned();
        let outcome = JobOutcome::Failed { error, retry_after: None };
        shared.store.settle_jobs(&[Settlement::new(job.id, job.lease.token, outcome)]).await?;
        return Ok(None);
    };
    if waiting.is_rolled_back() {
        // Nothing new starts during a rollback, also when an earlier worker's lease has expired.
        let token = job.lease.token;
        let result = JobResult::Message {
            message: waiting.offered.withdrawn_message(token > 1),
            at: shared.options.clock.now(),
        };
        let outcome = JobOutcome::Failed { error: WITHDRAWN.to_owned(), retry_after: None };
        let settlement = Settlement { id: job.id, token, outcome, result };
        if shared.store.settle_jobs(&[settlement]).await?.iter().any(Result::is_ok) {
            shared.inbox_changed(job.saga);
        }
        return Ok(None);
    }
    let attempt = waiting.attempt(job.saga);
    let unreadable = |why: serde_json::Error| Error::BadInput(why.to_string());
    Ok(Some(Work {
        job: job.id,
        token: job.lease.token,
        queue: job.queue.strip_prefix(WORKER_QUEUES).unwrap_or(&job.queue).to_owned(),
        subject: Subject::Step { saga: job.saga, step: attempt.step().clone(), phase: attempt.phase() },
        attempt: attempt.number(),
        idempotency_key: attempt.idempotency_key(),
        body: Payload::parse(attempt.body().map_err(unreadable)?).map_err(unreadable)?,
        lease_until: job.lease.until,
    }))
}

/// A saga that waits for an attempt.
struct Waiting {
    definition: Found,
    state: State,
    position: usize,
    offered: OfferedAttempt,
}

impl Waiting {
    /// Whether it is an action of a saga that is being undone.
    fn is_rolled_back(&self) -> bool {
        self.state.status == Status::Compensating && self.offered.phase == Phase::Do
    }

    fn attempt(&self, saga: SagaId) -> Attempt<'_> {
        Attempt {
            saga,
            definition: self.definition.as_ref(),
            position: self.position,
            phase: self.offered.phase,
            number: self.offered.attempt,
            state: &self.state,
        }
    }
}

/// The attempt that a job is about, if its saga still waits for it.
async fn waiting(shared: &Arc<Shared>, job: &Job) -> Result<Option<Waiting>, Error> {
    let Ok(offered) = job.payload.decode::<OfferedAttempt>() else { return Ok(None) };
    let Some((definition, state)) = inspect::state(shared, job.saga).await? else { return Ok(None) };
    let Some(position) = definition.as_ref().position(&offered.step) else { return Ok(None) };
    let current = state.steps[position].phase(offered.phase);
    let waits = !state.status.is_terminal() && current.in_flight() && current.attempts == offered.attempt;
    Ok(waits.then_some(Waiting { definition, state, position, offered }))
}

/// A job whose attempt is still wanted.
struct WantedJob {
    job: Job,
    offered: OfferedAttempt,
    /// Whether its saga is being rolled back, so that the result will be undone.
    cancelled: bool,
}

/// The job, unless its attempt is no longer wanted, or the job ended without a result. A recorded result stays recorded.
async fn still_wanted(shared: &Arc<Shared>, job: i64) -> Result<WantedJob, Error> {
    let found = shared.store.job(job).await?.filter(|found| found.queue.starts_with(WORKER_QUEUES));
    let found = found.ok_or(Error::NoSuchJob(job))?;
    let offered: OfferedAttempt = found.payload.decode().map_err(|_| Error::NoSuchJob(job))?;
    let (given_up, cancelled) = match found.lease.status {
        lease::Status::Leased => match waiting(shared, &found).await? {
            Some(waiting) => (false, waiting.is_rolled_back()),
            None => (true, false),
        },
        lease::Status::Failed => (found.lease.attempts == 0, false),
        lease::Status::Pending | lease::Status::Completed => (false, false),
    };
    if given_up {
        return Err(Error::GivenUp { job, saga: found.saga, step: offered.step });
    }
    Ok(WantedJob { job: found, offered, cancelled })
}

/// Refuses a result that had no effect: the attempt timed out before the result was durable. Checked after the result is
/// durable, since no attempt times out while a message waits for its saga.
async fn came_in_time(shared: &Arc<Shared>, job: &Job, offered: &OfferedAttempt) -> Result<(), Error> {
    let OfferedAttempt { step, phase, attempt } = offered;
    let stored = shared.store.load(&[job.saga]).await?;
    let mut log = stored.iter().flat_map(|stored| &stored.log);
    if log.any(|recorded| recorded.event.gave_up_waiting_for(step, *phase, *attempt)) {
        return Err(Error::GivenUp { job: job.id, saga: job.saga, step: step.clone() });
    }
    Ok(())
}

async fn answer(shared: &Arc<Shared>, job: i64, token: i64, answer: Answer) -> Result<Answered, Error> {
    let _arriving = shared.arriving.arrive();
    let WantedJob { job: found, offered, .. } = match still_wanted(shared, job).await {
        Err(Error::NoSuchJob(_)) => {
            for product in shared.worker_queues.all() {
                if let Some(answered) = product.answer(job, token, &answer).await? {
                    return Ok(answered);
                }
            }
            return Err(Error::NoSuchJob(job));
        }
        found => found?,
    };
    let OfferedAttempt { step, phase, attempt } = offered.clone();
    let error = match &answer {
        Answer::Succeeded(_) => None,
        Answer::Failed(error) => Some(error.to_string()),
    };
    let message = Message::Answered { step, phase, attempt, answer };
    let outcome = match error {
        None => JobOutcome::Completed,
        Some(error) => JobOutcome::Failed { error, retry_after: None },
    };
    let result = JobResult::Message { message, at: shared.options.clock.now() };
    let settled = shared.store.settle_jobs(&[Settlement { id: job, token, outcome, result }]).await?;
    match settled.into_iter().next().unwrap_or(Err(Refused::Unavailable)) {
        Ok(_) => {
            shared.inbox_changed(found.saga);
            came_in_time(shared, &found, &offered).await?;
            Ok(Answered::Now)
        }
        Err(Refused::Finished) => {
            still_wanted(shared, job).await?;
            came_in_time(shared, &found, &offered).await?;
            Ok(Answered::Before)
        }
        Err(Refused::Stale | Refused::Unavailable) => Err(Error::StaleLease(job)),
    }
}
