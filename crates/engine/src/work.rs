//! Work that is left to outside workers: leased, kept alive, answered.

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

use crate::declared::Attempt;
use crate::engine::Engine;
use crate::error::Error;
use crate::inbox::{Answer, Message};
use crate::inspect::{self, Found};
use crate::runtime::attempts::bounded;
use crate::runtime::{ArrivingAnswers, Shared, StoreBackoff};
use crate::store::diagnostics::Queue;
use crate::store::jobs::{
    self, Job, Leased, Leasing, OUTSIDE, Report, Settlement, Withdrawal, name_for_workers,
};

/// The queue of jobs that workers of `queue` take; hooks have queues of their own.
pub(crate) fn queue(queue: &str) -> String {
    format!("{OUTSIDE}{queue}")
}

/// Nobody waits for work longer than this in one go.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Which attempt a job is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Offered {
    pub(crate) step: StepId,
    pub(crate) phase: Phase,
    pub(crate) attempt: u32,
}

impl Offered {
    /// What its job is about.
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

    /// What the saga is told when it is taken back.
    fn withdrawn(&self, leased_before: bool) -> Message {
        let error = if leased_before {
            StepError::in_doubt("withdrawn: the worker that had it has not been heard of")
        } else {
            StepError::refused("withdrawn before a worker took it")
        };
        let Self { step, phase, attempt } = self.clone();
        Message::Answered { step, phase, attempt, answer: Answer::Failed(error) }
    }
}

/// An attempt that a worker has just got.
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
    /// What the service would tell a repeated call by.
    pub idempotency_key: String,
    /// Everything a worker gets to know; see [`Attempt::body`].
    pub body: Payload,
    /// Without a word by then it goes to another worker.
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
pub struct Offers(Arc<Notify>);

impl Offers {
    /// There may be some.
    pub fn tell(&self) {
        self.0.notify_waiters();
    }
}

/// Work of a product that outside workers may take, beside that of sagas.
#[async_trait]
pub trait Desk: Send + Sync + 'static {
    /// Whether workers that ask for this queue may get some of it.
    fn serves(&self, queue: &str) -> bool;

    /// Prepares for [`Desk::lease`], which may take its time: it is done before anything else is leased.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn get_ready(&self) -> Result<(), Error>;

    /// Leases up to `limit` attempts of these queues, all of which it serves.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn lease(&self, queues: &[&str], limit: usize, lease: Duration) -> Result<Vec<Work>, Error>;

    /// Keeps a lease for `lease` from now on; `None` for a job that is not this product's.
    ///
    /// # Errors
    /// When the lease is another's by now, or the job is over.
    async fn extend(&self, job: i64, token: i64, lease: Duration) -> Result<Option<Timestamp>, Error>;

    /// Takes a worker's result; `None` for a job that is not this product's.
    ///
    /// # Errors
    /// When the lease is another's by now.
    async fn answer(&self, job: i64, token: i64, answer: &Answer) -> Result<Option<Answered>, Error>;
}

/// The products whose work outside workers may take.
#[derive(Default)]
pub(crate) struct Desks(RwLock<Vec<Arc<dyn Desk>>>);

impl Desks {
    fn open(&self, desk: Arc<dyn Desk>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(desk);
    }

    fn all(&self) -> Vec<Arc<dyn Desk>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that serve any of these queues.
    fn serving(&self, queues: &[String]) -> Vec<Arc<dyn Desk>> {
        let mut desks = self.all();
        desks.retain(|desk| queues.iter().any(|queue| desk.serves(queue)));
        desks
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

/// Whether an answer was the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It counts.
    Now,
    /// The job was answered before under the same lease; nothing changed.
    Before,
}

impl Engine {
    /// Lets outside workers take a product's work too.
    pub fn open_desk(&self, desk: Arc<dyn Desk>) {
        self.shared().desks.open(desk);
    }

