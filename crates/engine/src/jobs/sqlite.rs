//! The lease queue on `SQLite`, in the caller's transaction. Every change of a lease is the kernel's; here it is read and written.

use std::sync::LazyLock;

use backstitch_kernel::lease::{Lease, Refused, Status};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    ExpiryScope, JobOutcome, JobResult, LEASE_EXPIRED, NewJob, PartitionJob, PartitionLease, PartitionScope,
    SettledJob, Settlement, WITHDRAWN, WaitingScope, parse_status, status_word,
};
use crate::sql;
use crate::store::sqlite::GroupedInsert;

static INSERT_ITEMS: LazyLock<GroupedInsert> = LazyLock::new(|| {
    GroupedInsert::new("insert or fail into jobs (id, delivery_id, lane, queue, until, created_at)", 6)
});

/// Enqueues jobs of sagas or lifecycles.
///
/// # Errors
/// When the database rejects one.
pub fn enqueue(connection: &Connection, jobs: &[(SagaId, NewJob)], at: Timestamp) -> rusqlite::Result<()> {
    jobs.iter().try_for_each(|(owner, job)| enqueue_one(connection, *owner, job, at))
}

pub(crate) fn enqueue_one(
    connection: &Connection,
    owner: SagaId,
    job: &NewJob,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let values = params![
        owner.0.as_bytes(),
        job.queue,
        job.subject,
        job.payload.as_str(),
        job.due_at.as_micros(),
        at.as_micros(),
        job.alert.as_ref().map(Payload::as_str),
    ];
    connection.prepare_cached(sql!(sqlite / jobs::enqueue))?.execute(values).map(drop)
}

/// Whether an owner has an active job for a subject.
pub(crate) fn has_active_subject(
    connection: &Connection,
    owner: SagaId,
    subject: &str,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(sql!(sqlite / jobs::has_active_subject))?
        .exists(params![owner.0.as_bytes(), subject])
}

/// Withdraws an owner's job that no worker has leased; one whose lease has expired too, if `expired_too`. Returns its token.
pub(crate) fn withdraw_unleased(
    connection: &Connection,
    owner: SagaId,
    subject: &str,
    expired_too: Option<Timestamp>,
) -> rusqlite::Result<Option<i64>> {
    let values = params![owner.0.as_bytes(), subject, WITHDRAWN, expired_too.map(Timestamp::as_micros)];
    let mut withdraw = connection.prepare_cached(sql!(sqlite / jobs::withdraw_unleased))?;
    withdraw.query_row(values, |row| row.get("token")).optional()
}

/// The highest number that a job has had: those to be enqueued in this transaction follow it.
///
/// # Errors
/// When the database cannot be read.
pub fn newest_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql!(sqlite / jobs::newest_id))?.query_row([], |row| row.get("id"))
}

/// Whether an item has an active job, and so gets no other.
///
/// # Errors
/// When the database cannot be read.
pub fn has_active_job(connection: &Connection, item: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached(sql!(sqlite / jobs::has_active_item))?.exists([item])
}

/// Enqueues jobs of items: their numbers, items and partitions.
///
/// # Errors
/// When the database rejects one.
pub fn enqueue_items(
    connection: &Connection,
    queue: &str,
    jobs: &[(i64, i64, i64)],
    now: Timestamp,
) -> rusqlite::Result<()> {
    INSERT_ITEMS.insert(connection, jobs, |(id, item, partition), values| {
        values.bind(id)?;
        values.bind(item)?;
        values.bind(partition)?;
        values.bind(queue)?;
        for _ in ["until", "created_at"] {
            values.bind(now.as_micros())?;
        }
        Ok(())
    })
}

/// Leases due jobs of a partition.
///
/// # Errors
/// When the database rejects one.
pub fn lease_partition(
    connection: &Connection,
    asked: &PartitionLease,
    scope: PartitionScope<'_>,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let mut take = connection.prepare_cached(sql!(sqlite / jobs::lease))?;
    // All are read first: what is leased leaves the index that is being read.
    let mut jobs = due_in_partition(connection, asked, scope, now)?;
    jobs.retain_mut(|job| match job.lease.lease(asked.lease, now) {
        Ok(lease) => {
            job.lease = lease;
            true
        }
        Err(_) => false,
    });
    for PartitionJob { id, lease, .. } in &jobs {
        let version = scope.holder.map(|_| asked.version.as_micros());
        let (status, until) = (status_word(lease.status), lease.until.as_micros());
        take.execute(params![id, status, lease.token, until, scope.holder, version])?;
    }
    Ok(jobs)
}

