//! Decisions in a file: one transaction at a time, so nobody else decides meanwhile.

use backstitch::Timestamp;
use backstitch::kernel::delivery::{Delivery, Status};
use rusqlite::{Row, Transaction, params};

use super::{BATCH, Limits, Progress, Read, Reported, millis};
use crate::webhooks::jobs::QUEUE;
use crate::webhooks::status::{delivery_status, delivery_word};
use crate::webhooks::subscription::RetryDefaults;

pub(super) fn tick(
    transaction: &Transaction<'_>,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Progress> {
    let mut progress = Progress::default();
    apply_results(transaction, now, defaults, &mut progress)?;
    for status in [Status::Pending, Status::PendingRetry] {
        begin_attempts(transaction, status, now, defaults, &mut progress)?;
    }
    Ok(progress)
}

fn apply_results(
    transaction: &Transaction<'_>,
    now: Timestamp,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    let results = {
        let mut statement = transaction.prepare_cached(include_str!("../sqlite/results.sql"))?;
        let rows = statement.query_map([i64::from(BATCH)], |row| {
            let retry_after = row.get::<_, Option<i64>>(2)?.map(millis);
            Ok((Reported { job: row.get(0)?, error_code: row.get(1)?, retry_after }, read(row, 3, defaults)?))
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()?
    };
    progress.more |= results.len() == BATCH as usize;
    let mut apply = transaction.prepare_cached(include_str!("../sqlite/apply_result.sql"))?;
    let mut consume = transaction.prepare_cached(include_str!("../sqlite/consume.sql"))?;
    for (reported, delivery) in results {
        let job = reported.job;
        let mut applied = 0;
        if let Some(next) = delivery.after(reported, now) {
            let Delivery { status, attempt_count, next_attempt_at, final_error_code, .. } = next;
            applied = apply.execute(params![
                delivery.id,
                job,
                delivery_word(status),
                attempt_count,
                next_attempt_at.as_micros(),
                final_error_code,
                now.as_micros()
            ])?;
            if applied > 0 {
                progress.count(status);
            }
        }
        progress.applied += applied;
        progress.ignored += 1 - applied;
        consume.execute([job])?;
    }
    Ok(())
}

fn begin_attempts(
    transaction: &Transaction<'_>,
    status: Status,
    now: Timestamp,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    let due = {
        let mut statement = transaction.prepare_cached(include_str!("../sqlite/due.sql"))?;
        let values = params![delivery_word(status), now.as_micros(), i64::from(BATCH)];
        let rows = statement.query_map(values, |row| read(row, 0, defaults))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()?
    };
    if due.is_empty() {
        return Ok(());
    }
    let mut job: i64 = transaction
        .prepare_cached(include_str!("../sqlite/newest_job.sql"))?
        .query_row([], |row| row.get(0))?;
    let mut begin = transaction.prepare_cached(include_str!("../sqlite/begin_attempt.sql"))?;
    let mut insert = transaction.prepare_cached(include_str!("../sqlite/insert_job.sql"))?;
    let mut moved = 0;
    for read in &due {
        let Some(next) = read.woken(job + 1, now) else { continue };
        let changed = begin.execute(params![
            read.id,
            delivery_word(status),
            read.newest_job(),
            delivery_word(next.status),
            (next.job != 0).then_some(next.job),
            next.final_error_code,
            now.as_micros()
        ])?;
        moved += changed;
        if changed == 0 {
            tracing::error!(delivery = read.id, "it waits though a job of it is active");
            continue;
        }
        progress.count(next.status);
        if next.status == Status::InProgress {
            job += 1;
            insert.execute(params![job, read.id, read.lane, QUEUE, now.as_micros()])?;
        }
    }
    progress.more |= due.len() == BATCH as usize && moved > 0;
    Ok(())
}

/// A delivery and its limits, from this column on.
fn read(row: &Row<'_>, first: usize, defaults: RetryDefaults) -> rusqlite::Result<Read> {
    let word: String = row.get(first + 2)?;
    Ok(Read {
        id: row.get(first)?,
        lane: row.get(first + 1)?,
        delivery: Delivery {
            // The table's check leaves no other word.
            status: delivery_status(&word).unwrap_or(Status::DeadLettered),
            attempt_count: row.get(first + 3)?,
            next_attempt_at: Timestamp::from_micros(row.get(first + 4)?),
            job: row.get::<_, Option<i64>>(first + 5)?.unwrap_or_default(),
            final_error_code: row.get(first + 6)?,
        },
        limits: Limits {
            max_retry_limit: row.get::<_, Option<u32>>(first + 7)?.unwrap_or(defaults.max_retry_limit),
            base_delay: row.get::<_, Option<i64>>(first + 8)?.map_or(defaults.base_delay, millis),
            max_delay: row.get::<_, Option<i64>>(first + 9)?.map_or(defaults.max_delay, millis),
            is_deleted: row.get(first + 10)?,
        },
    })
}
