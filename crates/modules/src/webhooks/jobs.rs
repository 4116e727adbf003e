//! Attempts of deliveries as jobs of the engine's lease queue: what a webhook adds to a job, and records of its result.
//!
//! A partition of the queue is a subscription. A report ends the job, with its result in the queue's result inbox for the
//! orchestrator, and records the attempt, all in one transaction. Only the orchestrator changes the delivery.

mod on_file;
mod on_server;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstitch::group_commit::{self, GroupCommit, GroupWriter, ItemResult};
use backstitch::jobs::{
    self as queue, Extension, JobOutcome, JobResult, PartitionLease, SettledJob, Settlement, parse_status,
};
use backstitch::kernel::lease::{Refused, Status};
use backstitch::store::Writers;
use backstitch::store::isolation::{Isolable as _, PickedBatch, isolate_picked};
use backstitch::store::parked::park_item;
use backstitch::{Timestamp, store};
use serde::{Deserialize, Serialize};
use tokio::sync::futures::Notified;

use super::base::{Base, Part, Side};
use super::error::Error;
use super::parked::JOBS;
use super::sealed_headers::SealedHeaders;
use super::subscription::{Secrets, Subscription};
use crate::question::{Record, Statement, Value, chosen, tidied};

/// The queue of deliveries among the jobs of the engine.
pub(super) const QUEUE: &str = "deliver/webhooks";
/// Why a job failed that no worker completed in any of its leases.
pub use queue::LEASE_EXPIRED;
/// Why a job failed that nobody may take any more.
pub const SUBSCRIPTION_DELETED: &str = "subscription_deleted";
/// What people read about such a job. Its result counts like every other (seed 000 §6.4), so it has to be told from an
/// attempt that was made; nobody knows what came of one that a worker had before.
const NEVER_SENT: &str = "no request was made: the subscription was deleted while this attempt waited";
const MAYBE_SENT: &str = "the subscription was deleted while this attempt waited to be made again: whoever had it before \
                          never came back, so a request may have been made";
/// Error codes longer than this are cut.
const LONGEST_CODE: usize = 100;
/// Poll interval for jobs of deleted subscriptions and for rejected reports.
const MAINTAINED_EVERY: Duration = Duration::from_secs(5);
/// The subscription of a partition, as [`Lane::read`] expects it after the partition's number.
const LANE_COLUMNS: &str = ", p.disabled_at is not null, p.deleted_at is not null, p.url, p.headers, p.timeout_ms, \
                            p.max_concurrency, p.rate_limit, p.secret, p.previous_secret, p.previous_secret_until, \
                            p.updated_at";
const LANE_JOIN: &str = "join webhook_subscriptions as p on p.id = found.partition_id";
/// Jobs returned to the queue or failed in one transaction at most.
pub(super) const BATCH: u32 = 256;
/// What is kept of an answer's body, and of what people read about an error.
const LONGEST_BODY: usize = 4096;
const LONGEST_ERROR: usize = 500;

/// The jobs of deliveries.
pub struct Jobs {
    pub(super) base: Arc<Base>,
    pub(super) group: GroupCommit<Report, Answered>,
}

/// The lease of a job.
pub(super) struct JobLease {
    pub(super) id: i64,
    token: i64,
    pub(super) status: Status,
    last_error: Option<String>,
    /// The delivery.
    pub(super) item: i64,
    /// The subscription.
    partition: i64,
    /// The last change of the subscription that an outside worker's lease is based on.
    version: Option<Timestamp>,
}

/// Jobs that wait in a partition.
pub(super) struct WaitingJobs {
    pub(super) partition: i64,
    /// Counted up to a limit.
    pub(super) count: u64,
    /// When the oldest of them was enqueued.
    pub(super) since: Option<Timestamp>,
}

impl Base {
    /// The jobs that wait in these partitions, counted up to a limit.
    pub(super) async fn waiting(
        &self,
        partitions: &[i64],
        most: usize,
    ) -> Result<Vec<WaitingJobs>, store::Error> {
        let Statement { sqlite, postgres } = queue::WAITING;
        let rows =
            self.read_text(Part::Reading, sqlite, postgres, vec![chosen(partitions), most.into()]).await?;
        let waiting = |row: &Record| {
            Ok(WaitingJobs {
                partition: row.integer(0)?,
                count: row.integer(1)?.unsigned_abs(),
                since: row.optional_time(2)?,
            })
        };
        rows.iter().map(waiting).collect()
    }