/// The jobs that [`lease_partition`] would lease.
///
/// # Errors
/// When the database cannot be read.
pub fn due_in_partition(
    connection: &Connection,
    asked: &PartitionLease,
    scope: PartitionScope<'_>,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let values = params![asked.partition, now.as_micros(), count(asked.most), scope.area];
    let due = items(connection, sql!(sqlite / jobs::due_in_partition), values)?;
    Ok(chosen(due, scope.only))
}

/// Settles a report about a job of an item, and puts the end of the job into the result inbox. `None`: there is no such job.
///
/// # Errors
/// When the database rejects it.
pub fn settle_item(
    connection: &Connection,
    settlement: &Settlement,
    now: Timestamp,
) -> rusqlite::Result<Option<SettledItem>> {
    let found = items(connection, sql!(sqlite / jobs::load_item), [settlement.id])?.pop();
    let Some(StoredItem { mut job, last_error }) = found else { return Ok(None) };
    let before = job.lease.clone();
    let mut settled = SettledItem { item: job.item, settled: SettledJob { before, last_error, until: None } };
    let Ok(lease) = settle(&job.lease, settlement, now) else { return Ok(Some(settled)) };
    job.lease = lease;
    settled.settled.until = Some(job.lease.until);
    write(connection, job.id, &job.lease, error_of(settlement))?;
    if matches!(job.lease.status, Status::Completed | Status::Failed) {
        let retry_after = match settlement.result {
            JobResult::RetryAfter(wait) => Some(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            JobResult::None | JobResult::Message { .. } => None,
        };
        record(connection, &job, retry_after, error_of(settlement), now)?;
    }
    Ok(Some(settled))
}

/// A job of an item that was reported about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledItem {
    /// The item.
    pub item: i64,
    /// Its job.
    pub settled: SettledJob,
}

/// What a report makes of a lease.
pub(crate) fn settle(lease: &Lease, settlement: &Settlement, now: Timestamp) -> Result<Lease, Refused> {
    let token = settlement.token;
    match &settlement.outcome {
        JobOutcome::Completed => lease.complete(token),
        JobOutcome::Failed { retry_after, .. } => lease.fail(token, retry_after.map(|wait| now.plus(wait))),
        JobOutcome::Renewed { lease: duration } => lease.heartbeat(token, *duration, now),
        JobOutcome::Returned => lease.give_back(token, now),
    }
}

pub(crate) fn error_of(settlement: &Settlement) -> Option<&str> {
    match &settlement.outcome {
        JobOutcome::Failed { error, .. } => Some(error),
        JobOutcome::Completed | JobOutcome::Renewed { .. } | JobOutcome::Returned => None,
    }
}

/// Returns jobs of items to their queues whose lease has expired, or fails them with the last, as it is then. The caller's
/// `condition` may leave out jobs by their number.
///
/// # Errors
/// When the database rejects one.
pub fn expire_items(
    connection: &Connection,
    scope: ExpiryScope<'_>,
    condition: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let mut returned = Vec::new();
    for mut job in expired(connection, scope, condition, now)? {
        let Some(lease) = job.lease.expire(now) else { continue };
        job.lease = lease;
        write(connection, job.id, &job.lease, Some(LEASE_EXPIRED))?;
        if job.lease.status == Status::Failed {
            record(connection, &job, None, Some(LEASE_EXPIRED), now)?;
        }
        returned.push(job);
    }
    Ok(returned)
}

/// The jobs that [`expire_items`] would return to their queues.
///
/// # Errors
/// When the database cannot be read.
pub fn expired(
    connection: &Connection,
    scope: ExpiryScope<'_>,
    condition: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let sql = sql!(sqlite / jobs::expired_items).replace("/*condition*/", condition);
    let mut expired = Vec::new();
    for queue in scope.queues {
        let values = params![queue, now.as_micros(), count(scope.limit), scope.area];
        expired.extend(items(connection, &sql, values)?);
    }
    Ok(chosen(expired, scope.only))
}

/// Ends jobs of a partition that no worker has leased.
///
/// # Errors
/// When the database rejects one.
pub fn withdraw_waiting(
    connection: &Connection,
    scope: WaitingScope<'_>,
    reason: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let mut jobs = waiting(connection, scope, now)?;
    for job in &mut jobs {
        job.lease.status = Status::Failed;
        write(connection, job.id, &job.lease, Some(reason))?;
        record(connection, job, None, Some(reason), now)?;
    }
    Ok(jobs)
}

