//! Jobs on a server, by its own clock: one statement a batch.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use backstitch::kernel::lease::{Lease, MAX_EXPIRIES};
use backstitch::store::postgres::{Acting, time, timestamp};
use backstitch::{Timestamp, store};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{
    Answered, Ask, BATCH, Expired, Found, Keep, LEASE_EXPIRED, Leased, MAYBE_SENT, NEVER_SENT, QUEUE, Report,
    SUBSCRIPTION_DELETED, Sent, millis,
};
use crate::job_words::{job_status, job_word};
use crate::question::column_unreadable;

/// The jobs that a lease picks.
pub(super) async fn leasable(server: &Acting, asks: &[Ask]) -> Result<Vec<i64>, store::Error> {
    let (lanes, most) = lanes_and_most(asks);
    let rows = server.query(include_str!("../postgres/due_in_lanes.sql"), &[&lanes, &most]).await?;
    rows.iter().map(|row| row.try_get("id").map_err(|why| column_unreadable(&why))).collect()
}

fn lanes_and_most(asks: &[Ask]) -> (Vec<i64>, Vec<i64>) {
    asks.iter().map(|ask| (ask.lane, i64::try_from(ask.most).unwrap_or(i64::MAX))).unzip()
}

/// Leases jobs: these, or all.
pub(super) async fn lease(
    server: &Acting,
    asks: &[Ask],
    handed_out_by: Option<&str>,
    only: Option<&[i64]>,
) -> Result<Vec<Leased>, store::Error> {
    let (lanes, most) = lanes_and_most(asks);
    let millis: Vec<i64> = asks.iter().map(|ask| millis(ask.lease)).collect();
    let as_of: Vec<SystemTime> = asks.iter().map(|ask| time(ask.as_of)).collect();
    let values: [&(dyn ToSql + Sync); 6] = [&lanes, &most, &millis, &as_of, &handed_out_by, &only];
    let rows = server.query(include_str!("../postgres/lease.sql"), &values).await?;
    let leased = |row: &Row| {
        Ok(Leased {
            job: row.try_get("id")?,
            token: row.try_get("token")?,
            until: timestamp(row.try_get("until")?),
            lane: row.try_get("lane")?,
            delivery: row.try_get("delivery_id")?,
            attempt: row.try_get::<_, i32>("attempt")?.unsigned_abs(),
            webhook_id: row.try_get("webhook_id")?,
            event: row.try_get("event_id")?,
            kind: row.try_get("type")?,
            payload: row.try_get("payload")?,
        })
    };
    rows.iter()
        .map(leased)
        .collect::<Result<_, _>>()
        .map_err(|why: tokio_postgres::Error| column_unreadable(&why))
}

