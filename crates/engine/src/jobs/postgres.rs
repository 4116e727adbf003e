//! The lease queue on `PostgreSQL`, by the server's clock: one statement a batch, on the connection and under the role that the
//! caller gives.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use backstitch_kernel::lease::{Lease, MAX_EXPIRIES, Status};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{
    ExpiryScope, Extension, Job, JobOutcome, JobResult, LEASE_EXPIRED, NewJob, PartitionJob, PartitionLease,
    PartitionScope, SettledJob, Settlement, WaitingScope, parse_status,
};
use crate::sql;
use crate::store::postgres::{
    Acting, Unit, get, get_time, is_text, limit, micros, millis, readable, time, timestamp,
};
use crate::store::{Corrupt, Error};

/// Values of a statement.
pub type Values<'a> = [&'a (dyn ToSql + Sync)];

pub(crate) const NOTIFY_SAGAS: &str = sql!(postgres / jobs::notify_sagas);

/// A connection that runs statements.
pub trait SqlConnection: Sync {
    /// Runs one statement.
    fn run(&self, sql: &str, values: &Values<'_>) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;
}

impl SqlConnection for Acting {
    async fn run(&self, sql: &str, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        self.query(sql, values).await
    }
}

impl SqlConnection for Unit {
    async fn run(&self, sql: &str, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        self.query(sql, values).await
    }
}

/// The statement's own values and those of its extension.
fn joined<'a>(
    own: &[&'a (dyn ToSql + Sync)],
    more: &[&'a (dyn ToSql + Sync)],
) -> Vec<&'a (dyn ToSql + Sync)> {
    own.iter().chain(more).copied().collect()
}

fn ids(rows: &[Row]) -> Result<Vec<i64>, Error> {
    rows.iter().map(|row| get(row, "id")).collect()
}

/// Enqueues jobs of sagas or lifecycles.
///
/// # Errors
/// When the database rejects one, or cannot be written.
pub async fn enqueue(on: &impl SqlConnection, jobs: &[(SagaId, NewJob)], at: Timestamp) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let owner: Vec<_> = jobs.iter().map(|(owner, _)| owner.0).collect();
    let queue: Vec<&str> = jobs.iter().map(|(_, job)| &*job.queue).collect();
    let subject: Vec<&str> = jobs.iter().map(|(_, job)| &*job.subject).collect();
    let payload: Vec<&str> = jobs.iter().map(|(_, job)| job.payload.as_str()).collect();
    let due_at: Vec<SystemTime> = jobs.iter().map(|(_, job)| time(job.due_at)).collect();
    let alert: Vec<Option<&str>> =
        jobs.iter().map(|(_, job)| job.alert.as_ref().map(Payload::as_str)).collect();
    let values: [&(dyn ToSql + Sync); 7] = [&owner, &queue, &subject, &payload, &due_at, &alert, &time(at)];
    on.run(sql!(postgres / jobs::enqueue), &values).await.map(drop)
}

/// Items that may get a job.
#[derive(Clone, Debug, Default)]
pub struct NewItems {
    /// The items.
    pub items: Vec<i64>,
    /// The partition of each.
    pub partitions: Vec<i64>,
    /// Whether the item gets a job; the extension sees the others too.
    pub enqueued: Vec<bool>,
}

/// Enqueues jobs of items. The extension sees those without an active job as `free (item, id)`, numbers its own values from
/// `$5`, and may leave out jobs by its condition on `item`.
///
/// # Errors
/// When the database rejects one, or cannot be written.
pub async fn enqueue_items(
    on: &impl SqlConnection,
    queue: &str,
    new: &NewItems,
    extension: &Extension<'_>,
    values: &Values<'_>,
) -> Result<Vec<Row>, Error> {
    let NewItems { items, partitions, enqueued } = new;
    let values = joined(&[items, partitions, enqueued, &queue], values);
    on.run(&extension.apply(sql!(postgres / jobs::enqueue_items)), &values).await
}

