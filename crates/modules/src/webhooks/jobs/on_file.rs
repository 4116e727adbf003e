//! Jobs of deliveries in a file, in one transaction a batch.

use backstitch::Timestamp;
use backstitch::jobs::sqlite as queue;
use backstitch::jobs::{ExpiryScope, PartitionLease, PartitionScope, WaitingScope};
use backstitch::kernel::lease::Status;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{
    Answered, BATCH, Expired, JOBS, LEASE_EXPIRED, Leased, MAYBE_SENT, NEVER_SENT, QUEUE, Report,
    SUBSCRIPTION_DELETED, Sent, answered, millis,
};

/// The jobs that a lease picks.
pub(super) fn leasable(
    connection: &Connection,
    asked: &[PartitionLease],
    now: Timestamp,
) -> rusqlite::Result<Vec<i64>> {
    let mut jobs = Vec::new();
    for asked in asked {
        let scope = PartitionScope { area: JOBS, holder: None, only: None };
        jobs.extend(queue::due_in_partition(connection, asked, scope, now)?.into_iter().map(|job| job.id));
    }
    Ok(jobs)
}

/// Leases jobs: these, or all.
pub(super) fn lease(
    transaction: &Transaction<'_>,
    asked: &[PartitionLease],
    holder: Option<&str>,
    only: Option<&[i64]>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Leased>> {
    let mut is_open = transaction.prepare_cached(include_str!("../sqlite/is_open.sql"))?;
    let mut sent = transaction.prepare_cached(include_str!("../sqlite/sent.sql"))?;
    let mut leased = Vec::new();
    for asked in asked {
        if !is_open.exists([asked.partition])? {
            continue;
        }
        let scope = PartitionScope { area: JOBS, holder, only };
        for job in queue::lease_partition(transaction, asked, scope, now)? {
            let read = sent.query_row([job.item], |row| {
                Ok(Leased {
                    job: job.id,
                    token: job.lease.token,
                    until: job.lease.until,
                    lane: job.partition,
                    delivery: job.item,
                    attempt: row.get(0)?,
                    webhook_id: row.get(1)?,
                    event: row.get(2)?,
                    kind: row.get(3)?,
                    payload: row.get(4)?,
                })
            });
            leased.extend(read.optional()?);
        }
    }
    Ok(leased)
}

pub(super) fn report(
    transaction: &Transaction<'_>,
    batch: &[Report],
    now: Timestamp,
) -> rusqlite::Result<Vec<Answered>> {
    batch.iter().map(|report| report_one(transaction, report, now)).collect()
}

fn report_one(transaction: &Transaction<'_>, report: &Report, now: Timestamp) -> rusqlite::Result<Answered> {
    let Some(item) = queue::settle_item(transaction, &report.settlement(), now)? else {
        return Ok(Answered::Unknown);
    };
    if let Err(refused) = answered(Some(item.settled), report.token) {
        return Ok(refused);
    }
    record(transaction, item.item, report, now)?;
    Ok(Answered::Now)
}

/// The jobs that [`expire`] picks.
pub(super) fn expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<i64>> {
    let expired = queue::expired(connection, expiry(None), IS_UNREPORTED, now)?;
    Ok(expired.into_iter().map(|job| job.id).collect())
}

/// A job stays leased whose report waits to be written.
const IS_UNREPORTED: &str = "and not exists (select 1 from webhook_rejected_reports where job_id = job.id)";

const fn expiry(only: Option<&[i64]>) -> ExpiryScope<'_> {
    ExpiryScope { queues: &[QUEUE], limit: BATCH as usize, area: JOBS, only }
}

/// Returns jobs to the queue whose lease has expired: these, or all.
pub(super) fn expire(
    transaction: &Transaction<'_>,
    only: Option<&[i64]>,
    now: Timestamp,
) -> rusqlite::Result<Expired> {
    let mut expired = Expired::default();
    for job in queue::expire_items(transaction, expiry(only), IS_UNREPORTED, now)? {
        if job.lease.status == Status::Failed {
            record(transaction, job.item, &failure(job.id, LEASE_EXPIRED), now)?;
            expired.failed += 1;
        } else {
            expired.put_back += 1;
        }
    }
    Ok(expired)
}

const fn waiting_in(partition: i64, only: Option<&[i64]>) -> WaitingScope<'_> {
    WaitingScope { partition, limit: BATCH as usize, area: JOBS, only }
}

/// The jobs that [`close_lane`] picks.
pub(super) fn waiting(connection: &Connection, lane: i64, now: Timestamp) -> rusqlite::Result<Vec<i64>> {
    let waiting = queue::waiting(connection, waiting_in(lane, None), now)?;
    Ok(waiting.into_iter().map(|job| job.id).collect())
}

pub(super) fn close_lane(
    transaction: &Transaction<'_>,
    lane: i64,
    only: Option<&[i64]>,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    if !transaction.prepare_cached(include_str!("../sqlite/is_deleted.sql"))?.exists([lane])? {
        return Ok(0);
    }
    let withdrawn = queue::withdraw_waiting(transaction, waiting_in(lane, only), SUBSCRIPTION_DELETED, now)?;
    for job in &withdrawn {
        let error = if job.lease.expiries == 0 { NEVER_SENT } else { MAYBE_SENT };
        let report = Report { error: Some(error.to_owned()), ..failure(job.id, SUBSCRIPTION_DELETED) };
        record(transaction, job.item, &report, now)?;
    }
    Ok(withdrawn.len())
}

fn failure(job: i64, code: &str) -> Report {
    Report { job, error_code: Some(code.to_owned()), ..Report::default() }
}

/// Records the attempt that a job was.
fn record(
    transaction: &Transaction<'_>,
    delivery: i64,
    report: &Report,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let status = if report.error_code.is_none() { "Completed" } else { "Failed" };
    transaction.prepare_cached(include_str!("../sqlite/record_attempt.sql"))?.execute(params![
        delivery,
        report.job,
        status,
        report.response_code,
        report.body,
        report.duration.map(millis),
        report.error_code,
        report.error,
        report.started_at.map(Timestamp::as_micros),
        now.as_micros(),
        report.sent.as_ref().map(|sent| &*sent.url),
        report.sent.as_ref().map(Sent::headers)
    ])?;
    Ok(())
}
