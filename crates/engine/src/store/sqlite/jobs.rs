//! Jobs and their leases. What a lease becomes is the kernel's to say; here it is read and written back.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::lease::{Lease, MAX_EXPIRIES, Refused, Status};
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::parked::{Isolation, isolating};
use super::values::{RowReader, limit};
use super::{SqliteStore, inbox, sql};
use crate::inbox::Posted;
use crate::store::jobs::{
    Answer, Job, LEASE_EXPIRED, Leased, Leasing, OF_PRODUCTS, Report, Settled, Settlement, Withdrawal,
    unreadable,
};
use crate::store::outbox::ALERTS;
use crate::store::parked::JOBS;
use crate::store::{Corrupt, Error, JobStore};

#[async_trait]
impl JobStore for SqliteStore {
    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error> {
        let (queues, now) = (queues.to_vec(), self.clock.now());
        self.connections.write(move |connection| lease_due(connection, &queues, lease, now, limit)).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        let (settlements, now) = (settlements.to_vec(), self.clock.now());
        self.connections.write(move |connection| settle(connection, &settlements, now)).await
    }

    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
        let (answer, now) = (answer.clone(), self.clock.now());
        self.connections.write(move |connection| record_answer(connection, &answer, at, now)).await
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        let (withdrawal, now) = (withdrawal.clone(), self.clock.now());
        self.connections.write(move |connection| withdraw(connection, &withdrawal, at, now)).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.connections.read(move |connection| job(connection, id)).await
    }
}

fn lease_due(
    connection: &Connection,
    queues: &[String],
    duration: Duration,
    now: Timestamp,
    at_most: usize,
) -> Result<Leasing, Fault> {
    isolating(connection, JOBS, now, |isolation| {
        let (mut due, mut told) = (Vec::new(), Vec::new());
        for queue in queues {
            told.extend(expire(connection, isolation, queue, now)?);
            let values = params![queue, now.as_micros(), limit(at_most)];
            for found in select(connection, sql!("due_jobs"), values)? {
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
                let taken = isolation.run(job.id, || {
                    write(connection, &job, now)?;
                    if let Some(message) = job.taken(now) {
                        inbox::post_in(connection, job.saga, &message, now)?;
                    }
                    Ok(())
                })?;
                leased.extend(taken.map(|()| Leased { job }));
            }
        }
        Ok(Leasing { leased, told })
    })
}

/// Puts back what was lost, and says which sagas were told that nobody brings it back.
fn expire(
    connection: &Connection,
    isolation: &Isolation<'_>,
    queue: &str,
    now: Timestamp,
) -> Result<Vec<SagaId>, Fault> {
    let mut told = Vec::new();
    for found in select(connection, sql!("expired_jobs"), params![queue, now.as_micros()])? {
        let mut job = match found {
            Ok(job) => job,
            Err(unread) => {
                isolation.run(unread.id, || put_back(connection, queue, &unread, now))?;
                continue;
            }
        };
        if let Some(lease) = job.lease.expire(now) {
            let given_up = lease.status == Status::Failed;
            if given_up && job.is_of_a_product() {
                continue;
            }
            job.lease = lease;
            job.last_error = Some(LEASE_EXPIRED.to_owned());
            let posted = isolation.run(job.id, || {
                write(connection, &job, now)?;
                match job.lost().filter(|_| given_up) {
                    Some(message) => inbox::post_in(connection, job.saga, &message, now).map(Some),
                    None => Ok(None),
                }
            })?;
            if posted.flatten() == Some(Posted::Accepted) {
                told.push(job.saga);
            }
        }
    }
    Ok(told)
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
    let token = settlement.token;
    let lease = match &settlement.report {
        Report::Completed => job.lease.complete(token),
        Report::Failed { retry_after, .. } => job.lease.fail(token, retry_after.map(|wait| now.plus(wait))),
        Report::StillWorking { lease } => job.lease.heartbeat(token, *lease, now),
        Report::GivenBack => job.lease.give_back(token, now),
    };
    job.lease = match lease {
        Ok(lease) => lease,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Report::Failed { error, .. } = &settlement.report {
        job.last_error = Some(error.clone());
    }
    write(connection, &job, now)?;
    Ok(Ok(()))
}

/// Takes an outside worker's answer and tells the saga of it.
fn record_answer(
    connection: &Connection,
    answer: &Answer,
    at: Timestamp,
    now: Timestamp,
) -> Result<Settled, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Some(job) = job(&transaction, answer.id)? else {
        return Ok(Err(Refused::Unavailable));
    };
    let settlement = Settlement {
        id: answer.id,
        token: answer.token,
        report: match &answer.error {
            None => Report::Completed,
            Some(error) => Report::Failed { error: error.clone(), retry_after: None },
        },
    };
    let settled = settle_one(&transaction, &settlement, now)?;
    if settled.is_ok() {
        inbox::post_in(&transaction, job.saga, &answer.message, at)?;
    }
    transaction.commit()?;
    Ok(settled)
}