/// The jobs that [`withdraw_waiting`] would end.
///
/// # Errors
/// When the database cannot be read.
pub fn waiting(
    connection: &Connection,
    scope: WaitingScope<'_>,
    now: Timestamp,
) -> rusqlite::Result<Vec<PartitionJob>> {
    let values = params![scope.partition, count(scope.limit), now.as_micros(), scope.area];
    let waiting = items(connection, sql!(sqlite / jobs::waiting_in_partition), values)?;
    Ok(chosen(waiting, scope.only))
}

/// Ends every active job of an owner.
///
/// # Errors
/// When the database rejects it.
pub fn withdraw_all(connection: &Connection, owner: SagaId, reason: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(sql!(sqlite / jobs::withdraw_all))?
        .execute(params![owner.0.as_bytes(), reason])
        .map(drop)
}

/// The lease of a job of a saga or lifecycle.
///
/// # Errors
/// When the database cannot be read.
pub fn lease_of(connection: &Connection, job: i64) -> rusqlite::Result<Option<Lease>> {
    connection.prepare_cached(sql!(sqlite / jobs::lease_of))?.query_row([job], lease).optional()
}

/// The lease of a job of an item.
///
/// # Errors
/// When the database cannot be read.
pub fn lease_of_item(connection: &Connection, job: i64) -> rusqlite::Result<Option<Lease>> {
    let found = items(connection, sql!(sqlite / jobs::load_item), [job])?.pop();
    Ok(found.map(|found| found.job.lease))
}

/// Writes the lease of a job that the transaction has read, with the error of its end if it has one.
///
/// # Errors
/// When the database rejects it.
pub fn write(connection: &Connection, job: i64, lease: &Lease, error: Option<&str>) -> rusqlite::Result<()> {
    connection
        .prepare_cached(sql!(sqlite / jobs::write))?
        .execute(params![
            job,
            status_word(lease.status),
            lease.token,
            lease.until.as_micros(),
            lease.attempts,
            lease.expiries,
            error
        ])
        .map(drop)
}

/// Consumes the result of a job.
///
/// # Errors
/// When the database rejects it.
pub fn consume_result(connection: &Connection, job: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(sql!(sqlite / jobs::consume_results))?.execute([job]).map(drop)
}

/// Removes these jobs of items, which have all ended. Returns how many there were.
///
/// # Errors
/// When the database refuses.
pub fn remove_items(connection: &Connection, jobs: &[i64]) -> rusqlite::Result<usize> {
    let mut remove = connection.prepare_cached(sql!(sqlite / jobs::remove_items))?;
    jobs.iter().map(|job| remove.execute([job])).sum()
}

/// Removes the jobs of these owners that have ended. Returns how many there were.
///
/// # Errors
/// When the database refuses.
pub fn remove_owned(connection: &Connection, owners: &[SagaId]) -> rusqlite::Result<usize> {
    let mut remove = connection.prepare_cached(sql!(sqlite / jobs::remove_owned))?;
    owners.iter().map(|owner| remove.execute([owner.0.as_bytes()])).sum()
}

fn record(
    connection: &Connection,
    job: &PartitionJob,
    retry_after_ms: Option<i64>,
    error: Option<&str>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let values = params![job.id, job.item, now.as_micros(), retry_after_ms, error];
    connection.prepare_cached(sql!(sqlite / jobs::record_result))?.execute(values).map(drop)
}

struct StoredItem {
    job: PartitionJob,
    last_error: Option<String>,
}

fn items(connection: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<Vec<StoredItem>> {
    let read = |row: &Row<'_>| {
        let (id, item, partition) = (row.get("id")?, row.get("delivery_id")?, row.get("lane")?);
        let job = PartitionJob { id, item, partition, lease: lease(row)? };
        Ok(StoredItem { job, last_error: row.get("last_error")? })
    };
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}

fn chosen(found: Vec<StoredItem>, only: Option<&[i64]>) -> Vec<PartitionJob> {
    let jobs = found.into_iter().map(|found| found.job);
    jobs.filter(|job| only.is_none_or(|only| only.contains(&job.id))).collect()
}

fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let word: String = row.get("status")?;
    Ok(Lease {
        // The table's check leaves no other word.
        status: parse_status(&word).unwrap_or(Status::Failed),
        token: row.get("token")?,
        until: Timestamp::from_micros(row.get("until")?),
        attempts: row.get("attempts")?,
        expiries: row.get("expiries")?,
    })
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
