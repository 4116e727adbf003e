//! Jobs of sagas and lifecycles. Every change of a lease is the kernel's; the messages to sagas are in the same transaction.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::lease::{Lease, MAX_EXPIRIES, Refused, Status};
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::parked::{Isolation, isolating};
use super::values::{RowReader, limit};
use super::{SqliteStore, inbox, sql};
use crate::inbox::Posted;
use crate::jobs::sqlite as queue;
use crate::jobs::{
    Job, JobResult, LEASE_EXPIRED, LeaseBatch, PRODUCT_QUEUES, QueueState, Settled, Settlement, Withdrawal,
    parse_status, unreadable,
};
use crate::store::outbox::ALERTS;
use crate::store::parked::JOBS;
use crate::store::{Corrupt, Error, JobStore};

#[async_trait]
impl JobStore for SqliteStore {
    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<LeaseBatch, Error> {
        let (queues, now) = (queues.to_vec(), self.clock.now());
        self.connections.write(move |connection| lease_due(connection, &queues, lease, now, limit)).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        let (settlements, now) = (settlements.to_vec(), self.clock.now());
        self.connections.write(move |connection| settle(connection, &settlements, now)).await
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        let (withdrawal, now) = (withdrawal.clone(), self.clock.now());
        self.connections.write(move |connection| withdraw(connection, &withdrawal, at, now)).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.connections.read(move |connection| job(connection, id)).await
    }

    async fn queue_state(
        &self,
        queues: &[String],
        area: &'static str,
        limit: usize,
    ) -> Result<QueueState, Error> {
        let (queues, now) = (queues.to_vec(), self.clock.now());
        self.connections.read(move |connection| queue_state(connection, &queues, area, now, limit)).await
    }

    async fn has_due_job(&self, owner: SagaId) -> Result<bool, Error> {
        let now = self.clock.now().as_micros();
        let is_due = move |connection: &Connection| {
            Ok(connection.prepare_cached(sql!(jobs::is_due))?.exists(params![owner.0.as_bytes(), now])?)
        };
        self.connections.read(is_due).await
    }
}

fn lease_due(
    connection: &Connection,
    queues: &[String],
    duration: Duration,
    now: Timestamp,
    at_most: usize,
) -> Result<LeaseBatch, Fault> {
    isolating(connection, JOBS, now, |isolation| {
        let (mut due, mut notified) = (Vec::new(), Vec::new());
        for queue in queues {
            notified.extend(expire(connection, isolation, queue, now)?);
            let values = params![queue, now.as_micros(), limit(at_most)];
            for found in select(connection, sql!(jobs::due_in_queue), values)? {
                match found {
                    Ok(job) => due.push(job),
                    Err(unread) => {
                        let until = now.plus(duration);
                        isolation.run(unread.id, || set_aside(connection, queue, &unread, until, now))?;
                    }
                }
            }
        }
        due.sort_by_key(|job| (job.lease.until, job.id));
        due.truncate(at_most);
        let mut leased = Vec::with_capacity(due.len());
        for mut job in due {
            if let Ok(lease) = job.lease.lease(duration, now) {
                job.lease = lease;
                let written = isolation.run(job.id, || {
                    write(connection, &job, now)?;
                    if let Some(message) = job.leased_message(now) {
                        inbox::post_in(connection, job.saga, &message, now)?;
                    }
                    Ok(())
                })?;
                leased.extend(written.map(|()| job));
            }
        }
        Ok(LeaseBatch { leased, notified })
    })
}

/// Returns jobs to their queue whose lease has expired. Returns the sagas that got a message that this was the last lease.
fn expire(
    connection: &Connection,
    isolation: &Isolation<'_>,
    queue: &str,
    now: Timestamp,
) -> Result<Vec<SagaId>, Fault> {
    let mut notified = Vec::new();
    for found in select(connection, sql!(jobs::expired_in_queue), params![queue, now.as_micros()])? {
        let mut job = match found {
            Ok(job) => job,
            Err(unread) => {
                isolation.run(unread.id, || return_unread(connection, queue, &unread, now))?;
                continue;
            }
        };
        if let Some(lease) = job.lease.expire(now) {
            let has_failed = lease.status == Status::Failed;
            if has_failed && job.is_of_a_product() {
                continue;
            }
            job.lease = lease;
            job.last_error = Some(LEASE_EXPIRED.to_owned());
            let posted = isolation.run(job.id, || {
                write(connection, &job, now)?;
                match job.lost_message().filter(|_| has_failed) {
                    Some(message) => inbox::post_in(connection, job.saga, &message, now).map(Some),
                    None => Ok(None),
                }
            })?;
            if posted.flatten() == Some(Posted::Accepted) {
                notified.push(job.saga);
            }
        }
    }
    Ok(notified)
}

fn settle(
    connection: &Connection,
    settlements: &[Settlement],
    now: Timestamp,
) -> Result<Vec<Settled>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut settled = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        settled.push(settle_one(&transaction, settlement, now)?);
    }
    transaction.commit()?;
    Ok(settled)
}

