//! The lease queue.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::lease::{Lease, MAX_EXPIRIES, Refused, Status};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::parked::{ids, park_item};
use super::session::{Session, change, read};
use super::values::{get, get_time, is_text, limit, micros, millis, readable, time};
use super::{PostgresStore, sql};
use crate::store::isolation::isolate_picked;
use crate::store::jobs::{
    Answer, Job, LEASE_EXPIRED, Leased, Leasing, OF_PRODUCTS, OUTSIDE, Report, Settled, Settlement,
    Withdrawal, loss, unreadable,
};
use crate::store::parked::{JOBS, claimed};
use crate::store::{Corrupt, Error, JobStore};

#[async_trait]
impl JobStore for PostgresStore {
    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error> {
        change!(self.sessions.to_ask(), |session| lease_due(session, queues, lease, limit))
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        change!(self.sessions.to_ask(), |session| settle(session, settlements))
    }

    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
        change!(self.sessions.to_ask(), |session| record_answer(session, answer, at))
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| withdraw(session, withdrawal, at))
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        read!(self.sessions, |session| load(session, id))
    }
}

/// Jobs whose lease is over.
const EXPIRED: &str = "
    select id from jobs
    where
        status = 'Leased' and queue = any ($1) and until <= answers_written_until()
        and id <> all (array(select item::bigint from parked_items where area = 'jobs' and retry_at > clock()))
    limit 10000";
/// Jobs that are due: those that `due_jobs` picks.
const DUE: &str = "
    select oldest.id
    from (select distinct unnest($1::text[])) as wanted (queue)
        cross join lateral (
            select id, until
            from jobs
            where
                status = 'Pending' and lane is null and queue = wanted.queue and until <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'jobs' and retry_at > clock()))
                and (
                    not starts_with(wanted.queue, 'work/')
                    or not exists (
                        select 1
                        from sagas
                        where sagas.id = jobs.saga_id and sagas.paused
                            and sagas.status in ('pending', 'running', 'compensating')
                    )
                )
            order by until, id
            limit $2
        ) as oldest
    order by oldest.until, oldest.id
    limit $2";

async fn lease_due(
    session: &Session,
    queues: &[String],
    lease: Duration,
    rows: usize,
) -> Result<Leasing, Error> {
    // A queue whose name no column can hold has no jobs.
    let queues: Vec<&str> = queues.iter().map(String::as_str).filter(|queue| is_text(queue)).collect();
    let fifth = i32::try_from(MAX_EXPIRIES).unwrap_or(i32::MAX);
    let (queues, loss, lease, rows) = (&queues, &loss().to_string(), &millis(lease), &limit(rows));
    let park = |job: i64, reason| park_item(session, JOBS, job, reason);
    let expired = || async { ids(&session.query(EXPIRED, &[queues]).await?) };
    let told = isolate_picked(
        expired,
        |only| async move {
            let values: [&(dyn ToSql + Sync); 7] =
                [queues, &fifth, &OUTSIDE, loss, &OF_PRODUCTS, &LEASE_EXPIRED, &only];
            session.query(sql!("expired_jobs"), &values).await
        },
        park,
    );
    let told = claimed(JOBS, told.await?)?;
    let due = || async { ids(&session.query(DUE, &[queues, rows]).await?) };
    let due = isolate_picked(
        due,
        |only| async move { session.query(sql!("due_jobs"), &[queues, lease, rows, &only]).await },
        park,
    );
    let due = claimed(JOBS, due.await?)?;
    Ok(Leasing {
        leased: readable_jobs(session, &due).await?,
        told: told.iter().map(|row| get(row, "saga_id").map(SagaId)).collect::<Result<_, _>>()?,
    })
}

/// What cannot be read is given up, so that it is in nobody's way. What its product is to give up stays leased to nobody,
/// until its product finds that nobody brings it back.
async fn readable_jobs(session: &Session, rows: &[Row]) -> Result<Vec<Leased>, Error> {
    let (mut leased, mut given_up) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match job(row) {
            Ok(job) => leased.push(Leased { job }),
            Err(why) => {
                let (id, queue): (i64, &str) = (get(row, "id")?, get(row, "queue")?);
                let error = unreadable(id, queue, &why);
                if !queue.starts_with(OF_PRODUCTS) {
                    let report = Report::Failed { error, retry_after: None };
                    given_up.push(Settlement { id, token: get(row, "token")?, report });
                }
            }
        }
    }
    if let Err(error) = settle(session, &given_up).await {
        // The others are taken all the same; these are met again when their leases have ended.
        tracing::warn!(%error, "jobs that cannot be read are still there");
    }
    Ok(leased)
}

async fn load(session: &Session, id: i64) -> Result<Option<Job>, Error> {
    let rows = session.query(sql!("load_job"), &[&id]).await?;
    rows.first().map(job).transpose()
}

