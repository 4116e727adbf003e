//! Jobs of sagas and lifecycles: leases, results and expiries are in the inboxes of their sagas in the same statement.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use backstitch_kernel::lease::{MAX_EXPIRIES, Refused};
use backstitch_kernel::{SagaId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::parked::park_item;
use super::session::{Session, change, read};
use super::values::{get, limit, time};
use super::{PostgresStore, sql};
use crate::jobs::postgres::{self as queue, NOTIFY_SAGAS, SqlConnection, Values};
use crate::jobs::{
    ExpiryScope, Extension, Job, JobOutcome, JobResult, LeaseBatch, PRODUCT_QUEUES, QueueState, Settled,
    Settlement, WITHDRAWN, Withdrawal, lost_message_part, unreadable,
};
use crate::store::isolation::isolate_picked;
use crate::store::parked::{JOBS, claimed};
use crate::store::{Error, JobStore};

/// Jobs whose expired leases are handled in one statement.
const EXPIRED_AT_ONCE: usize = 10_000;

/// The message to a saga whose job is leased: the time of its attempt begins now. The subject is `step:phase@attempt`.
const LEASED_MESSAGE: &str = "
, message as (
    select
        id as job, saga_id, clock() as at,
        json_build_object(
            'ask', 'leased',
            'step', split_part(subject, ':', 1),
            'phase', split_part(split_part(subject, ':', 2), '@', 1),
            'attempt', split_part(subject, '@', 2)::integer,
            'at', (extract(epoch from clock()) * 1000000)::bigint
        )::text as body
    from leased
    where starts_with(queue, 'work/') and subject ~ '^[^:@]+:(do|undo)@[0-9]{1,9}$'
)";
/// The message to a saga whose job has lost its last lease.
const LOST_MESSAGE: &str = "
, message as (
    select id as job, saga_id, clock() as at, (payload::jsonb || $7::text::jsonb)::text as body
    from returned
    where status = 'Failed' and starts_with(queue, 'work/')
)";
/// The messages that come with results.
const RESULT_MESSAGE: &str = "
, message as (
    select settled.id as job, settled.saga_id, m.at, m.body
    from settled
        join unnest($1::bigint[], $8::timestamptz[], $9::text[]) as m (id, at, body) on m.id = settled.id
    where m.body is not null
)";
/// The message to a saga whose job is withdrawn.
const WITHDRAWN_MESSAGE: &str = "
, message as (
    select id as job, saga_id, $5::timestamptz as at, case when token = 0 then $6::text else $7::text end as body
    from withdrawn
)";

#[async_trait]
impl JobStore for PostgresStore {
    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<LeaseBatch, Error> {
        change!(self.sessions.to_ask(), |session| lease_due(session, queues, lease, limit))
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        change!(self.sessions.to_ask(), |session| settle(session, settlements))
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| withdraw(session, withdrawal, at))
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        read!(self.sessions, |session| load(session, id))
    }

    async fn queue_state(
        &self,
        queues: &[String],
        area: &'static str,
        limit: usize,
    ) -> Result<QueueState, Error> {
        read!(self.sessions, |session| queue_state(session, queues, area, limit))
    }

    async fn has_due_job(&self, owner: SagaId) -> Result<bool, Error> {
        let due = read!(self.sessions, |session| session.query(sql!(jobs::is_due), &[&owner.0]))?;
        Ok(!due.is_empty())
    }
}

impl SqlConnection for Session {
    async fn run(&self, sql: &str, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        self.query(sql, values).await
    }
}

fn notifying(message: &str) -> String {
    [message, NOTIFY_SAGAS].concat()
}

async fn lease_due(
    session: &Session,
    queues: &[String],
    lease: Duration,
    rows: usize,
) -> Result<LeaseBatch, Error> {
    let queues = &*queue::storable(queues);
    let park = |job: i64, reason| park_item(session, JOBS, job, reason);
    let (then, loss) = (&*notifying(LOST_MESSAGE), &lost_message_part().to_string());
    // A product fails its jobs itself.
    let condition =
        &*format!("and not (expiries + 1 >= {MAX_EXPIRIES} and starts_with(queue, '{PRODUCT_QUEUES}'))");
    let scope = ExpiryScope { queues, limit: EXPIRED_AT_ONCE, area: JOBS, only: None };
    let extension = &Extension {
        condition,
        then,
        columns: ", notified.id as saga_id",
        joins: "join notified on notified.id = job.saga_id",
    };
    let notified = isolate_picked(
        || queue::expired(session, scope, extension),
        |only| async move {
            let scope = ExpiryScope { only: only.as_deref(), ..scope };
            queue::expire(session, scope, extension, &[loss]).await
        },
        park,
    );
    let notified = claimed(JOBS, notified.await?)?;
    let then = &*notifying(LEASED_MESSAGE);
    let due = isolate_picked(
        || queue::due_in_queues(session, queues, rows, JOBS),
        |only| async move {
            let extension = Extension { then, ..Extension::default() };
            queue::lease_queues(session, queues, lease, rows, JOBS, only.as_deref(), &extension).await
        },
        park,
    );
    let due = claimed(JOBS, due.await?)?;
    Ok(LeaseBatch {
        leased: readable_jobs(session, &due).await?,
        notified: notified.iter().map(|row| get(row, "saga_id").map(SagaId)).collect::<Result<_, _>>()?,
    })
}

