//! The lease queue: jobs that outlive the process that enqueued them.
//!
//! Attempts of worker steps, hooks, webhook deliveries and actions of lifecycles for outside workers are rows of one table, and
//! only this module and its two dialects ([`sqlite`], [`postgres`]) access it. A job belongs to an owner: a saga or lifecycle, or
//! a numbered item of a product. It waits in a queue; jobs of items also have a partition each, and a lease takes so many of each
//! partition. What a lease, a result, an expiry or a withdrawal makes of a job is the kernel's rule
//! ([`backstitch_kernel::lease`]), and its owner is informed in the same transaction: a saga by a message to its inbox, an item by
//! a row of the result inbox.
//!
//! A product calls the queue in a transaction of its own, on the connection and under the role that it uses anyway, and extends
//! its statements ([`Extension`]) by what must be read or written together with the jobs.

#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod worker;

use std::time::Duration;

use backstitch_kernel::lease::{Lease, Refused, Status};
use backstitch_kernel::{Payload, SagaId, StepError, Timestamp};
use serde_json::{Value, json};

use crate::inbox::{self, Message};
pub use sql::{
    Extension, LEASE_HOLDERS, LEASES, PARTITIONS, QUEUE_DEPTHS, RESULTS, WAITING, WAITING_PARTITIONS,
};
use worker::OfferedAttempt;

/// Queues of attempts for outside workers begin with this. A job there says by `step`, `phase` and `attempt` what its saga waits
/// for.
pub const WORKER_QUEUES: &str = "work/";

/// Queues of products that are informed themselves begin with this. Nothing but its product ends a job there whose last lease has
/// expired: the product does so together with what waits for the job.
pub const PRODUCT_QUEUES: &str = "product/";

/// Why a job failed that no worker completed in any of its leases, as it is stored with the job.
pub const LEASE_EXPIRED: &str = "lease_expired";
/// Why a job ended that was withdrawn before a worker leased it.
pub const WITHDRAWN: &str = "withdrawn";

/// The name under which outside workers ask for the jobs of a queue; none where they do not. Queues of products begin with
/// [`PRODUCT_QUEUES`] and the product's name.
#[must_use]
pub fn name_for_workers(queue: &str) -> Option<&str> {
    let of_product = || queue.strip_prefix(PRODUCT_QUEUES)?.split_once('/').map(|(_, name)| name);
    queue.strip_prefix(WORKER_QUEUES).or_else(of_product)
}

/// A job to be enqueued for a saga or lifecycle.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Where it waits.
    pub queue: String,
    /// What it is about: at most one active job for an owner and a subject.
    pub subject: String,
    /// What there is to do.
    pub payload: Payload,
    /// Not leased before.
    pub due_at: Timestamp,
    /// An object to publish on [`ALERTS`](crate::store::outbox::ALERTS) if the job fails for good, with the reason as `error`.
    pub alert: Option<Payload>,
}

/// A job of a saga or lifecycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: i64,
    /// The saga or lifecycle that it belongs to.
    pub saga: SagaId,
    /// Where it waits.
    pub queue: String,
    /// What it is about.
    pub subject: String,
    /// What there is to do.
    pub payload: Payload,
    /// Its status and newest lease.
    pub lease: Lease,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

impl Job {
    /// Whether only its product may fail it after its last lease.
    #[must_use]
    pub fn is_of_a_product(&self) -> bool {
        self.queue.starts_with(PRODUCT_QUEUES)
    }

    /// The message to its saga when a worker has leased it at this time; none when no saga waits for it.
    #[must_use]
    pub fn leased_message(&self, at: Timestamp) -> Option<Message> {
        let offered = Some(self).filter(|job| job.queue.starts_with(WORKER_QUEUES));
        let OfferedAttempt { step, phase, attempt } = OfferedAttempt::of_subject(&offered?.subject)?;
        Some(Message::Leased { step, phase, attempt, at })
    }

    /// The message to its saga when its last lease has expired; none when no saga waits for it.
    #[must_use]
    pub fn lost_message(&self) -> Option<Message> {
        let waited_for = self.queue.starts_with(WORKER_QUEUES);
        let Ok(Value::Object(mut body)) = self.payload.decode() else { return None };
        if let Value::Object(answer) = lost_message_part() {
            body.extend(answer);
        }
        serde_json::from_value(body.into()).ok().filter(|_| waited_for)
    }
}

/// The error of an attempt whose workers never reported.
#[must_use]
pub fn lease_expired_error() -> StepError {
    StepError::in_doubt("the workers that had it have not been heard of").with_code(LEASE_EXPIRED)
}

/// The part of [`Job::lost_message`] that is the same for every job; the rest is the job's payload.
pub(crate) fn lost_message_part() -> Value {
    json!({"ask": "answered", "answer": inbox::Answer::Failed(lease_expired_error())})
}

/// Logs a job that cannot be read. Returns why it fails, as it is stored with the job.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn unreadable(id: i64, queue: &str, why: &dyn std::fmt::Display) -> String {
    tracing::error!(job = id, queue, %why, "a job cannot be read: no worker gets it");
    why.to_string()
}

/// Jobs that were leased together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseBatch {
    /// The leased jobs. The sagas that wait for them get a message.
    pub leased: Vec<Job>,
    /// The sagas that got a message because the last lease of a job expired.
    pub notified: Vec<SagaId>,
}