    /// Wakes the workers that wait for work, for a product that makes some. It keeps no engine running.
    #[must_use]
    pub fn offers(&self) -> Offers {
        Offers(self.shared().work.clone())
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
        // Each once: a store that looked twice would hand the same work out twice.
        let desks = shared.desks.serving(queues);
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
            for desk in &desks {
                desk.get_ready().await?;
            }
            shared.arriving.before_leases_expire().await;
            let Leasing { leased, told } = shared.store.lease_jobs(&queues, lease, limit).await?;
            for saga in told {
                shared.inbox_changed(saga);
            }
            for Leased { job } in leased.iter().filter(|leased| leased.job.queue.starts_with(OUTSIDE)) {
                shared.inbox_changed(job.saga);
            }
            let found_some = !leased.is_empty();
            let mut taken = Vec::with_capacity(leased.len());
            for Leased { job } in leased {
                let (id, saga) = (job.id, job.saga);
                match taken_up(shared, job).await {
                    Ok(work) => taken.extend(work),
                    // One that cannot be read must not keep the others from their worker; its lease runs out.
                    Err(error) => tracing::error!(job = id, %saga, %error, "this job cannot be handed out"),
                }
            }
            for desk in &desks {
                if taken.len() >= limit {
                    break;
                }
                let served: Vec<&str> = asked.iter().copied().filter(|queue| desk.serves(queue)).collect();
                match desk.lease(&served, limit - taken.len(), lease).await {
                    Ok(work) => taken.extend(work),
                    Err(error) if taken.is_empty() => return Err(error),
                    // What is leased already goes to its worker all the same.
                    Err(error) => {
                        tracing::warn!(queues = ?served, %error, "these queues give nothing for now");
                    }
                }
            }
            if !taken.is_empty() || Instant::now() >= over {
                return Ok(taken);
            }
            if found_some {
                continue;
            }
            // Other processes offer work too, and leases run out: now and then it is looked for.
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
                for desk in shared.desks.all() {
                    if let Some(until) = desk.extend(job, token, lease).await? {
                        return Ok(ExtendedLease { until, cancelled: false });
                    }
                }
                return Err(Error::NoSuchJob(job));
            }
            found => found?.cancelled,
        };
        let report = Report::StillWorking { lease };
        let settled = shared.store.settle_jobs(&[Settlement { id: job, token, report }]).await?;
        match settled.into_iter().next() {
            Some(Ok(())) => {
                let job = shared.store.job(job).await?.ok_or(Error::NoSuchJob(job))?;
                Ok(ExtendedLease { until: job.lease.until, cancelled })
            }
            Some(Err(Refused::Finished)) => {
                still_wanted(shared, job).await?;
                Err(Error::JobOver(job))
            }
            Some(Err(Refused::Stale | Refused::Unavailable)) | None => Err(Error::StaleLease(job)),
        }
    }

    /// Takes a worker's result.
    ///
    /// # Errors
    /// When the result is too large, the lease is another's by now, or the attempt was given up.
    pub async fn complete_work(&self, job: i64, token: i64, result: Payload) -> Result<Answered, Error> {
        let (size, limit) = (result.len(), self.shared().options.max_payload);
        if size > limit {
            return Err(Error::TooLong { what: "the result", size, limit });
        }
        answer(self.shared(), job, token, Answer::Succeeded(result.as_str().to_owned())).await
    }

    /// Takes a worker's failure; what becomes of the step is up to its retries.
    ///
    /// # Errors
    /// When the lease is another's by now, or the attempt was given up.
    pub async fn fail_work(&self, job: i64, token: i64, error: StepError) -> Result<Answered, Error> {
        answer(self.shared(), job, token, Answer::Failed(bounded(error))).await
    }
}

/// Takes an attempt back that no worker has; `false` when one has it, or it is over. A store that does not answer is asked
/// until it does.
pub(crate) async fn withdraw(shared: Arc<Shared>, saga: SagaId, offered: Offered) -> bool {
    let withdrawal = Withdrawal {
        saga,
        subject: offered.subject(),
        never_leased: offered.withdrawn(false),
        leased_before: offered.withdrawn(true),
    };
    let mut backoff = StoreBackoff::default();
    loop {
        match shared.store.withdraw_job(&withdrawal, shared.options.clock.now()).await {
            Ok(withdrawn) => return withdrawn,
            Err(error) => {
                if backoff.is_news("withdrawal", &error) {
                    tracing::warn!(%saga, %error, "an attempt that nobody wants any more is still offered");
                }
            }
        }
        backoff.wait(&shared).await;
    }
}