/// Leases due jobs of partitions. The extension's condition is on `asked.partition_id`; its columns are of `job`. Read each row
/// with [`leased`].
///
/// # Errors
/// When the database cannot be written.
pub async fn lease_partitions(
    on: &impl SqlConnection,
    asked: &[PartitionLease],
    scope: PartitionScope<'_>,
    extension: &Extension<'_>,
) -> Result<Vec<Row>, Error> {
    partitions(on, asked, scope, &extension.apply(sql!(postgres / jobs::lease_from_partitions))).await
}

/// The jobs that [`lease_partitions`] would lease.
///
/// # Errors
/// When the database cannot be read.
pub async fn due_in_partitions(
    on: &impl SqlConnection,
    asked: &[PartitionLease],
    scope: PartitionScope<'_>,
    extension: &Extension<'_>,
) -> Result<Vec<i64>, Error> {
    let select = extension.apply(sql!(postgres / jobs::due_in_partitions));
    ids(&partitions(on, asked, scope, &select).await?)
}

async fn partitions(
    on: &impl SqlConnection,
    asked: &[PartitionLease],
    scope: PartitionScope<'_>,
    sql: &str,
) -> Result<Vec<Row>, Error> {
    let partition: Vec<i64> = asked.iter().map(|asked| asked.partition).collect();
    let most: Vec<i64> = asked.iter().map(|asked| limit(asked.most)).collect();
    let lease: Vec<i64> = asked.iter().map(|asked| millis(asked.lease)).collect();
    let version: Vec<SystemTime> = asked.iter().map(|asked| time(asked.version)).collect();
    let PartitionScope { area, holder, only } = scope;
    on.run(sql, &[&partition, &most, &lease, &only, &area, &holder, &version]).await
}

/// A leased job of a partition.
///
/// # Errors
/// When the row cannot be read.
pub fn leased(row: &Row) -> Result<PartitionJob, Error> {
    Ok(PartitionJob {
        id: get(row, "id")?,
        item: get(row, "delivery_id")?,
        partition: get(row, "lane")?,
        lease: lease(row)?,
    })
}

/// Settles reports about jobs of items, each in the order asked. The extension sees what was accepted as `settled (id,
/// delivery_id, status, error)` and numbers its own values from `$8`; `values` gives those for the reports at these places.
///
/// # Errors
/// When the database rejects one, or cannot be written. Nothing of the rest was written then.
pub async fn settle_items<'v>(
    on: &impl SqlConnection,
    settlements: &[Settlement],
    extension: &Extension<'_>,
    values: impl Fn(&[usize]) -> Vec<Box<dyn ToSql + Sync + Send + 'v>> + Send + Sync,
) -> Result<Vec<Option<SettledJob>>, Error> {
    let condition = " and delivery_id is not null";
    settle(on, settlements, &Extension { condition, ..*extension }, values).await
}

/// The same for jobs that the extension's condition selects. One statement takes one report of each job, so a job's second
/// report waits for the next statement.
pub(crate) async fn settle<'v>(
    on: &impl SqlConnection,
    settlements: &[Settlement],
    extension: &Extension<'_>,
    values: impl Fn(&[usize]) -> Vec<Box<dyn ToSql + Sync + Send + 'v>> + Send + Sync,
) -> Result<Vec<Option<SettledJob>>, Error> {
    let sql = extension.apply(sql!(postgres / jobs::settle));
    let mut settled: Vec<Option<SettledJob>> = vec![None; settlements.len()];
    let mut open: Vec<usize> = (0..settlements.len()).collect();
    while !open.is_empty() {
        let mut jobs = HashSet::new();
        let (wave, later) = open.into_iter().partition::<Vec<_>, _>(|at| jobs.insert(settlements[*at].id));
        open = later;
        let mut reports = Reports::default();
        for at in &wave {
            reports.add(&settlements[*at]);
        }
        let more = values(&wave);
        let mut all = reports.values().to_vec();
        all.extend(more.iter().map(|value| &**value as &(dyn ToSql + Sync)));
        let rows = on.run(&sql, &all).await?;
        let found: HashMap<i64, SettledJob> =
            rows.iter().map(|row| Ok((get(row, "id")?, settled_job(row)?))).collect::<Result<_, Error>>()?;
        for at in wave {
            settled[at] = found.get(&settlements[at].id).cloned();
        }
    }
    Ok(settled)
}