/// In the order asked. One statement takes one report of each job, so a job's second report waits for the next.
pub(super) async fn report(server: &Acting, batch: &[Report]) -> Result<Vec<Answered>, store::Error> {
    let mut answers: Vec<Option<Answered>> = vec![None; batch.len()];
    while answers.iter().any(Option::is_none) {
        let mut jobs = HashSet::new();
        let open = (0..batch.len()).filter(|index| answers[*index].is_none());
        let wave: Vec<usize> = open.filter(|index| jobs.insert(batch[*index].job)).collect();
        let found = report_once(server, wave.iter().map(|index| &batch[*index])).await?;
        for index in wave {
            let Report { job, token, .. } = batch[index];
            answers[index] = Some(found.get(&job).map_or(Answered::Unknown, |found| found.takes(token)));
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

#[derive(Default)]
struct Columns<'a> {
    job: Vec<i64>,
    token: Vec<i64>,
    error_code: Vec<Option<&'a str>>,
    retry_after: Vec<Option<i64>>,
    response_code: Vec<Option<i32>>,
    body: Vec<Option<&'a str>>,
    error: Vec<Option<&'a str>>,
    duration: Vec<Option<i64>>,
    started_at: Vec<Option<SystemTime>>,
    url: Vec<Option<&'a str>>,
    headers: Vec<Option<String>>,
}

async fn report_once(
    server: &Acting,
    reports: impl Iterator<Item = &Report>,
) -> Result<HashMap<i64, Found>, store::Error> {
    let mut columns = Columns::default();
    for report in reports {
        columns.job.push(report.job);
        columns.token.push(report.token);
        columns.error_code.push(report.error_code.as_deref());
        columns.retry_after.push(report.retry_after.map(millis));
        columns.response_code.push(report.response_code.map(i32::from));
        columns.body.push(report.body.as_deref());
        columns.error.push(report.error.as_deref());
        columns.duration.push(report.duration.map(millis));
        columns.started_at.push(report.started_at.map(time));
        columns.url.push(report.sent.as_ref().map(|sent| &*sent.url));
        columns.headers.push(report.sent.as_ref().map(Sent::headers));
    }
    let Columns {
        job,
        token,
        error_code,
        retry_after,
        response_code,
        body,
        error,
        duration,
        started_at,
        url,
        headers,
    } = &columns;
    let values: [&(dyn ToSql + Sync); 11] =
        [job, token, error_code, retry_after, response_code, body, error, duration, started_at, url, headers];
    let rows = server.query(include_str!("../postgres/report.sql"), &values).await?;
    let found = |row: &Row| Ok((row.try_get("id")?, found(row)?));
    rows.iter()
        .map(found)
        .collect::<Result<_, _>>()
        .map_err(|why: tokio_postgres::Error| column_unreadable(&why))
}

pub(super) async fn keep(
    server: &Acting,
    job: i64,
    token: i64,
    keep: Keep,
) -> Result<Result<Timestamp, Answered>, store::Error> {
    use backstitch::kernel::lease::Status::{Leased, Pending};
    let (status, lease) = match keep {
        Keep::For(duration) => (job_word(Leased), millis(duration)),
        Keep::GiveBack => (job_word(Pending), 0),
    };
    let rows = server.query(include_str!("../postgres/keep.sql"), &[&job, &token, &status, &lease]).await?;
    let Some(row) = rows.first() else {
        return Ok(Err(Answered::Unknown));
    };
    let kept = |row: &Row| {
        let until: Option<SystemTime> = row.try_get("now_until")?;
        Ok(until.map(timestamp).ok_or(found(row)?.takes(token)))
    };
    kept(row).map_err(|why: tokio_postgres::Error| column_unreadable(&why))
}

pub(super) async fn expire(server: &Acting, only: Option<&[i64]>) -> Result<Expired, store::Error> {
    let fifth = i32::try_from(MAX_EXPIRIES).unwrap_or(i32::MAX);
    let values: [&(dyn ToSql + Sync); 5] = [&QUEUE, &i64::from(BATCH), &fifth, &LEASE_EXPIRED, &only];
    let rows = server.query(include_str!("../postgres/expire.sql"), &values).await?;
    let failed = rows.iter().filter(|row| row.get::<_, &str>(0) == "Failed").count();
    Ok(Expired { put_back: rows.len() - failed, failed })
}

pub(super) async fn close_lane(
    server: &Acting,
    lane: i64,
    only: Option<&[i64]>,
) -> Result<usize, store::Error> {
    let values: [&(dyn ToSql + Sync); 6] =
        [&lane, &i64::from(BATCH), &SUBSCRIPTION_DELETED, &NEVER_SENT, &MAYBE_SENT, &only];
    Ok(server.query(include_str!("../postgres/close_lane.sql"), &values).await?.len())
}

fn found(row: &Row) -> Result<Found, tokio_postgres::Error> {
    let lease = Lease {
        status: job_status(row.try_get("status")?),
        token: row.try_get("token")?,
        attempts: row.try_get::<_, i32>("attempts")?.unsigned_abs(),
        expiries: row.try_get::<_, i32>("expiries")?.unsigned_abs(),
        until: timestamp(row.try_get("until")?),
    };
    Ok(Found { lease, last_error: row.try_get("last_error")? })
}