/// A job of a product's item, in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionJob {
    /// Its number.
    pub id: i64,
    /// The item that it belongs to.
    pub item: i64,
    /// The partition that it waits in.
    pub partition: i64,
    /// Its status and newest lease.
    pub lease: Lease,
}

/// A lease of up to so many jobs of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLease {
    /// The partition.
    pub partition: i64,
    /// How many jobs at most.
    pub most: usize,
    /// How long they are leased.
    pub lease: Duration,
    /// The version of the partition that its holder works by; stored with the lease if it has a [holder](PartitionScope::holder).
    pub version: Timestamp,
}

/// For whom partitions are leased, and which jobs may be.
#[derive(Clone, Copy, Debug)]
pub struct PartitionScope<'a> {
    /// Where jobs are parked that the database rejects: they are passed over.
    pub area: &'static str,
    /// The node whose outside workers get the jobs; none if it works on them itself.
    pub holder: Option<&'a str>,
    /// None but these, if there is such a list.
    pub only: Option<&'a [i64]>,
}

/// Jobs whose lease has expired, of these queues.
#[derive(Clone, Copy, Debug)]
pub struct ExpiryScope<'a> {
    /// The queues.
    pub queues: &'a [&'a str],
    /// How many jobs at most.
    pub limit: usize,
    /// Where jobs are parked that the database rejects: they are passed over.
    pub area: &'static str,
    /// None but these, if there is such a list.
    pub only: Option<&'a [i64]>,
}

/// Jobs of a partition that no worker has leased.
#[derive(Clone, Copy, Debug)]
pub struct WaitingScope<'a> {
    /// The partition.
    pub partition: i64,
    /// How many jobs at most.
    pub limit: usize,
    /// Where jobs are parked that the database rejects: they are passed over.
    pub area: &'static str,
    /// None but these, if there is such a list.
    pub only: Option<&'a [i64]>,
}

/// A report about a leased job.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The job.
    pub id: i64,
    /// The token of the lease.
    pub token: i64,
    /// What happened.
    pub outcome: JobOutcome,
    /// What the job's owner learns in the same transaction, beyond the outcome.
    pub result: JobResult,
}

impl Settlement {
    /// A report that says no more than its outcome.
    #[must_use]
    pub fn new(id: i64, token: i64, outcome: JobOutcome) -> Self {
        Self { id, token, outcome, result: JobResult::None }
    }
}

/// What happened to a leased job.
#[derive(Clone, Debug)]
pub enum JobOutcome {
    /// It is done.
    Completed,
    /// It failed; with a wait it is retried after that, by the store's clock, without it has failed for good.
    Failed {
        /// Why.
        error: String,
        /// How long to wait before it is leased again.
        retry_after: Option<Duration>,
    },
    /// The worker renews its lease.
    Renewed {
        /// How much longer the lease lasts.
        lease: Duration,
    },
    /// The worker returns it unfinished: it is due again at once, and neither an attempt nor an expiry is counted.
    Returned,
}

/// What the owner of a job learns with its outcome.
#[derive(Clone, Debug, Default)]
pub enum JobResult {
    /// Nothing more.
    #[default]
    None,
    /// The saga gets this message.
    Message {
        /// The message.
        message: Message,
        /// When it was sent.
        at: Timestamp,
    },
    /// The result inbox says that another attempt is to wait so long.
    RetryAfter(Duration),
}

/// What became of a report: until when the job is leased or waits, or why nothing changed.
pub type Settled = Result<Timestamp, Refused>;

/// A job that was reported about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledJob {
    /// Its lease before the report.
    pub before: Lease,
    /// Why it had failed before the report.
    pub last_error: Option<String>,
    /// Until when it is leased or waits, if the report was accepted.
    pub until: Option<Timestamp>,
}

impl SettledJob {
    /// What became of a report under this token.
    ///
    /// # Errors
    /// When the report changed nothing.
    pub fn settled(&self, token: i64) -> Settled {
        match self.until {
            Some(until) => Ok(until),
            None => Err(self.before.complete(token).err().unwrap_or(Refused::Stale)),
        }
    }
}

/// Withdraws a job that no worker has leased.
#[derive(Clone, Debug)]
pub struct Withdrawal {
    /// The saga that it belongs to.
    pub saga: SagaId,
    /// What it is about.
    pub subject: String,
    /// The message to the saga when no worker ever leased it.
    pub never_leased: Message,
    /// The message to the saga when one leased it and let its lease expire.
    pub leased_before: Message,
}

impl Withdrawal {
    /// The message to the saga of a job whose newest token is this.
    #[must_use]
    pub fn message(&self, token: i64) -> &Message {
        if token == 0 { &self.never_leased } else { &self.leased_before }
    }
}

/// What a queue holds, as far as its product must act on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Whether any job waits or is leased.
    pub has_jobs: bool,
    /// Jobs of a product whose last lease has expired, up to a limit.
    pub lost: Vec<i64>,
}

/// The status as the table has it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Pending => "Pending",
        Status::Leased => "Leased",
        Status::Completed => "Completed",
        Status::Failed => "Failed",
    }
}

/// The status of this word.
#[must_use]
pub fn parse_status(word: &str) -> Option<Status> {
    use Status::{Completed, Failed, Leased, Pending};
    [Pending, Leased, Completed, Failed].into_iter().find(|status| status_word(*status) == word)
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_as_it_is_written() {
        for status in [Status::Pending, Status::Leased, Status::Completed, Status::Failed] {
            assert_eq!(parse_status(status_word(status)), Some(status));
        }
    }
}