    /// The leases of these jobs.
    pub(super) async fn leases(&self, part: Part, jobs: &[i64]) -> Result<Vec<JobLease>, store::Error> {
        let Statement { sqlite, postgres } = queue::LEASES;
        let rows = self.read_text(part, sqlite, postgres, vec![chosen(jobs)]).await?;
        let lease = |row: &Record| {
            let word = row.text(2)?;
            Ok(JobLease {
                id: row.integer(0)?,
                token: row.integer(1)?,
                status: parse_status(&word)
                    .ok_or_else(|| store::Error::Refused(format!("`{word}` is no status of a job")))?,
                last_error: row.optional_text(3)?,
                item: row.integer(4)?,
                partition: row.integer(5)?,
                version: row.optional_time(6)?,
            })
        };
        rows.iter().map(lease).collect()
    }
}

/// A lane in which jobs wait, and how its endpoint is to be called.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The subscription.
    pub id: i64,
    /// Where to.
    pub url: String,
    /// Sent with each request, encrypted.
    pub headers: SealedHeaders,
    /// How long a request may take.
    pub timeout: Duration,
    /// Requests at once.
    pub max_concurrency: u32,
    /// Requests a second.
    pub rate_limit: Option<u32>,
    /// What requests are signed with, encrypted.
    pub secrets: Secrets,
    /// When the subscription was last changed.
    pub updated_at: Timestamp,
}

/// So many jobs of a lane, for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The lane.
    pub lane: i64,
    /// How many at most.
    pub most: usize,
    /// How long they are leased.
    pub lease: Duration,
    /// The last change of the subscription that whoever asks knows of, and calls it by.
    pub as_of: Timestamp,
}

impl Lane {
    fn read(row: &Record) -> Result<Self, Error> {
        Ok(Self {
            id: row.integer(0)?,
            url: row.text(3)?,
            headers: SealedHeaders::read(&row.text(4)?),
            timeout: Duration::from_millis(row.integer(5)?.unsigned_abs()),
            max_concurrency: row.count(6)?,
            rate_limit: row.optional_integer(7)?.and_then(|limit| u32::try_from(limit).ok()),
            secrets: Secrets::read(row, 8)?,
            updated_at: row.time(11)?,
        })
    }

    /// The lane of this subscription.
    pub(super) fn of(subscription: &Subscription) -> Self {
        let Subscription { id, terms, headers, secrets, updated_at, .. } = subscription.clone();
        Self {
            id,
            url: terms.url,
            headers,
            timeout: terms.timeout,
            max_concurrency: terms.max_concurrency,
            rate_limit: terms.rate_limit,
            secrets,
            updated_at,
        }
    }
}

/// Lanes in which jobs wait.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Those that may be leased from.
    pub open: Vec<Lane>,
    /// Those of disabled subscriptions.
    pub disabled: Vec<i64>,
    /// Those of deleted subscriptions; see [`Jobs::close_lane`].
    pub deleted: Vec<i64>,
    /// Where to go on looking; none when all were seen.
    pub next: Option<i64>,
}

impl Lanes {
    fn of(rows: &[Record]) -> Result<Self, Error> {
        let mut lanes = Self::default();
        for row in rows {
            let id = row.integer(0)?;
            lanes.next = Some(id);
            if row.flag(2)? {
                lanes.deleted.push(id);
            } else if row.flag(1)? {
                lanes.disabled.push(id);
            } else {
                lanes.open.push(Lane::read(row)?);
            }
        }
        Ok(lanes)
    }
}

/// An attempt that somebody has just got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Its job.
    pub job: i64,
    /// Every report names it; a later lease of the same job has a higher one.
    pub token: i64,
    /// Without a word by then it goes to another worker.
    pub until: Timestamp,
    /// The subscription.
    pub lane: i64,
    /// The delivery.
    pub delivery: i64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The message id that the receiver sees.
    pub webhook_id: String,
    /// The event.
    pub event: i64,
    /// Its type.
    pub kind: String,
    /// What is sent, exactly so.
    pub payload: String,
}