fn settle_one(connection: &Connection, settlement: &Settlement, now: Timestamp) -> Result<Settled, Fault> {
    let Some(mut job) = job(connection, settlement.id)? else {
        return Ok(Err(Refused::Unavailable));
    };
    job.lease = match queue::settle(&job.lease, settlement, now) {
        Ok(lease) => lease,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(error) = queue::error_of(settlement) {
        job.last_error = Some(error.to_owned());
    }
    write(connection, &job, now)?;
    if let JobResult::Message { message, at } = &settlement.result {
        inbox::post_in(connection, job.saga, message, *at)?;
    }
    Ok(Ok(job.lease.until))
}

/// Withdraws a job that no worker has leased.
fn withdraw(
    connection: &Connection,
    withdrawal: &Withdrawal,
    at: Timestamp,
    now: Timestamp,
) -> Result<bool, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Withdrawal { saga, subject, .. } = withdrawal;
    let token = queue::withdraw_unleased(&transaction, *saga, subject, Some(now))?;
    if let Some(token) = token {
        inbox::post_in(&transaction, withdrawal.saga, withdrawal.message(token), at)?;
    }
    transaction.commit()?;
    Ok(token.is_some())
}

fn queue_state(
    connection: &Connection,
    queues: &[String],
    area: &str,
    now: Timestamp,
    at_most: usize,
) -> Result<QueueState, Fault> {
    let queues = serde_json::to_string(queues).map_err(|why| Error::Refused(why.to_string()))?;
    let mut statement = connection.prepare_cached(sql!(jobs::queue_state))?;
    let mut rows = statement.query(params![queues, MAX_EXPIRIES, area, now.as_micros(), limit(at_most)])?;
    let mut state = QueueState::default();
    while let Some(row) = rows.next()? {
        state.has_jobs |= row.get::<_, Option<bool>>("has_jobs")?.unwrap_or_default();
        state.lost.extend(row.get::<_, Option<i64>>("lost")?);
    }
    Ok(state)
}

fn job(connection: &Connection, id: i64) -> Result<Option<Job>, Fault> {
    let found = select(connection, sql!(jobs::load), [id])?.pop();
    Ok(found.transpose().map_err(|unread| unread.why)?)
}

/// A job that cannot be read.
struct Unread {
    id: i64,
    why: Corrupt,
}

/// Fails a job that no worker can be given, so that it holds up no other. One of a product is leased to no worker instead, until
/// the product finds that its last lease has expired.
fn set_aside(
    connection: &Connection,
    queue: &str,
    unread: &Unread,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), Fault> {
    if !queue.starts_with(PRODUCT_QUEUES) {
        return fail(connection, queue, unread, now);
    }
    unreadable(unread.id, queue, &unread.why);
    connection.prepare_cached(sql!(jobs::set_aside))?.execute(params![unread.id, until.as_micros()])?;
    Ok(())
}

/// The same for a job whose lease has expired.
fn return_unread(connection: &Connection, queue: &str, unread: &Unread, now: Timestamp) -> Result<(), Fault> {
    if !queue.starts_with(PRODUCT_QUEUES) {
        return fail(connection, queue, unread, now);
    }
    let values = params![unread.id, now.as_micros(), LEASE_EXPIRED, MAX_EXPIRIES];
    connection.prepare_cached(sql!(jobs::return_unread))?.execute(values)?;
    Ok(())
}

fn fail(connection: &Connection, queue: &str, unread: &Unread, now: Timestamp) -> Result<(), Fault> {
    let error = unreadable(unread.id, queue, &unread.why);
    connection.prepare_cached(sql!(jobs::fail_unread))?.execute(params![unread.id, error])?;
    alert_of_failure(connection, unread.id, now)
}

fn select(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<Result<Job, Unread>>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get("id")?;
        jobs.push(read(row).map_err(|why| Unread { id, why }));
    }
    Ok(jobs)
}

fn read(row: &Row<'_>) -> Result<Job, Corrupt> {
    let id = RowReader::of("jobs", &"?", row).get("id")?;
    let row = RowReader::of("jobs", &id, row);
    // The table's check leaves no other word.
    let status = parse_status(row.text("status")?).unwrap_or(Status::Failed);
    Ok(Job {
        id,
        saga: row.saga("saga_id")?,
        queue: row.get("queue")?,
        subject: row.get("subject")?,
        payload: row.payload("payload")?,
        lease: Lease {
            status,
            token: row.get("token")?,
            until: row.time("until")?,
            attempts: row.count("attempts")?,
            expiries: row.count("expiries")?,
        },
        last_error: row.get("last_error")?,
    })
}

fn write(connection: &Connection, job: &Job, now: Timestamp) -> Result<(), Fault> {
    queue::write(connection, job.id, &job.lease, job.last_error.as_deref())?;
    if job.lease.status == Status::Failed {
        alert_of_failure(connection, job.id, now)?;
    }
    Ok(())
}

fn alert_of_failure(connection: &Connection, job: i64, now: Timestamp) -> Result<(), Fault> {
    let values = params![job, ALERTS, now.as_micros()];
    connection.prepare_cached(sql!(jobs::alert_of_failure))?.execute(values)?;
    Ok(())
}