#[derive(Default)]
struct Reports {
    id: Vec<i64>,
    token: Vec<i64>,
    status: Vec<&'static str>,
    retry_us: Vec<Option<i64>>,
    lease_ms: Vec<Option<i64>>,
    error: Vec<Option<String>>,
    retry_after_ms: Vec<Option<i64>>,
}

impl Reports {
    fn add(&mut self, settlement: &Settlement) {
        let (status, retry, lease, error) = match &settlement.outcome {
            JobOutcome::Completed => (Status::Completed, None, None, None),
            JobOutcome::Renewed { lease } => (Status::Leased, None, Some(millis(*lease)), None),
            JobOutcome::Returned => (Status::Pending, None, Some(0), None),
            JobOutcome::Failed { error, retry_after: Some(wait) } => {
                (Status::Pending, Some(micros(*wait)), None, Some(readable(error)))
            }
            JobOutcome::Failed { error, retry_after: None } => {
                (Status::Failed, None, None, Some(readable(error)))
            }
        };
        self.id.push(settlement.id);
        self.token.push(settlement.token);
        self.status.push(super::status_word(status));
        self.retry_us.push(retry);
        self.lease_ms.push(lease);
        self.error.push(error);
        self.retry_after_ms.push(match settlement.result {
            JobResult::RetryAfter(wait) => Some(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            JobResult::None | JobResult::Message { .. } => None,
        });
    }

    fn values(&self) -> [&(dyn ToSql + Sync); 7] {
        let Self { id, token, status, retry_us, lease_ms, error, retry_after_ms } = self;
        [id, token, status, retry_us, lease_ms, error, retry_after_ms]
    }
}

fn settled_job(row: &Row) -> Result<SettledJob, Error> {
    let until: Option<SystemTime> = get(row, "settled_until")?;
    Ok(SettledJob { before: lease(row)?, last_error: get(row, "last_error")?, until: until.map(timestamp) })
}

/// The leases of these jobs of sagas or lifecycles, locked until the transaction ends.
///
/// # Errors
/// When the database cannot be read.
pub async fn lock(on: &impl SqlConnection, jobs: &[i64]) -> Result<HashMap<i64, Lease>, Error> {
    lock_those(on, jobs, " and saga_id is not null").await
}

/// The same for jobs of items.
///
/// # Errors
/// When the database cannot be read.
pub async fn lock_items(on: &impl SqlConnection, jobs: &[i64]) -> Result<HashMap<i64, Lease>, Error> {
    lock_those(on, jobs, " and delivery_id is not null").await
}

async fn lock_those(
    on: &impl SqlConnection,
    jobs: &[i64],
    condition: &str,
) -> Result<HashMap<i64, Lease>, Error> {
    if jobs.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = Extension { condition, ..Extension::default() }.apply(sql!(postgres / jobs::lock));
    let rows = on.run(&sql, &[&jobs]).await?;
    rows.iter().map(|row| Ok((get(row, "id")?, lease(row)?))).collect()
}

/// Writes leases of jobs that the transaction has locked, each with the error of its end if it has one.
///
/// # Errors
/// When the database rejects one, or cannot be written.
pub async fn write(on: &impl SqlConnection, jobs: &[(i64, Lease, Option<String>)]) -> Result<(), Error> {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    for (id, lease, error) in jobs {
        let values: [&(dyn ToSql + Sync); 7] = [
            id,
            &super::status_word(lease.status),
            &lease.token,
            &time(lease.until),
            &count(lease.attempts),
            &count(lease.expiries),
            error,
        ];
        on.run(sql!(postgres / jobs::write), &values).await?;
    }
    Ok(())
}

/// Returns jobs of items to their queues whose lease has expired, or fails them with the last. The extension sees them as
/// `returned (id, delivery_id, status, last_error)`, numbers its own values from `$7`, and may leave out jobs by its condition.
/// Returns what each became.
///
/// # Errors
/// When the database rejects one, or cannot be written.
pub async fn expire_items(
    on: &impl SqlConnection,
    scope: ExpiryScope<'_>,
    extension: &Extension<'_>,
    values: &Values<'_>,
) -> Result<Vec<Status>, Error> {
    let rows = expire(on, scope, extension, values).await?;
    rows.iter().map(|row| status(row, get(row, "id")?)).collect()
}

/// The same for jobs that the extension's condition selects.
pub(crate) async fn expire(
    on: &impl SqlConnection,
    scope: ExpiryScope<'_>,
    extension: &Extension<'_>,
    values: &Values<'_>,
) -> Result<Vec<Row>, Error> {
    let ExpiryScope { queues, limit: rows, area, only } = scope;
    let (rows, last) = (limit(rows), i32::try_from(MAX_EXPIRIES).unwrap_or(i32::MAX));
    let values = joined(&[&queues, &rows, &only, &area, &last, &LEASE_EXPIRED], values);
    on.run(&extension.apply(sql!(postgres / jobs::expire)), &values).await
}

/// The jobs that [`expire_items`] would return to their queues.
///
/// # Errors
/// When the database cannot be read.
pub async fn expired(
    on: &impl SqlConnection,
    scope: ExpiryScope<'_>,
    extension: &Extension<'_>,
) -> Result<Vec<i64>, Error> {
    let ExpiryScope { queues, limit: rows, area, only } = scope;
    let sql = extension.apply(sql!(postgres / jobs::expired));
    ids(&on.run(&sql, &[&queues, &limit(rows), &only, &area]).await?)
}

/// Ends every active job of these owners.
///
/// # Errors
/// When the database cannot be written.
pub async fn withdraw_all(on: &impl SqlConnection, owners: &[SagaId], reason: &str) -> Result<(), Error> {
    if owners.is_empty() {
        return Ok(());
    }
    withdraw_owned(on, owners, None, true, reason, &Extension::default(), &[]).await.map(drop)
}

/// Ends active jobs of these owners. The extension numbers its own values from `$5`.
pub(crate) async fn withdraw_owned(
    on: &impl SqlConnection,
    owners: &[SagaId],
    subject: Option<&str>,
    leased_too: bool,
    reason: &str,
    extension: &Extension<'_>,
    values: &Values<'_>,
) -> Result<Vec<i64>, Error> {
    let owners: Vec<_> = owners.iter().map(|owner| owner.0).collect();
    let values = joined(&[&owners, &subject, &leased_too, &reason], values);
    ids(&on.run(&extension.apply(sql!(postgres / jobs::withdraw_owned)), &values).await?)
}

/// Ends jobs of a partition that no worker has leased. The extension sees them as `withdrawn`, numbers its own values from `$6`,
/// and its condition is on the jobs.
///
/// # Errors
/// When the database rejects one, or cannot be written.
pub async fn withdraw_waiting(
    on: &impl SqlConnection,
    scope: WaitingScope<'_>,
    reason: &str,
    extension: &Extension<'_>,
    values: &Values<'_>,
) -> Result<Vec<i64>, Error> {
    let WaitingScope { partition, limit: rows, area, only } = scope;
    let rows = limit(rows);
    let values = joined(&[&partition, &rows, &only, &area, &reason], values);
    ids(&on.run(&extension.apply(sql!(postgres / jobs::withdraw_waiting)), &values).await?)
}

/// The jobs that [`withdraw_waiting`] would end, but for its extension's condition.
///
/// # Errors
/// When the database cannot be read.
pub async fn waiting(on: &impl SqlConnection, scope: WaitingScope<'_>) -> Result<Vec<i64>, Error> {
    let WaitingScope { partition, limit: rows, area, only } = scope;
    let sql = Extension::default().apply(sql!(postgres / jobs::waiting_in_partition));
    ids(&on.run(&sql, &[&partition, &limit(rows), &only, &area, &""]).await?)
}

/// Consumes the results of these jobs.
///
/// # Errors
/// When the database cannot be written.
pub async fn consume_results(on: &impl SqlConnection, jobs: &[i64]) -> Result<(), Error> {
    on.run(sql!(postgres / jobs::consume_results), &[&jobs]).await.map(drop)
}

/// Removes these jobs of items, which have all ended. Returns how many there were.
///
/// # Errors
/// When the database refuses, or cannot be written.
pub async fn remove_items(on: &impl SqlConnection, jobs: &[i64]) -> Result<usize, Error> {
    Ok(on.run(sql!(postgres / jobs::remove_items), &[&jobs]).await?.len())
}

/// Removes the jobs of these owners that have ended. Returns how many there were.
///
/// # Errors
/// When the database refuses, or cannot be written.
pub async fn remove_owned(on: &impl SqlConnection, owners: &[SagaId]) -> Result<usize, Error> {
    let owners: Vec<_> = owners.iter().map(|owner| owner.0).collect();
    Ok(on.run(sql!(postgres / jobs::remove_owned), &[&owners]).await?.len())
}

/// Leases due jobs of queues.
pub(crate) async fn lease_queues(
    on: &impl SqlConnection,
    queues: &[&str],
    lease: Duration,
    rows: usize,
    area: &str,
    only: Option<&[i64]>,
    extension: &Extension<'_>,
) -> Result<Vec<Row>, Error> {
    let sql = extension.apply(sql!(postgres / jobs::lease_from_queues));
    on.run(&sql, &[&queues, &millis(lease), &limit(rows), &only, &area]).await
}

/// The jobs that [`lease_queues`] would lease.
pub(crate) async fn due_in_queues(
    on: &impl SqlConnection,
    queues: &[&str],
    rows: usize,
    area: &str,
) -> Result<Vec<i64>, Error> {
    let only: Option<&[i64]> = None;
    let sql = sql!(postgres / jobs::due_in_queues);
    ids(&on.run(sql, &[&queues, &0_i64, &limit(rows), &only, &area]).await?)
}

/// A job of a saga or lifecycle.
pub(crate) fn job(row: &Row) -> Result<Job, Error> {
    let id: i64 = get(row, "id")?;
    let payload = Payload::parse(get::<&str>(row, "payload")?);
    Ok(Job {
        id,
        saga: SagaId(get(row, "saga_id")?),
        queue: get(row, "queue")?,
        subject: get(row, "subject")?,
        payload: payload.map_err(|why| corrupt("payload", id, why.to_string()))?,
        lease: lease(row)?,
        last_error: get(row, "last_error")?,
    })
}

fn lease(row: &Row) -> Result<Lease, Error> {
    Ok(Lease {
        status: status(row, get(row, "id")?)?,
        token: get(row, "token")?,
        until: get_time(row, "until")?,
        attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
        expiries: get::<i32>(row, "expiries")?.unsigned_abs(),
    })
}

fn status(row: &Row, id: i64) -> Result<Status, Error> {
    let word = get(row, "status")?;
    parse_status(word).ok_or_else(|| corrupt("status", id, format!("`{word}` is no status")))
}

fn corrupt(column: &'static str, job: i64, why: String) -> Error {
    let id = format!("job {job}");
    Corrupt { table: "jobs", column, id, why }.into()
}

/// The queues whose names the database can hold: the others have no jobs.
pub(crate) fn storable(queues: &[String]) -> Vec<&str> {
    queues.iter().map(String::as_str).filter(|queue| is_text(queue)).collect()
}