/// A job that cannot be read fails, so that it holds up no other. One of a product stays leased until the product finds that its
/// last lease has expired.
async fn readable_jobs(session: &Session, rows: &[Row]) -> Result<Vec<Job>, Error> {
    let (mut leased, mut failed) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match queue::job(row) {
            Ok(job) => leased.push(job),
            Err(why) => {
                let (id, queue): (i64, &str) = (get(row, "id")?, get(row, "queue")?);
                let error = unreadable(id, queue, &why);
                if !queue.starts_with(PRODUCT_QUEUES) {
                    let outcome = JobOutcome::Failed { error, retry_after: None };
                    failed.push(Settlement::new(id, get(row, "token")?, outcome));
                }
            }
        }
    }
    if let Err(error) = settle(session, &failed).await {
        // The others are leased all the same; these are met again when their leases have expired.
        tracing::warn!(%error, "jobs that cannot be read have not failed yet");
    }
    Ok(leased)
}

async fn load(session: &Session, id: i64) -> Result<Option<Job>, Error> {
    let rows = session.query(sql!(jobs::load), &[&id]).await?;
    rows.first().map(queue::job).transpose()
}

async fn settle(session: &Session, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
    let mut at = Vec::with_capacity(settlements.len());
    let mut body = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let message = match &settlement.result {
            JobResult::Message { message, at } => Some((message, *at)),
            JobResult::None | JobResult::RetryAfter(_) => None,
        };
        let text = message.map(|(message, _)| serde_json::to_string(message)).transpose();
        body.push(text.map_err(|why| Error::Refused(why.to_string()))?);
        at.push(message.map(|(_, at)| time(at)));
    }
    let has_messages = body.iter().any(Option::is_some);
    let then = if has_messages { notifying(RESULT_MESSAGE) } else { String::new() };
    let extension = Extension { condition: " and saga_id is not null", then: &then, ..Extension::default() };
    let values = |wave: &[usize]| -> Vec<Box<dyn ToSql + Sync + Send>> {
        if !has_messages {
            return Vec::new();
        }
        let at: Vec<Option<SystemTime>> = wave.iter().map(|index| at[*index]).collect();
        let body: Vec<Option<String>> = wave.iter().map(|index| body[*index].clone()).collect();
        vec![Box::new(at), Box::new(body)]
    };
    let settled = queue::settle(session, settlements, &extension, values).await?;
    let result = |(job, settlement): (Option<crate::jobs::SettledJob>, &Settlement)| {
        job.map_or(Err(Refused::Unavailable), |job| job.settled(settlement.token))
    };
    Ok(settled.into_iter().zip(settlements).map(result).collect())
}

/// Withdraws a job that no worker has leased.
async fn withdraw(session: &Session, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
    let Withdrawal { saga, subject, never_leased, leased_before } = withdrawal;
    let body = |message| {
        serde_json::to_string(message).map_err(|why: serde_json::Error| Error::Refused(why.to_string()))
    };
    let (never_leased, leased_before, at) = (body(never_leased)?, body(leased_before)?, time(at));
    let then = notifying(WITHDRAWN_MESSAGE);
    let extension = Extension { then: &then, ..Extension::default() };
    let values: [&(dyn ToSql + Sync); 3] = [&at, &never_leased, &leased_before];
    let withdrawn =
        queue::withdraw_owned(session, &[*saga], Some(subject), false, WITHDRAWN, &extension, &values)
            .await?;
    Ok(!withdrawn.is_empty())
}

async fn queue_state(
    session: &Session,
    queues: &[String],
    area: &'static str,
    rows: usize,
) -> Result<QueueState, Error> {
    let queues = queue::storable(queues);
    let last = i32::try_from(MAX_EXPIRIES).unwrap_or(i32::MAX);
    let values: [&(dyn ToSql + Sync); 4] = [&queues, &last, &area, &limit(rows)];
    let mut state = QueueState::default();
    for row in session.query(sql!(jobs::queue_state), &values).await? {
        state.has_jobs |= get::<Option<bool>>(&row, "has_jobs")?.unwrap_or_default();
        state.lost.extend(get::<Option<i64>>(&row, "lost")?);
    }
    Ok(state)
}