/// Takes back what no worker has and tells the saga of it.
fn withdraw(
    connection: &Connection,
    withdrawal: &Withdrawal,
    at: Timestamp,
    now: Timestamp,
) -> Result<bool, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let values = params![withdrawal.saga.0.as_bytes(), withdrawal.subject, now.as_micros()];
    let token: Option<i64> = transaction
        .prepare_cached(sql!("withdraw_job"))?
        .query_row(values, |row| row.get("token"))
        .optional()?;
    if let Some(token) = token {
        inbox::post_in(&transaction, withdrawal.saga, withdrawal.message(token), at)?;
    }
    transaction.commit()?;
    Ok(token.is_some())
}

fn job(connection: &Connection, id: i64) -> Result<Option<Job>, Fault> {
    let found = select(connection, sql!("load_job"), [id])?.pop();
    Ok(found.transpose().map_err(|unread| unread.why)?)
}

/// A job that cannot be read.
struct Unread {
    id: i64,
    why: Corrupt,
}

/// Gives up what nobody can be given, so that it is in nobody's way. What its product is to give up is leased to nobody
/// instead, until its product finds that nobody brings it back.
fn set_aside(
    connection: &Connection,
    queue: &str,
    unread: &Unread,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), Fault> {
    if !queue.starts_with(OF_PRODUCTS) {
        return give_up(connection, queue, unread, now);
    }
    unreadable(unread.id, queue, &unread.why);
    let lease = "update or fail jobs set status = 'Leased', token = token + 1, until = ?2 where id = ?1";
    connection.prepare_cached(lease)?.execute(params![unread.id, until.as_micros()])?;
    Ok(())
}

/// The same for one that was leased and never brought back.
fn put_back(connection: &Connection, queue: &str, unread: &Unread, now: Timestamp) -> Result<(), Fault> {
    if !queue.starts_with(OF_PRODUCTS) {
        return give_up(connection, queue, unread, now);
    }
    let put_back =
        "update or fail jobs set status = 'Pending', expiries = expiries + 1, until = ?2, last_error = ?3
                    where id = ?1 and expiries + 1 < ?4";
    let values = params![unread.id, now.as_micros(), LEASE_EXPIRED, MAX_EXPIRIES];
    connection.prepare_cached(put_back)?.execute(values)?;
    Ok(())
}

fn give_up(connection: &Connection, queue: &str, unread: &Unread, now: Timestamp) -> Result<(), Fault> {
    let error = unreadable(unread.id, queue, &unread.why);
    let give_up =
        "update or fail jobs set status = 'Failed', token = token + 1, attempts = attempts + 1, last_error = ?2
                   where id = ?1";
    connection.prepare_cached(give_up)?.execute(params![unread.id, error])?;
    tell_given_up(connection, unread.id, now)
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
    let status = match row.text("status")? {
        "Pending" => Status::Pending,
        "Leased" => Status::Leased,
        "Completed" => Status::Completed,
        // The table's check leaves nothing else.
        _ => Status::Failed,
    };
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
    let status = match job.lease.status {
        Status::Pending => "Pending",
        Status::Leased => "Leased",
        Status::Completed => "Completed",
        Status::Failed => "Failed",
    };
    connection.prepare_cached(sql!("settle_job"))?.execute(params![
        job.id,
        status,
        job.lease.token,
        job.lease.until.as_micros(),
        job.lease.attempts,
        job.lease.expiries,
        job.last_error
    ])?;
    if job.lease.status == Status::Failed {
        tell_given_up(connection, job.id, now)?;
    }
    Ok(())
}

fn tell_given_up(connection: &Connection, job: i64, now: Timestamp) -> Result<(), Fault> {
    let values = params![job, ALERTS, now.as_micros()];
    connection.prepare_cached(include_str!("tell_given_up.sql"))?.execute(values)?;
    Ok(())
}
