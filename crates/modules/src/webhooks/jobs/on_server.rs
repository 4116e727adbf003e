//! Jobs of deliveries on a server, by its own clock: one statement a batch.

use std::time::SystemTime;

use backstitch::jobs::postgres as queue;
use backstitch::jobs::{
    ExpiryScope, Extension, PartitionLease, PartitionScope, SettledJob, Settlement, WaitingScope,
};
use backstitch::kernel::lease::Status;
use backstitch::store;
use backstitch::store::postgres::{Acting, time};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{
    Answered, BATCH, Expired, JOBS, Leased, MAYBE_SENT, NEVER_SENT, QUEUE, Report, SUBSCRIPTION_DELETED,
    Sent, answered, millis,
};
use crate::question::column_unreadable;

/// Only open subscriptions are leased from. A leased job comes with what is to be sent.
const LEASE: Extension<'_> = Extension {
    condition: "
        and exists (
            select
            from webhook_subscriptions as p
            where p.id = asked.partition_id and p.disabled_at is null and p.deleted_at is null
        )",
    then: "",
    columns: ", s.attempt_count + 1 as attempt, s.webhook_id, s.event_id, e.type, e.payload as sent",
    joins: "join webhook_delivery_sagas as s on s.id = job.delivery_id
            join webhook_events as e on e.id = s.event_id",
};
/// A result records the attempt.
const REPORT: &str = "
, attempt as (
    select *
    from unnest(
        $1::bigint[], $8::integer[], $9::text[], $10::text[], $11::bigint[], $12::timestamptz[], $13::text[], $14::text[]
    ) as a (id, response_code, body, error, duration_ms, started_at, url, headers)
),
attempted as (
    insert into webhook_attempts (
        saga_id, job_id, started_at, finished_at, duration_ms, number, response_code, status, error_code, error, body,
        url, headers
    )
    select
        s.id, r.id, a.started_at, clock(), a.duration_ms, s.attempt_count + 1, a.response_code, r.status, r.error,
        a.error, a.body, a.url, a.headers
    from settled as r
        join attempt as a using (id)
        join webhook_delivery_sagas as s on s.id = r.delivery_id
)";
/// A job stays leased whose report waits to be written. The last expiry records the attempt.
const EXPIRE: Extension<'_> = Extension {
    condition: "and not exists (select from webhook_rejected_reports where job_id = job.id)",
    then: "
, attempted as (
    insert into webhook_attempts (saga_id, job_id, finished_at, number, status, error_code)
    select s.id, r.id, clock(), s.attempt_count + 1, r.status, r.last_error
    from returned as r
        join webhook_delivery_sagas as s on s.id = r.delivery_id
    where r.status = 'Failed'
)",
    columns: "",
    joins: "",
};
/// Only what waits for a deleted subscription is withdrawn. This records the attempt, with what people read.
const CLOSE: Extension<'_> = Extension {
    condition: "and exists (select from webhook_subscriptions where id = $1 and deleted_at is not null)",
    then: "
, attempted as (
    insert into webhook_attempts (saga_id, job_id, finished_at, number, status, error_code, error)
    select
        s.id, w.id, clock(), s.attempt_count + 1, w.status, w.last_error,
        case when w.expiries = 0 then $6 else $7 end
    from withdrawn as w
        join webhook_delivery_sagas as s on s.id = w.delivery_id
)",
    columns: "",
    joins: "",
};

/// The jobs that a lease picks.
pub(super) async fn leasable(server: &Acting, asked: &[PartitionLease]) -> Result<Vec<i64>, store::Error> {
    queue::due_in_partitions(server, asked, PartitionScope { area: JOBS, holder: None, only: None }, &LEASE)
        .await
}

/// Leases jobs: these, or all.
pub(super) async fn lease(
    server: &Acting,
    asked: &[PartitionLease],
    holder: Option<&str>,
    only: Option<&[i64]>,
) -> Result<Vec<Leased>, store::Error> {
    let rows =
        queue::lease_partitions(server, asked, PartitionScope { area: JOBS, holder, only }, &LEASE).await?;
    rows.iter().map(leased).collect()
}