/// What came of an attempt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The job.
    pub job: i64,
    /// The token it was leased with.
    pub token: i64,
    /// What programs tell apart, such as `http_503`; none where it arrived.
    pub error_code: Option<String>,
    /// What people read.
    pub error: Option<String>,
    /// The receiver asked for this much time.
    pub retry_after: Option<Duration>,
    /// What the receiver answered with.
    pub response_code: Option<u16>,
    /// The start of its answer.
    pub body: Option<String>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// When it was begun.
    pub started_at: Option<Timestamp>,
    /// What was sent; nothing where nothing was, or nobody knows.
    pub sent: Option<Sent>,
}

/// What of a request is kept: not what its headers say, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Where to.
    pub url: String,
    /// The names of its headers.
    pub headers: Vec<String>,
}

impl Sent {
    /// The names, as they are kept: no name has a comma.
    fn headers(&self) -> String {
        self.headers.join(",")
    }

    /// As it was kept.
    pub(super) fn kept(url: Option<String>, headers: Option<String>) -> Option<Self> {
        let headers = headers.unwrap_or_default();
        let names = headers.split(',').filter(|name| !name.is_empty());
        Some(Self { url: url?, headers: names.map(str::to_owned).collect() })
    }
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It counts.
    Now,
    /// The job had its result under this very lease; this is what won.
    Before(Won),
    /// The job is another's by now or waits for somebody, or had this result under another lease.
    Stale(Option<Won>),
    /// There is no such job.
    Unknown,
}

/// The result that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Won {
    /// It arrived.
    Completed,
    /// It failed with this code.
    Failed(String),
}

impl Won {
    /// The result of a job that stands so, if it has one.
    fn of(status: Status, last_error: Option<String>) -> Option<Self> {
        match status {
            Status::Pending | Status::Leased => None,
            Status::Completed => Some(Self::Completed),
            Status::Failed => Some(Self::Failed(last_error.unwrap_or_default())),
        }
    }
}

/// What became of leases that ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Jobs that wait again, at no cost.
    pub put_back: usize,
    /// Jobs that nobody brings back.
    pub failed: usize,
}

/// What became of a report under this token, or until when the job is leased or waits.
fn answered(job: Option<SettledJob>, token: i64) -> Result<Timestamp, Answered> {
    let Some(job) = job else { return Err(Answered::Unknown) };
    let refused = match job.settled(token) {
        Ok(until) => return Ok(until),
        Err(refused) => refused,
    };
    let won = Won::of(job.before.status, job.last_error);
    Err(match (refused, won) {
        (Refused::Finished, Some(won)) => Answered::Before(won),
        (_, won) => Answered::Stale(won),
    })
}

impl Report {
    /// The end of the job that this reports.
    fn settlement(&self) -> Settlement {
        let outcome = match &self.error_code {
            None => JobOutcome::Completed,
            Some(code) => JobOutcome::Failed { error: code.clone(), retry_after: None },
        };
        let result = self.retry_after.map_or(JobResult::None, JobResult::RetryAfter);
        Settlement { id: self.job, token: self.token, outcome, result }
    }
}

impl Jobs {
    pub(super) fn on(base: Arc<Base>) -> Result<Self, store::Error> {
        let writers = Writers::Tasks(base.writers());
        let group = GroupCommit::start(&ReportWriter(base.clone()), writers, base.pace())?;
        Ok(Self { base, group })
    }

