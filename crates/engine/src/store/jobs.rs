//! Work that outlives the process that asked for it.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::lease::{Lease, Refused};
use backstitch_kernel::{Payload, SagaId, StepError, Timestamp};
use serde_json::{Value, json};

use super::Error;
use super::sealed::Sealed;
use crate::inbox::{self, Message};
use crate::work::Offered;

/// The job queue.
#[async_trait]
pub trait JobStore: Sealed {
    /// Leases up to `limit` due jobs of these queues, oldest first; expired leases are returned to the queue
    /// first. The store's clock decides. A job whose last lease expires fails, and its saga is notified in the same transaction
    /// ([`Job::lost`]); a job [of a product](Job::is_of_a_product) is left to the product.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error>;

    /// Settles leased jobs, each only if its token is the newest.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error>;

    /// Records an outside worker's result: ends the job and notifies its saga in one transaction.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error>;

    /// Withdraws a job that is pending or whose lease has expired: ends the job and notifies its saga in one transaction.
    /// `false`: a worker holds it, or it has ended.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error>;

    /// A job by its number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn job(&self, id: i64) -> Result<Option<Job>, Error>;
}

/// Queues of attempts that are left to outside workers begin with this. A job there says by `step`, `phase` and `attempt`
/// what its saga waits for.
pub const OUTSIDE: &str = "work/";

/// Queues of products that are told themselves begin with this. The last lease that a job there may lose is left as it is:
/// its product gives it up, together with whatever waits for it.
pub const OF_PRODUCTS: &str = "product/";

/// The name under which outside workers ask for the jobs of a queue; none where they do not. Queues of products begin with
/// [`OF_PRODUCTS`] and the product's name.
#[must_use]
pub fn name_for_workers(queue: &str) -> Option<&str> {
    let of_product = || queue.strip_prefix(OF_PRODUCTS)?.split_once('/').map(|(_, name)| name);
    queue.strip_prefix(OUTSIDE).or_else(of_product)
}

/// A job to be written with the decision that asks for it.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Who takes it.
    pub queue: String,
    /// What it is about: at most one active job for a saga and a subject.
    pub subject: String,
    /// What there is to do.
    pub payload: Payload,
    /// Not before.
    pub due_at: Timestamp,
    /// An object to publish on [`ALERTS`](super::outbox::ALERTS) if the job is given up, with the reason as `error`.
    pub alert: Option<Payload>,
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: i64,
    /// The saga that asked for it.
    pub saga: SagaId,
    /// Who takes it.
    pub queue: String,
    /// What it is about.
    pub subject: String,
    /// What there is to do.
    pub payload: Payload,
    /// Where it stands.
    pub lease: Lease,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

impl Job {
    /// Whether giving it up is its product's to do.
    #[must_use]
    pub fn is_of_a_product(&self) -> bool {
        self.queue.starts_with(OF_PRODUCTS)
    }

    /// What its saga is told when a worker has leased it at this time; none when no saga waits for it.
    #[must_use]
    pub fn taken(&self, at: Timestamp) -> Option<Message> {
        let offered = Some(self).filter(|job| job.queue.starts_with(OUTSIDE));
        let Offered { step, phase, attempt } = Offered::of_subject(&offered?.subject)?;
        Some(Message::Leased { step, phase, attempt, at })
    }

    /// What its saga is told when it is given up because nobody brings it back; none when no saga waits for it.
    #[must_use]
    pub fn lost(&self) -> Option<Message> {
        let waited_for = self.queue.starts_with(OUTSIDE);
        let Ok(Value::Object(mut body)) = self.payload.decode() else { return None };
        if let Value::Object(answer) = loss() {
            body.extend(answer);
        }
        serde_json::from_value(body.into()).ok().filter(|_| waited_for)
    }
}

/// Why a job is given up that nobody brings back, as it is kept with the job.
pub const LEASE_EXPIRED: &str = "lease_expired";
/// Why a job ended that was taken back before a worker had it.
pub const WITHDRAWN: &str = "withdrawn";

/// The same as the error of the attempt that it was.
#[must_use]
pub fn nobody_brings_it_back() -> StepError {
    StepError::in_doubt("the workers that had it have not been heard of").with_code(LEASE_EXPIRED)
}

/// The part of that message which is the same for every job; the rest is the job's payload.
pub(crate) fn loss() -> Value {
    json!({"ask": "answered", "answer": inbox::Answer::Failed(nobody_brings_it_back())})
}

/// Tells of a job that cannot be read; why it is given up, as it is kept with the job.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn unreadable(id: i64, queue: &str, why: &dyn std::fmt::Display) -> String {
    tracing::error!(job = id, queue, %why, "a job cannot be read: nobody gets it");
    why.to_string()
}

/// What came of asking for jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leasing {
    /// The leased jobs. The sagas that wait for them get a message.
    pub leased: Vec<Leased>,
    /// The sagas that were told of attempts that nobody brings back.
    pub told: Vec<SagaId>,
}

/// A job somebody has just got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The job, its lease being the new one.
    pub job: Job,
}

/// What a worker reports.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The job.
    pub id: i64,
    /// The token it was leased with.
    pub token: i64,
    /// What happened.
    pub report: Report,
}

/// What happened to a job.
#[derive(Clone, Debug)]
pub enum Report {
    /// It is done.
    Completed,
    /// It failed; with a wait it is tried again after that, by the store's clock, without it is given up.
    Failed {
        /// Why.
        error: String,
        /// How long to wait before it is tried again.
        retry_after: Option<std::time::Duration>,
    },
    /// It is still being worked on.
    StillWorking {
        /// How much longer the lease is to last.
        lease: std::time::Duration,
    },
    /// Whoever has it must stop before it is done: it is due again at once, and neither an attempt nor an expiry is
    /// counted.
    GivenBack,
}

/// What an outside worker answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The job.
    pub id: i64,
    /// The token it was leased with.
    pub token: i64,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What its saga is told.
    pub message: Message,
}

/// Takes a job back that no worker has.
#[derive(Clone, Debug)]
pub struct Withdrawal {
    /// The saga that asked for it.
    pub saga: SagaId,
    /// What it is about.
    pub subject: String,
    /// What its saga is told when no worker ever had it.
    pub never_leased: Message,
    /// What its saga is told when one had it and let its lease run out.
    pub leased_before: Message,
}

impl Withdrawal {
    /// What the saga of a job is told whose newest token is this.
    #[must_use]
    pub fn message(&self, token: i64) -> &Message {
        if token == 0 { &self.never_leased } else { &self.leased_before }
    }
}

/// What became of a report.
pub type Settled = Result<(), Refused>;
