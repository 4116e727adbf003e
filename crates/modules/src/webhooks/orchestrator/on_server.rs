//! Decisions on a server: several nodes decide at once, each about deliveries that it has locked, by the server's clock.

use std::time::SystemTime;

use backstitch::kernel::delivery::{Delivery, Status};
use backstitch::store::postgres::{Acting, Unit, time, timestamp};
use backstitch::{Timestamp, store};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{BATCH, Limits, Picked, Progress, Read, Reported, millis};
use crate::question::column_unreadable;
use crate::webhooks::jobs::QUEUE;
use crate::webhooks::status::{delivery_status, delivery_word};
use crate::webhooks::subscription::RetryDefaults;

/// Takes in what came of attempts, while others may be begun: these are never the same deliveries.
pub(super) async fn take_in(
    server: &Acting,
    picked: &Picked,
    defaults: RetryDefaults,
) -> Result<Progress, store::Error> {
    let mut progress = Progress::default();
    let unit = server.begin().await?;
    apply_results(&unit, picked, defaults, &mut progress).await?;
    unit.commit().await?;
    Ok(progress)
}

/// Begins attempts that are due.
pub(super) async fn begin(
    server: &Acting,
    picked: &Picked,
    defaults: RetryDefaults,
) -> Result<Progress, store::Error> {
    let mut progress = Progress::default();
    let unit = server.begin().await?;
    begin_attempts(&unit, picked, defaults, &mut progress).await?;
    unit.commit().await?;
    Ok(progress)
}

/// The jobs whose results are taken in next.
pub(super) async fn waiting_results(server: &Acting) -> Result<Vec<i64>, store::Error> {
    let rows = server.query(include_str!("../postgres/results.sql"), &[&i64::from(BATCH)]).await?;
    rows.iter().map(|row| row.try_get("job_id").map_err(|why| column_unreadable(&why))).collect()
}

/// The deliveries whose attempts are begun next.
pub(super) async fn due_deliveries(server: &Acting) -> Result<Vec<i64>, store::Error> {
    let mut ids = Vec::new();
    for status in [Status::Pending, Status::PendingRetry] {
        let values: [&(dyn ToSql + Sync); 2] = [&delivery_word(status), &i64::from(BATCH)];
        for row in server.query(include_str!("../postgres/due.sql"), &values).await? {
            ids.push(row.try_get("id").map_err(|why| column_unreadable(&why))?);
        }
    }
    Ok(ids)
}