fn leased(row: &Row) -> Result<Leased, store::Error> {
    let job = queue::leased(row)?;
    let read = || {
        Ok(Leased {
            job: job.id,
            token: job.lease.token,
            until: job.lease.until,
            lane: job.partition,
            delivery: job.item,
            attempt: row.try_get::<_, i32>("attempt")?.unsigned_abs(),
            webhook_id: row.try_get("webhook_id")?,
            event: row.try_get("event_id")?,
            kind: row.try_get("type")?,
            payload: row.try_get("sent")?,
        })
    };
    read().map_err(|why: tokio_postgres::Error| column_unreadable(&why))
}

/// In the order asked.
pub(super) async fn report(server: &Acting, batch: &[Report]) -> Result<Vec<Answered>, store::Error> {
    let settlements: Vec<Settlement> = batch.iter().map(Report::settlement).collect();
    let extension = Extension { then: REPORT, ..Extension::default() };
    let settled = queue::settle_items(server, &settlements, &extension, |wave| attempts(batch, wave)).await?;
    let answers = settled.into_iter().zip(&settlements);
    Ok(answers.map(|(job, report)| answered(job, report.token).err().unwrap_or(Answered::Now)).collect())
}

/// The columns of attempts, from [`REPORT`]'s `$8`.
fn attempts<'r>(batch: &'r [Report], wave: &[usize]) -> Vec<Box<dyn ToSql + Sync + Send + 'r>> {
    fn column<'r, T>(batch: &'r [Report], wave: &[usize], of: impl Fn(&'r Report) -> T) -> Vec<T> {
        wave.iter().map(|at| of(&batch[*at])).collect()
    }
    vec![
        Box::new(column(batch, wave, |report| report.response_code.map(i32::from))),
        Box::new(column(batch, wave, |report| report.body.as_deref())),
        Box::new(column(batch, wave, |report| report.error.as_deref())),
        Box::new(column(batch, wave, |report| report.duration.map(millis))),
        Box::new(column(batch, wave, |report| report.started_at.map(time) as Option<SystemTime>)),
        Box::new(column(batch, wave, |report| report.sent.as_ref().map(|sent| &*sent.url))),
        Box::new(column(batch, wave, |report| report.sent.as_ref().map(Sent::headers))),
    ]
}

/// Renews or returns a lease.
pub(super) async fn settle(
    server: &Acting,
    settlement: Settlement,
) -> Result<Option<SettledJob>, store::Error> {
    let settled = queue::settle_items(server, &[settlement], &Extension::default(), |_| Vec::new()).await?;
    Ok(settled.into_iter().next().flatten())
}

const fn expiry(only: Option<&[i64]>) -> ExpiryScope<'_> {
    ExpiryScope { queues: &[QUEUE], limit: BATCH as usize, area: JOBS, only }
}

/// The jobs that [`expire`] picks.
pub(super) async fn expired(server: &Acting) -> Result<Vec<i64>, store::Error> {
    queue::expired(server, expiry(None), &EXPIRE).await
}

/// Returns jobs to the queue whose lease has expired: these, or all.
pub(super) async fn expire(server: &Acting, only: Option<&[i64]>) -> Result<Expired, store::Error> {
    let became = queue::expire_items(server, expiry(only), &EXPIRE, &[]).await?;
    let failed = became.iter().filter(|status| **status == Status::Failed).count();
    Ok(Expired { put_back: became.len() - failed, failed })
}

const fn waiting_in(partition: i64, only: Option<&[i64]>) -> WaitingScope<'_> {
    WaitingScope { partition, limit: BATCH as usize, area: JOBS, only }
}

/// The jobs that [`close_lane`] picks.
pub(super) async fn waiting(server: &Acting, lane: i64) -> Result<Vec<i64>, store::Error> {
    queue::waiting(server, waiting_in(lane, None)).await
}

pub(super) async fn close_lane(
    server: &Acting,
    lane: i64,
    only: Option<&[i64]>,
) -> Result<usize, store::Error> {
    let values: [&(dyn ToSql + Sync); 2] = [&NEVER_SENT, &MAYBE_SENT];
    let scope = waiting_in(lane, only);
    Ok(queue::withdraw_waiting(server, scope, SUBSCRIPTION_DELETED, &CLOSE, &values).await?.len())
}