/// In the order asked. One statement takes one report of each job, so a job's second report waits for the next.
async fn settle(session: &Session, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
    let mut settled: Vec<Option<Settled>> = vec![None; settlements.len()];
    loop {
        let mut jobs = HashSet::new();
        let mut wave = Vec::new();
        for (index, settlement) in settlements.iter().enumerate() {
            if settled[index].is_none() && jobs.insert(settlement.id) {
                wave.push(index);
            }
        }
        if wave.is_empty() {
            return Ok(settled.into_iter().flatten().collect());
        }
        let found = settle_once(session, wave.iter().map(|index| &settlements[*index])).await?;
        for index in wave {
            let Settlement { id, token, .. } = settlements[index];
            let counted = |lease: &Lease| lease.complete(token).map(|_| ());
            settled[index] = Some(found.get(&id).map_or(Err(Refused::Unavailable), counted));
        }
    }
}

/// Takes an outside worker's answer and tells the saga of it.
async fn record_answer(session: &Session, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
    let Answer { id, token, error, message } = answer;
    let body = serde_json::to_string(message).map_err(|why| Error::Refused(why.to_string()))?;
    let error = error.as_deref().map(readable);
    let values: [&(dyn ToSql + Sync); 5] = [id, token, &error, &time(at), &body];
    let rows = session.query(include_str!("answer_job.sql"), &values).await?;
    let found = rows.first().map(before).transpose()?;
    Ok(found.map_or(Err(Refused::Unavailable), |(_, lease)| lease.complete(*token).map(|_| ())))
}

/// Takes back what no worker has and tells the saga of it.
async fn withdraw(session: &Session, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
    let Withdrawal { saga, subject, never_leased, leased_before } = withdrawal;
    let body = |message| {
        serde_json::to_string(message).map_err(|why: serde_json::Error| Error::Refused(why.to_string()))
    };
    let (never_leased, leased_before) = (body(never_leased)?, body(leased_before)?);
    let values: [&(dyn ToSql + Sync); 5] = [&saga.0, subject, &time(at), &never_leased, &leased_before];
    Ok(!session.query(sql!("withdraw_job"), &values).await?.is_empty())
}

fn before(row: &Row) -> Result<(i64, Lease), Error> {
    let id: i64 = get(row, "id")?;
    let (status, token) = (status(row, id)?, get(row, "token")?);
    Ok((id, Lease { status, token, ..Lease::due_at(Timestamp::default()) }))
}

/// What leasing looks at in each of these jobs, as it was before.
async fn settle_once(
    session: &Session,
    settlements: impl Iterator<Item = &Settlement>,
) -> Result<HashMap<i64, Lease>, Error> {
    let mut reports = Reports::default();
    for settlement in settlements {
        reports.add(settlement);
    }
    let rows = session
        .query(
            sql!("settle_job"),
            &[
                &reports.id,
                &reports.token,
                &reports.status,
                &reports.retry_us,
                &reports.lease_ms,
                &reports.error,
            ],
        )
        .await?;
    rows.iter().map(before).collect()
}

#[derive(Default)]
struct Reports {
    id: Vec<i64>,
    token: Vec<i64>,
    status: Vec<&'static str>,
    retry_us: Vec<Option<i64>>,
    lease_ms: Vec<Option<i64>>,
    error: Vec<Option<String>>,
}

impl Reports {
    fn add(&mut self, settlement: &Settlement) {
        let (status, retry, lease, error) = match &settlement.report {
            Report::Completed => ("Completed", None, None, None),
            Report::StillWorking { lease } => ("Leased", None, Some(millis(*lease)), None),
            Report::GivenBack => ("Pending", None, Some(0), None),
            Report::Failed { error, retry_after: Some(wait) } => {
                ("Pending", Some(micros(*wait)), None, Some(readable(error)))
            }
            Report::Failed { error, retry_after: None } => ("Failed", None, None, Some(readable(error))),
        };
        self.id.push(settlement.id);
        self.token.push(settlement.token);
        self.status.push(status);
        self.retry_us.push(retry);
        self.lease_ms.push(lease);
        self.error.push(error);
    }
}

fn job(row: &Row) -> Result<Job, Error> {
    let id: i64 = get(row, "id")?;
    let payload = Payload::parse(get::<&str>(row, "payload")?);
    Ok(Job {
        id,
        saga: SagaId(get(row, "saga_id")?),
        queue: get(row, "queue")?,
        subject: get(row, "subject")?,
        payload: payload.map_err(|why| corrupt("payload", id, why.to_string()))?,
        lease: Lease {
            status: status(row, id)?,
            token: get(row, "token")?,
            until: get_time(row, "until")?,
            attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
            expiries: get::<i32>(row, "expiries")?.unsigned_abs(),
        },
        last_error: get(row, "last_error")?,
    })
}

fn status(row: &Row, id: i64) -> Result<Status, Error> {
    match get(row, "status")? {
        "Pending" => Ok(Status::Pending),
        "Leased" => Ok(Status::Leased),
        "Completed" => Ok(Status::Completed),
        "Failed" => Ok(Status::Failed),
        other => Err(corrupt("status", id, format!("`{other}` is no status"))),
    }
}

fn corrupt(column: &'static str, job: i64, why: String) -> Error {
    let id = format!("job {job}");
    Corrupt { table: "jobs", column, id, why }.into()
}