async fn apply_results(
    unit: &Unit,
    picked: &Picked,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> Result<(), store::Error> {
    let rows = unit.query(include_str!("../postgres/results.sql"), &[&i64::from(BATCH)]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    progress.more |= rows.len() == BATCH as usize;
    let mut changes = Changes::default();
    let mut consumed = Vec::with_capacity(rows.len());
    for row in &rows {
        let (reported, delivery, now) = result(row, defaults).map_err(|why| column_unreadable(&why))?;
        let job = reported.job;
        if !picked.has(job) {
            continue;
        }
        consumed.push(job);
        if let Some(next) = delivery.after(reported, now) {
            changes.add(&delivery, job, next);
        }
    }
    let Changes { id, job, status, attempt_count, next_attempt_at, final_error_code } = &changes;
    let values: [&(dyn ToSql + Sync); 7] =
        [id, job, status, attempt_count, next_attempt_at, final_error_code, &consumed];
    let applied = unit.query(include_str!("../postgres/apply_results.sql"), &values).await?;
    progress.applied += applied.len();
    progress.ignored += consumed.len() - applied.len();
    count(&applied, progress)
}

/// What deliveries have become.
fn count(moved: &[Row], progress: &mut Progress) -> Result<(), store::Error> {
    for row in moved {
        let status = row.try_get("status").map_err(|why| column_unreadable(&why))?;
        if let Some(status) = delivery_status(status) {
            progress.count(status);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Changes {
    id: Vec<i64>,
    job: Vec<i64>,
    status: Vec<&'static str>,
    attempt_count: Vec<i32>,
    next_attempt_at: Vec<SystemTime>,
    final_error_code: Vec<Option<String>>,
}

impl Changes {
    fn add(&mut self, read: &Read, job: i64, next: Delivery) {
        self.id.push(read.id);
        self.job.push(job);
        self.status.push(delivery_word(next.status));
        self.attempt_count.push(i32::try_from(next.attempt_count).unwrap_or(i32::MAX));
        self.next_attempt_at.push(time(next.next_attempt_at));
        self.final_error_code.push(next.final_error_code);
    }
}

async fn begin_attempts(
    unit: &Unit,
    picked: &Picked,
    defaults: RetryDefaults,
    progress: &mut Progress,
) -> Result<(), store::Error> {
    let waiting = [Status::Pending, Status::PendingRetry].map(delivery_word);
    let due_in = |was: &'static str| async move {
        unit.query(include_str!("../postgres/due.sql"), &[&was, &i64::from(BATCH)]).await
    };
    let (new, failed) = tokio::try_join!(due_in(waiting[0]), due_in(waiting[1]))?;
    if new.is_empty() && failed.is_empty() {
        return Ok(());
    }
    let mut steps = Steps::default();
    for (was, rows) in waiting.into_iter().zip([&new, &failed]) {
        for row in rows {
            let (job, read, now) = due(row, defaults).map_err(|why| column_unreadable(&why))?;
            if !picked.has(read.id) {
                continue;
            }
            if let Some(next) = read.woken(job, now) {
                steps.add(&read, was, next);
            }
        }
    }
    let Steps { id, was, newest_job, status, job, lane, final_error_code } = &steps;
    let values: [&(dyn ToSql + Sync); 8] = [id, was, newest_job, status, job, lane, final_error_code, &QUEUE];
    let moved = unit.query(include_str!("../postgres/begin_attempts.sql"), &values).await?;
    // One that waits though a job of it is active would be looked at again and again.
    let is_full = [&new, &failed].iter().any(|rows| rows.len() == BATCH as usize);
    progress.more |= is_full && !moved.is_empty();
    count(&moved, progress)
}

#[derive(Default)]
struct Steps {
    id: Vec<i64>,
    was: Vec<&'static str>,
    newest_job: Vec<Option<i64>>,
    status: Vec<&'static str>,
    job: Vec<Option<i64>>,
    lane: Vec<i64>,
    final_error_code: Vec<Option<String>>,
}

impl Steps {
    fn add(&mut self, read: &Read, was: &'static str, next: Delivery) {
        self.id.push(read.id);
        self.was.push(was);
        self.newest_job.push(read.newest_job());
        self.status.push(delivery_word(next.status));
        self.job.push((next.job != 0).then_some(next.job));
        self.lane.push(read.lane);
        self.final_error_code.push(next.final_error_code);
    }
}

fn result(row: &Row, defaults: RetryDefaults) -> Result<(Reported, Read, Timestamp), tokio_postgres::Error> {
    let retry_after = row.try_get::<_, Option<i64>>("retry_after_ms")?.map(millis);
    let reported =
        Reported { job: row.try_get("job_id")?, error_code: row.try_get("error_code")?, retry_after };
    Ok((reported, read(row, defaults)?, timestamp(row.try_get("now")?)))
}

fn due(row: &Row, defaults: RetryDefaults) -> Result<(i64, Read, Timestamp), tokio_postgres::Error> {
    Ok((row.try_get("job_id")?, read(row, defaults)?, timestamp(row.try_get("now")?)))
}

fn read(row: &Row, defaults: RetryDefaults) -> Result<Read, tokio_postgres::Error> {
    let own_delay = |column| {
        let own = row.try_get::<_, Option<i64>>(column)?;
        Ok::<_, tokio_postgres::Error>(own.map(millis))
    };
    Ok(Read {
        id: row.try_get("id")?,
        lane: row.try_get("lane")?,
        delivery: Delivery {
            // The column's type leaves no other word.
            status: delivery_status(row.try_get("status")?).unwrap_or(Status::DeadLettered),
            attempt_count: row.try_get::<_, i32>("attempt_count")?.unsigned_abs(),
            next_attempt_at: timestamp(row.try_get("next_attempt_at")?),
            job: row.try_get::<_, Option<i64>>("newest_job")?.unwrap_or_default(),
            final_error_code: row.try_get("final_error_code")?,
        },
        limits: Limits {
            max_retry_limit: row
                .try_get::<_, Option<i32>>("max_retry_limit")?
                .map_or(defaults.max_retry_limit, i32::unsigned_abs),
            base_delay: own_delay("base_delay_ms")?.unwrap_or(defaults.base_delay),
            max_delay: own_delay("max_delay_ms")?.unwrap_or(defaults.max_delay),
            is_deleted: row.try_get("is_deleted")?,
        },
    })
}
