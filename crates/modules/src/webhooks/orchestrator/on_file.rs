//! Decisions in a file: one transaction at a time, so nobody else decides meanwhile.

use backstitch::Timestamp;
use backstitch::jobs::{self, Extension};
use backstitch::kernel::delivery::{Delivery, Status};
use rusqlite::{Connection, Row, Transaction, params};

use super::{BATCH, Limits, Picked, Progress, Read, Reported, millis};
use crate::webhooks::jobs::QUEUE;
use crate::webhooks::parked::RESULTS;
use crate::webhooks::status::{delivery_status, delivery_word};
use crate::webhooks::subscription::RetryDefaults;

/// The delivery of a result.
const DELIVERY: Extension<'_> = Extension {
    condition: "",
    then: "",
    columns: ", s.id, s.subscription_id, s.status, s.attempt_count, s.next_attempt_at, s.job_id, s.final_error_code, \
              p.max_retry_limit, p.base_delay_ms, p.max_delay_ms, p.deleted_at is not null",
    joins: "cross join webhook_delivery_sagas as s on s.id = result.delivery_id \
            cross join webhook_subscriptions as p on p.id = s.subscription_id",
};
const WAITING: [Status; 2] = [Status::Pending, Status::PendingRetry];

/// Takes in those of these results, and begins attempts of those of these deliveries that are due.
pub(super) fn tick(
    transaction: &Transaction<'_>,
    results: &Picked,
    deliveries: &Picked,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Progress> {
    let mut progress = Progress::default();
    if !matches!(results, Picked::None) {
        apply_results(transaction, results, now, defaults, &mut progress)?;
    }
    if !matches!(deliveries, Picked::None) {
        for status in WAITING {
            begin_attempts(transaction, status, deliveries, now, defaults, &mut progress)?;
        }
    }
    Ok(progress)
}

/// The jobs whose results the next tick takes in.
pub(super) fn waiting_results(
    connection: &Connection,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Vec<i64>> {
    Ok(results(connection, now, defaults)?.into_iter().map(|(reported, _)| reported.job).collect())
}

/// The deliveries whose attempts the next tick begins.
pub(super) fn due_deliveries(
    connection: &Connection,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Vec<i64>> {
    let mut ids = Vec::new();
    for status in WAITING {
        ids.extend(due(connection, status, now, defaults)?.into_iter().map(|read| read.id));
    }
    Ok(ids)
}

fn results(
    connection: &Connection,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Vec<(Reported, Read)>> {
    let mut statement = connection.prepare_cached(&DELIVERY.apply(jobs::RESULTS.sqlite))?;
    let rows = statement.query_map(params![i64::from(BATCH), RESULTS, now.as_micros()], |row| {
        let retry_after = row.get::<_, Option<i64>>(2)?.map(millis);
        Ok((Reported { job: row.get(0)?, error_code: row.get(1)?, retry_after }, read(row, 3, defaults)?))
    })?;
    rows.collect()
}

fn due(
    connection: &Connection,
    status: Status,
    now: Timestamp,
    defaults: RetryDefaults,
) -> rusqlite::Result<Vec<Read>> {
    let mut statement = connection.prepare_cached(include_str!("../sqlite/due.sql"))?;
    let values = params![delivery_word(status), now.as_micros(), i64::from(BATCH)];
    statement.query_map(values, |row| read(row, 0, defaults))?.collect()
}

fn apply_results(
    transaction: &Transaction<'_>,
    picked: &Picked,
    now: Timestamp,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    let mut results = results(transaction, now, defaults)?;
    progress.more |= results.len() == BATCH as usize;
    results.retain(|(reported, _)| picked.has(reported.job));
    let mut apply = transaction.prepare_cached(include_str!("../sqlite/apply_result.sql"))?;
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
        jobs::sqlite::consume_result(transaction, job)?;
    }
    Ok(())
}

fn begin_attempts(
    transaction: &Transaction<'_>,
    status: Status,
    picked: &Picked,
    now: Timestamp,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> rusqlite::Result<()> {
    let mut due = due(transaction, status, now, defaults)?;
    let is_full = due.len() == BATCH as usize;
    due.retain(|read| picked.has(read.id));
    if due.is_empty() {
        return Ok(());
    }
    let mut job = jobs::sqlite::newest_id(transaction)?;
    let mut begin = transaction.prepare_cached(include_str!("../sqlite/begin_attempt.sql"))?;
    let mut new = Vec::with_capacity(due.len());
    let mut moved = 0;
    for read in &due {
        let Some(next) = read.woken(job + 1, now) else { continue };
        if jobs::sqlite::has_active_job(transaction, read.id)? {
            tracing::error!(delivery = read.id, "waiting delivery has an active job; not attempted");
            continue;
        }
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
            continue;
        }
        progress.count(next.status);
        if next.status == Status::InProgress {
            job += 1;
            new.push((job, read.id, read.lane));
        }
    }
    jobs::sqlite::enqueue_items(transaction, QUEUE, &new, now)?;
    progress.more |= is_full && moved > 0;
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