    /// Resolves when there may be jobs to lease. Ask for it before looking, so that nothing is missed.
    pub fn offered(&self) -> Notified<'_> {
        self.base.jobs.notified()
    }

    /// Up to `limit` lanes after this one in which jobs wait, each found by one probe of an index. Those of disabled
    /// subscriptions are passed over.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn lanes(&self, after: i64, limit: usize) -> Result<Lanes, Error> {
        let values = vec![after.into(), limit.into(), JOBS.into()];
        let rows = self.partitions(&queue::PARTITIONS, values, LANE_JOIN).await?;
        let mut lanes = Lanes::of(&rows)?;
        lanes.next = lanes.next.filter(|_| rows.len() >= limit);
        Ok(lanes)
    }

    /// Those of these lanes in which jobs wait.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) async fn chosen_lanes(&self, lanes: &[i64]) -> Result<Lanes, Error> {
        Lanes::of(
            &self.partitions(&queue::WAITING_PARTITIONS, vec![chosen(lanes), JOBS.into()], LANE_JOIN).await?,
        )
    }

    /// Partitions in which jobs wait, with their subscriptions.
    async fn partitions(
        &self,
        which: &Statement,
        mut values: Vec<Value>,
        joins: &str,
    ) -> Result<Vec<Record>, store::Error> {
        let extension = Extension { columns: LANE_COLUMNS, joins, ..Extension::default() };
        values.extend(self.base.now_in_file());
        let [sqlite, postgres] = [which.sqlite, which.postgres].map(|sql| extension.apply(sql));
        self.base.read_text(Part::Worker, sqlite, &postgres, values).await
    }

    /// Leases what is asked for of each lane, oldest first. A lane that was closed meanwhile gives none.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn lease(&self, asks: &[Ask]) -> Result<Vec<Leased>, Error> {
        self.lease_as(asks, None).await
    }

    /// The same for outside workers of this node: what they get is theirs although the node ends.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn hand_out(&self, asks: &[Ask], node: &str) -> Result<Vec<Leased>, Error> {
        self.lease_as(asks, Some(node)).await
    }

    async fn lease_as(&self, asks: &[Ask], handed_out_by: Option<&str>) -> Result<Vec<Leased>, Error> {
        let mut seen = HashSet::new();
        let asks: Vec<_> = asks.iter().copied().filter(|ask| ask.most > 0 && seen.insert(ask.lane)).collect();
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let asked = |&Ask { lane: partition, most, lease, as_of: version }: &Ask| PartitionLease {
            partition,
            most,
            lease,
            version,
        };
        let asks: Arc<[PartitionLease]> = asks.iter().map(asked).collect();
        let leased = isolate_picked(
            || self.leasable(asks.clone()),
            |only| self.lease_those(asks.clone(), handed_out_by, only),
            |job, reason| self.park(job, reason),
        );
        let PickedBatch { written, failed, .. } = leased.await?;
        match failed {
            Some(error) if written.is_empty() => Err(error.into()),
            Some(error) => {
                // The jobs that are leased already are sent all the same.
                tracing::warn!(%error, "webhook jobs not leased; leased again with the next look");
                Ok(written.into_iter().flatten().collect())
            }
            None => Ok(written.into_iter().flatten().collect()),
        }
    }

    /// The jobs that a lease picks.
    async fn leasable(&self, asks: Arc<[PartitionLease]>) -> Result<Vec<i64>, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                file.read_product(move |connection| on_file::leasable(connection, &asks, now)).await
            }
            Side::Postgres(server) => on_server::leasable(server, &asks).await,
        }
    }

    async fn lease_those(
        &self,
        asks: Arc<[PartitionLease]>,
        handed_out_by: Option<&str>,
        only: Option<Vec<i64>>,
    ) -> Result<Vec<Leased>, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let (now, handed_out_by) = (self.base.now(), handed_out_by.map(str::to_owned));
                file.write_product(move |transaction| {
                    on_file::lease(transaction, &asks, handed_out_by.as_deref(), only.as_deref(), now)
                })
                .await
            }
            Side::Postgres(server) => on_server::lease(server, &asks, handed_out_by, only.as_deref()).await,
        }
    }

    /// Takes a report; when this returns, what it says is on disk, or was before. Many at once share transactions. One that the
    /// database rejects is kept until it is taken: see [`Self::settle_rejected`].
    ///
    /// # Errors
    /// When the database cannot be written; nobody knows then whether it counts, and reporting again is safe.
    pub async fn report(&self, mut report: Report) -> Result<Answered, Error> {
        report.error_code = report.error_code.as_deref().map(code_kept);
        let cut = |text: &str, longest| tidied(text).chars().take(longest).collect();
        report.error = report.error.as_deref().map(|error| cut(error, LONGEST_ERROR));
        report.body = report.body.as_deref().map(|body| cut(body, LONGEST_BODY));
        let written = self.group.write_and_return(report).await;
        let ItemResult { item: report, result } = written.map_err(|group_commit::Closed| Error::Closed)?;
        let answered = match result {
            Err(why) if why.is_about_an_item() => return self.keep_rejected(&report, why).await,
            answered => answered.map_err(Error::Batch)?,
        };
        if answered == Answered::Now {
            self.base.take_in_soon();
        }
        Ok(answered)
    }

    /// Keeps a lease for this long from now on, and says until when; otherwise why not.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn extend(
        &self,
        job: i64,
        token: i64,
        lease: Duration,
    ) -> Result<Result<Timestamp, Answered>, Error> {
        self.change_lease(Settlement::new(job, token, JobOutcome::Renewed { lease })).await
    }

    /// Gives a job back that nothing was sent for: it waits again, at no cost.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn give_back(&self, job: i64, token: i64) -> Result<Result<Timestamp, Answered>, Error> {
        let returned = self.change_lease(Settlement::new(job, token, JobOutcome::Returned)).await?;
        self.base.work_soon();
        Ok(returned)
    }

    /// Renews or returns a lease.
    async fn change_lease(&self, settlement: Settlement) -> Result<Result<Timestamp, Answered>, Error> {
        let token = settlement.token;
        let settled = match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                let change = move |transaction: &rusqlite::Transaction<'_>| {
                    queue::sqlite::settle_item(transaction, &settlement, now)
                };
                file.write_product(change).await?.map(|item| item.settled)
            }
            Side::Postgres(server) => on_server::settle(server, settlement).await?,
        };
        Ok(answered(settled, token))
    }

    /// Returns jobs to the queue whose lease has expired, at no cost; one that has lost its last lease has failed, as
    /// [`LEASE_EXPIRED`].
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn expire(&self) -> Result<Expired, Error> {
        self.base.arriving.before_leases_expire().await;
        let mut all = Expired::default();
        loop {
            let expired = isolate_picked(
                || self.expired(),
                |only| self.expire_those(only),
                |job, reason| self.park(job, reason),
            );
            let expired = expired.await?;
            let parked = expired.parked;
            let expired = expired.whole()?;
            let put_back: usize = expired.iter().map(|expired| expired.put_back).sum();
            let failed: usize = expired.iter().map(|expired| expired.failed).sum();
            all.put_back += put_back;
            all.failed += failed;
            if put_back + failed + parked < BATCH as usize {
                break;
            }
        }
        if all.put_back > 0 {
            self.base.work_soon();
        }
        if all.failed > 0 {
            self.base.take_in_soon();
        }
        Ok(all)
    }

    async fn expire_those(&self, only: Option<Vec<i64>>) -> Result<Expired, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                file.write_product(move |transaction| on_file::expire(transaction, only.as_deref(), now))
                    .await
            }
            Side::Postgres(server) => on_server::expire(server, only.as_deref()).await,
        }
    }

    /// The jobs that [`Self::expire`] returns to the queue.
    async fn expired(&self) -> Result<Vec<i64>, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                file.read_product(move |connection| on_file::expired(connection, now)).await
            }
            Side::Postgres(server) => on_server::expired(server).await,
        }
    }

    /// The lane of a job, and whether it is the same as when the job was handed out.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) async fn lane_of(&self, job: i64) -> Result<Option<(Lane, bool)>, Error> {
        let Some(lease) = self.base.leases(Part::Worker, &[job]).await?.pop() else { return Ok(None) };
        let sql = format!("select p.id {LANE_COLUMNS} from webhook_subscriptions as p where p.id = $1");
        let rows = self.base.read_text(Part::Worker, sql.clone(), &sql, vec![lease.partition.into()]).await?;
        let lane = rows.first().map(Lane::read).transpose()?;
        Ok(lane.map(|lane| {
            let is_as_then = lease.version == Some(lane.updated_at);
            (lane, is_as_then)
        }))
    }

    /// Those of these jobs that are not leased any more under their tokens, and the result that counted of those that have
    /// one under it, whoever heard of it.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(super) async fn over(&self, jobs: &HashMap<i64, i64>) -> Result<HashMap<i64, Option<Won>>, Error> {
        let ids: Vec<i64> = jobs.keys().copied().collect();
        let leases = self.base.leases(Part::Worker, &ids).await?;
        let mut over: HashMap<i64, Option<Won>> = ids.into_iter().map(|job| (job, None)).collect();
        for JobLease { id, token, status, last_error, .. } in leases {
            if jobs.get(&id) != Some(&token) {
                continue;
            }
            match status {
                Status::Leased => drop(over.remove(&id)),
                status => drop(over.insert(id, Won::of(status, last_error))),
            }
        }
        Ok(over)
    }

    /// Gives up what waits for deleted subscriptions, and writes reports that were rejected, for as long as it is polled. Each
    /// lease closes deleted subscriptions too, and at once; but a node may lease nothing.
    pub async fn maintain(&self) {
        loop {
            if let Err(error) = self.close_deleted().await {
                tracing::warn!(%error, "what waits for deleted subscriptions cannot be given up yet");
            }
            if let Err(error) = self.settle_rejected().await {
                tracing::warn!(%error, "rejected reports of webhooks not written; tried again");
            }
            tokio::time::sleep(MAINTAINED_EVERY).await;
        }
    }

    async fn close_deleted(&self) -> Result<(), Error> {
        let joins = format!("{LANE_JOIN} and p.deleted_at is not null");
        let all = vec![0_i64.into(), i64::MAX.into(), JOBS.into()];
        let rows = self.partitions(&queue::PARTITIONS, all, &joins).await?;
        for row in &rows {
            while self.close_lane(row.integer(0)?).await? > 0 {}
        }
        Ok(())
    }

    /// Gives up some of what waits in the lane of a deleted subscription, as [`SUBSCRIPTION_DELETED`], or parks it; how much
    /// that was.
    /// There may be more until it is nothing.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn close_lane(&self, lane: i64) -> Result<usize, Error> {
        let closed = isolate_picked(
            || self.waiting(lane),
            |only| self.close_those(lane, only),
            |job, reason| self.park(job, reason),
        );
        let closed = closed.await?;
        let parked = closed.parked;
        let closed: usize = closed.whole()?.into_iter().sum();
        if closed > 0 {
            self.base.take_in_soon();
        }
        Ok(closed + parked)
    }

    /// The jobs that [`Self::close_lane`] picks.
    async fn waiting(&self, lane: i64) -> Result<Vec<i64>, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                file.read_product(move |connection| on_file::waiting(connection, lane, now)).await
            }
            Side::Postgres(server) => on_server::waiting(server, lane).await,
        }
    }

    pub(super) async fn park(&self, job: i64, reason: String) -> Result<(), store::Error> {
        park_item(self.base.store(), JOBS, job, reason).await
    }

    async fn close_those(&self, lane: i64, only: Option<Vec<i64>>) -> Result<usize, store::Error> {
        match self.base.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let now = self.base.now();
                let close = move |transaction: &rusqlite::Transaction<'_>| {
                    on_file::close_lane(transaction, lane, only.as_deref(), now)
                };
                file.write_product(close).await
            }
            Side::Postgres(server) => on_server::close_lane(server, lane, only.as_deref()).await,
        }
    }
}

#[derive(Clone)]
struct ReportWriter(Arc<Base>);

impl GroupWriter for ReportWriter {
    type Item = Report;
    type Answer = Answered;

    const ISOLATES: bool = true;

    fn bytes(report: &Report) -> usize {
        report.error.as_ref().map_or(0, String::len) + report.body.as_ref().map_or(0, String::len)
    }

    async fn write(&self, reports: &[Report]) -> Result<Vec<Answered>, store::Error> {
        match self.0.side(Part::Worker)? {
            Side::Sqlite(file) => {
                let (reports, now) = (reports.to_vec(), self.0.now());
                file.write_product(move |transaction| on_file::report(transaction, &reports, now)).await
            }
            Side::Postgres(server) => on_server::report(server, reports).await,
        }
    }
}

/// What is kept of an error's code.
pub(super) fn code_kept(code: &str) -> String {
    tidied(code).chars().take(LONGEST_CODE).collect()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