/// The attempt of a job that has just been leased; none, and the job is over, when nobody waits for it any more.
async fn taken_up(shared: &Arc<Shared>, job: Job) -> Result<Option<Work>, Error> {
    let Some(waiting) = waiting(shared, &job).await? else {
        let report = Report::Failed { error: "nobody waits for it any more".to_owned(), retry_after: None };
        shared.store.settle_jobs(&[Settlement { id: job.id, token: job.lease.token, report }]).await?;
        return Ok(None);
    };
    if waiting.is_rolled_back() {
        // Nothing new starts, be it that the lease of an earlier worker has run out.
        let (id, token) = (job.id, job.lease.token);
        let message = waiting.offered.withdrawn(token > 1);
        let answer = jobs::Answer { id, token, error: Some("withdrawn".to_owned()), message };
        if shared.store.answer_job(&answer, shared.options.clock.now()).await?.is_ok() {
            shared.inbox_changed(job.saga);
        }
        return Ok(None);
    }
    let attempt = waiting.attempt(job.saga);
    let unreadable = |why: serde_json::Error| Error::BadInput(why.to_string());
    Ok(Some(Work {
        job: job.id,
        token: job.lease.token,
        queue: job.queue.strip_prefix(OUTSIDE).unwrap_or(&job.queue).to_owned(),
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
    offered: Offered,
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

/// What a job is about, if its saga still waits for it.
async fn waiting(shared: &Arc<Shared>, job: &Job) -> Result<Option<Waiting>, Error> {
    let Ok(offered) = job.payload.decode::<Offered>() else { return Ok(None) };
    let Some((definition, state)) = inspect::state(shared, job.saga).await? else { return Ok(None) };
    let Some(position) = definition.as_ref().position(&offered.step) else { return Ok(None) };
    let current = state.steps[position].phase(offered.phase);
    let waits = !state.status.is_terminal() && current.in_flight() && current.attempts == offered.attempt;
    Ok(waits.then_some(Waiting { definition, state, position, offered }))
}

/// A job whose attempt is still wanted.
struct WantedJob {
    job: Job,
    offered: Offered,
    /// Whether its saga is being rolled back, so that the result will be undone.
    cancelled: bool,
}

/// The job, unless its attempt was given up, or the job itself without an answer. An answer that was given before stays
/// one.
async fn still_wanted(shared: &Arc<Shared>, job: i64) -> Result<WantedJob, Error> {
    let found = shared.store.job(job).await?.filter(|found| found.queue.starts_with(OUTSIDE));
    let found = found.ok_or(Error::NoSuchJob(job))?;
    let offered: Offered = found.payload.decode().map_err(|_| Error::NoSuchJob(job))?;
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

/// Refuses an answer that came to nothing: the attempt's time was over before the answer was on disk. From then on it cannot
/// be, since no saga gives up waiting while a message waits for it; so this is asked afterwards.
async fn came_in_time(shared: &Arc<Shared>, job: &Job, offered: &Offered) -> Result<(), Error> {
    let Offered { step, phase, attempt } = offered;
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
            for desk in shared.desks.all() {
                if let Some(answered) = desk.answer(job, token, &answer).await? {
                    return Ok(answered);
                }
            }
            return Err(Error::NoSuchJob(job));
        }
        found => found?,
    };
    let Offered { step, phase, attempt } = offered.clone();
    let error = match &answer {
        Answer::Succeeded(_) => None,
        Answer::Failed(error) => Some(error.to_string()),
    };
    let message = Message::Answered { step, phase, attempt, answer };
    let at = shared.options.clock.now();
    let answer = jobs::Answer { id: job, token, error, message };
    match shared.store.answer_job(&answer, at).await? {
        Ok(()) => {
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
