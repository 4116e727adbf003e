//! Jobs in a file. What a lease becomes is the kernel's to say; here it is read and written back.

use backstitch::Timestamp;
use backstitch::kernel::lease::{Lease, Status};
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, params};

use super::{
    Answered, Ask, BATCH, Expired, Found, Keep, LEASE_EXPIRED, Leased, MAYBE_SENT, NEVER_SENT, QUEUE, Report,
    SUBSCRIPTION_DELETED, Sent, millis,
};
use crate::job_words::{job_status, job_word};

/// A job and whose it is.
struct Job {
    id: i64,
    delivery: i64,
    found: Found,
}

/// The jobs that a lease picks.
pub(super) fn leasable(connection: &Connection, asks: &[Ask], now: Timestamp) -> rusqlite::Result<Vec<i64>> {
    let mut due = connection.prepare_cached(include_str!("../sqlite/due_in_lane.sql"))?;
    let mut jobs = Vec::new();
    for ask in asks {
        let most = i64::try_from(ask.most).unwrap_or(i64::MAX);
        let rows = due.query_map(params![ask.lane, now.as_micros(), most], |row| row.get(6))?;
        jobs.extend(rows.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    Ok(jobs)
}

/// Leases jobs: these, or all.
pub(super) fn lease(
    transaction: &Transaction<'_>,
    asks: &[Ask],
    handed_out_by: Option<&str>,
    only: Option<&[i64]>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Leased>> {
    let mut is_open = transaction.prepare_cached(include_str!("../sqlite/is_open.sql"))?;
    let mut due = transaction.prepare_cached(include_str!("../sqlite/due_in_lane.sql"))?;
    let mut take = transaction.prepare_cached(include_str!("../sqlite/lease_job.sql"))?;
    let mut leased = Vec::new();
    for &Ask { lane, most, lease: duration, as_of } in asks {
        if !is_open.exists([lane])? {
            continue;
        }
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = due.query(params![lane, now.as_micros(), most])?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            let job = read(row)?;
            if only.is_some_and(|only| !only.contains(&job.id)) {
                continue;
            }
            let Ok(lease) = job.found.lease.lease(duration, now) else { continue };
            let got = Leased {
                job: job.id,
                token: lease.token,
                until: lease.until,
                lane,
                delivery: job.delivery,
                attempt: row.get(8)?,
                webhook_id: row.get(9)?,
                event: row.get(10)?,
                kind: row.get(11)?,
                payload: row.get(12)?,
            };
            jobs.push((job.id, lease));
            leased.push(got);
        }
        // Only once they are all read: what is leased leaves the index that is being read.
        for (job, lease) in jobs {
            let (status, until) = (job_word(lease.status), lease.until.as_micros());
            let as_of = handed_out_by.map(|_| as_of.as_micros());
            take.execute(params![job, status, lease.token, until, handed_out_by, as_of])?;
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
    let Some(mut job) = load(transaction, report.job)? else {
        return Ok(Answered::Unknown);
    };
    let lease = match report.error_code {
        None => job.found.lease.complete(report.token),
        Some(_) => job.found.lease.fail(report.token, None),
    };
    let Ok(lease) = lease else {
        return Ok(job.found.takes(report.token));
    };
    job.found.lease = lease;
    job.found.last_error = report.error_code.clone().or(job.found.last_error);
    write(transaction, &job)?;
    tell(transaction, &job, report, now)?;
    Ok(Answered::Now)
}

pub(super) fn keep(
    transaction: &Transaction<'_>,
    job: i64,
    token: i64,
    keep: Keep,
    now: Timestamp,
) -> rusqlite::Result<Result<Timestamp, Answered>> {
    let Some(mut job) = load(transaction, job)? else {
        return Ok(Err(Answered::Unknown));
    };
    let lease = match keep {
        Keep::For(duration) => job.found.lease.heartbeat(token, duration, now),
        Keep::GiveBack => job.found.lease.give_back(token, now),
    };
    let Ok(lease) = lease else {
        return Ok(Err(job.found.takes(token)));
    };
    job.found.lease = lease;
    write(transaction, &job)?;
    Ok(Ok(job.found.lease.until))
}

/// Requeues jobs whose lease has expired: these, or all.
pub(super) fn expire(
    transaction: &Transaction<'_>,
    only: Option<&[i64]>,
    now: Timestamp,
) -> rusqlite::Result<Expired> {
    let mut expired = Expired::default();
    let values = params![QUEUE, now.as_micros(), i64::from(BATCH)];
    for mut job in select(transaction, include_str!("../sqlite/expired.sql"), values)? {
        if only.is_some_and(|only| !only.contains(&job.id)) {
            continue;
        }
        let Some(lease) = job.found.lease.expire(now) else { continue };
        let is_lost = lease.status == Status::Failed;
        job.found = Found { lease, last_error: Some(LEASE_EXPIRED.to_owned()) };
        write(transaction, &job)?;
        if is_lost {
            tell(transaction, &job, &failure(LEASE_EXPIRED), now)?;
            expired.failed += 1;
        } else {
            expired.put_back += 1;
        }
    }
    Ok(expired)
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
    let values = params![lane, i64::from(BATCH), now.as_micros()];
    let mut waiting = select(transaction, include_str!("../sqlite/waiting_in_lane.sql"), values)?;
    waiting.retain(|job| only.is_none_or(|only| only.contains(&job.id)));
    let count = waiting.len();
    for mut job in waiting {
        job.found.lease.status = Status::Failed;
        job.found.last_error = Some(SUBSCRIPTION_DELETED.to_owned());
        write(transaction, &job)?;
        let error = if job.found.lease.expiries == 0 { NEVER_SENT } else { MAYBE_SENT };
        let report = Report { error: Some(error.to_owned()), ..failure(SUBSCRIPTION_DELETED) };
        tell(transaction, &job, &report, now)?;
    }
    Ok(count)
}

fn failure(code: &str) -> Report {
    Report { error_code: Some(code.to_owned()), ..Report::default() }
}

/// Puts the end of a job before the orchestrator, and on record.
fn tell(transaction: &Transaction<'_>, job: &Job, report: &Report, now: Timestamp) -> rusqlite::Result<()> {
    transaction.prepare_cached(include_str!("../sqlite/tell.sql"))?.execute(params![
        job.id,
        job.delivery,
        now.as_micros(),
        report.retry_after.map(millis),
        report.error_code
    ])?;
    transaction.prepare_cached(include_str!("../sqlite/record_attempt.sql"))?.execute(params![
        job.delivery,
        job.id,
        job_word(job.found.lease.status),
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

fn load(transaction: &Transaction<'_>, job: i64) -> rusqlite::Result<Option<Job>> {
    let mut statement = transaction.prepare_cached(include_str!("../sqlite/load_job.sql"))?;
    statement.query_row([job], read).optional()
}

fn select(transaction: &Transaction<'_>, sql: &str, values: impl Params) -> rusqlite::Result<Vec<Job>> {
    transaction.prepare_cached(sql)?.query_map(values, read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Job> {
    let word: String = row.get(0)?;
    let lease = Lease {
        status: job_status(&word),
        token: row.get(1)?,
        attempts: row.get(2)?,
        expiries: row.get(3)?,
        until: Timestamp::from_micros(row.get(4)?),
    };
    Ok(Job { found: Found { lease, last_error: row.get(5)? }, id: row.get(6)?, delivery: row.get(7)? })
}

fn write(transaction: &Transaction<'_>, job: &Job) -> rusqlite::Result<usize> {
    let Found { lease, last_error } = &job.found;
    transaction.prepare_cached(include_str!("../sqlite/write_job.sql"))?.execute(params![
        job.id,
        job_word(lease.status),
        lease.token,
        lease.attempts,
        lease.expiries,
        lease.until.as_micros(),
        last_error
    ])
}
