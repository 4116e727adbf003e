//! Messages on their way to the world.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use backstitch_kernel::{Payload, delivery};
use deadpool_postgres::Transaction;
use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::parked::{ids, park_item};
use super::session::{Session, change, conclude, read};
use super::values::{get, get_time, limit, micros, millis, readable, timestamp};
use super::{PostgresStore, sql};
use crate::outbox::sink::Undelivered;
use crate::store::isolation::isolate_picked;
use crate::store::outbox::{
    Ages, Expired, LOOK_AHEAD, NewMessage, Outgoing, Report, Rescued, Sent, Share, TOO_LATE, Waiting,
    unreadable,
};
use crate::store::parked::{OUTBOX, claimed};
use crate::store::{Corrupt, Error, OutboxStore};

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        read!(self.sessions, |session| waiting(session))
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        change!(self.sessions.to_ask(), |session| claim(session, shares, sender))
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| settle(session, sent))
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        change!(self.sessions.to_ask(), |session| rescue(session, limit))
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        read!(self.sessions, |session| ages(session))
    }
}

/// Messages that are due, so many of each topic.
const DUE: &str = "
    select due.id
    from unnest($1::text[], $2::bigint[]) as wanted (topic, room)
        cross join lateral (
            select id
            from outbox
            where
                due_at is not null and topic = wanted.topic and due_at <= clock()
                and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
            order by due_at, id
            limit greatest(wanted.room, $3::bigint)
        ) as due";
/// Messages whose lease is over.
const ABANDONED: &str = "
    select id from outbox
    where
        locked_at is not null and leased_until <= clock()
        and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
    order by locked_at
    limit $1";
/// Messages that are too old to be sent.
const LATE: &str = "
    select id from outbox
    where
        expires_at is not null and status in ('pending', 'failed') and expires_at <= clock()
        and id <> all (array(select item::bigint from parked_items where area = 'outbox' and retry_at > clock()))
    order by expires_at
    limit $1";

async fn waiting(session: &Session) -> Result<Vec<Waiting>, Error> {
    let rows = session.query(sql!("waiting_topics"), &[]).await?;
    let waiting = |row| {
        let micros: i64 = get(row, "due_in")?;
        let time = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
        Ok(Waiting { topic: get(row, "topic")?, due_in: time(micros), late: time(-micros) })
    };
    rows.iter().map(waiting).collect()
}

/// Claims what is due. Where messages behind others took more than half of a share, it puts more of them aside and looks again
/// for some that can go.
async fn claim(session: &mut Session, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
    let (mut claimed, behind) = claim_among(session, shares, sender, 0).await?;
    if behind == 0 {
        return Ok(claimed);
    }
    let got = |topic: &str| claimed.iter().filter(|outgoing| outgoing.message.topic == topic).count();
    let missing = shares.iter().filter_map(|share| {
        let limit = share.limit.saturating_sub(got(&share.topic));
        (limit * 2 > share.limit).then(|| Share { limit, ..share.clone() })
    });
    let missing: Vec<Share> = missing.collect();
    if !missing.is_empty() {
        // What is claimed already is sent, whatever becomes of the rest.
        let further = async {
            claim_among(session, &missing, sender, LOOK_AHEAD).await?;
            claim_among(session, &missing, sender, 0).await
        };
        match further.await {
            Ok((further, _)) => claimed.extend(further),
            Err(error) if claimed.is_empty() => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot look further for messages that are due"),
        }
    }
    Ok(claimed)
}

/// Claims the first messages of each topic, or only puts aside so many of them; how many were behind others. A message that
/// cannot be read is aborted, so that it blocks no other.
async fn claim_among(
    session: &mut Session,
    shares: &[Share],
    sender: &str,
    look_ahead: usize,
) -> Result<(Vec<Outgoing>, i64), Error> {
    let topics: Vec<&str> = shares.iter().map(|share| share.topic.as_str()).collect();
    let limits: Vec<i64> = shares.iter().map(|share| limit(share.limit)).collect();
    let leases: Vec<i64> = shares.iter().map(|share| millis(share.lease)).collect();
    let (topics, limits, leases, sender) = (&topics, &limits, &leases, &readable(sender));
    let look_ahead = &limit(look_ahead);
    let rows = {
        let session: &Session = session;
        let due = || async { ids(&session.query(DUE, &[topics, limits, look_ahead]).await?) };
        let rows = isolate_picked(
            due,
            |only| async move {
                let values: [&(dyn ToSql + Sync); 6] = [topics, limits, leases, sender, look_ahead, &only];
                session.query(sql!("due_messages"), &values).await
            },
            |message: i64, reason| park_item(session, OUTBOX, message, reason),
        );
        claimed(OUTBOX, rows.await?)?
    };
    let mut behind = 0;
    let (mut claimed, mut unread) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in &rows {
        behind = behind.max(get(row, "behind")?);
        if get::<Option<i64>>(row, "id")?.is_none() {
            continue;
        }
        match outgoing(row) {
            Ok(outgoing) => claimed.push(outgoing),
            Err(why) => unread.push(unreadable(get(row, "id")?, get(row, "lock")?, &why)),
        }
    }
    if !unread.is_empty()
        && let Err(error) = settle(session, &unread).await
    {
        // The others are taken all the same; these are met again when their leases have ended.
        tracing::warn!(%error, "messages that cannot be read are still there");
    }
    Ok((claimed, behind))
}

async fn settle(session: &mut Session, sent: &[Sent]) -> Result<(), Error> {
    let reports = Reports::of(sent);
    end(session, sql!("settle_outbox"), &reports.values()).await.map(|_| ()).map_err(|why| session.told(&why))
}

/// Ends messages, and lets those go that were put aside behind them: only then are they seen that were put aside until
/// now. The first two columns of the statement's answer are the ordering scope and the ordering key.
async fn end(
    session: &mut Session,
    how: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let transaction = session.transaction().await?;
    let ended = end_on(&transaction, how, values).await;
    conclude(transaction, ended).await
}

async fn end_on(
    transaction: &Transaction<'_>,
    how: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(how).await?;
    let ended = transaction.query(&statement, values).await?;
    let ordered =
        ended.iter().filter_map(|row| Some((row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)?)));
    let (scopes, keys): (Vec<&str>, Vec<&str>) = ordered.unzip();
    if !keys.is_empty() {
        let statement = transaction.prepare_cached(sql!("let_next_go")).await?;
        transaction.query(&statement, &[&scopes, &keys]).await?;
    }
    Ok(ended)
}

/// What became of messages, column by column.
#[derive(Default)]
struct Reports {
    ids: Vec<i64>,
    locks: Vec<i64>,
    statuses: Vec<&'static str>,
    counts: Vec<i32>,
    waits: Vec<Option<i64>>,
    codes: Vec<Option<String>>,
    errors: Vec<Option<String>>,
    answers: Vec<Option<String>>,
}

impl Reports {
    fn values(&self) -> [&(dyn ToSql + Sync); 8] {
        let Self { ids, locks, statuses, counts, waits, codes, errors, answers } = self;
        [ids, locks, statuses, counts, waits, codes, errors, answers]
    }

    fn of(sent: &[Sent]) -> Self {
        let mut reports = Self::default();
        for sent in sent {
            let (status, counts, wait, error, answer) = match &sent.report {
                Report::Delivered(answer) => ("succeeded", 1, None, None, answer.clone()),
                Report::Retry { after, error } => ("failed", 1, Some(micros(*after)), Some(error), None),
                Report::Aborted(error) => ("aborted", 1, None, Some(error), Some(error.as_result())),
                Report::GivenBack => ("given_back", 0, None, None, None),
            };
            reports.ids.push(sent.id);
            reports.locks.push(sent.lock);
            reports.statuses.push(status);
            reports.counts.push(counts);
            reports.waits.push(wait);
            reports.codes.push(error.map(|error| readable(&error.code)));
            reports.errors.push(error.map(|error| readable(&error.message)));
            reports.answers.push(answer.map(|answer| answer.as_str().to_owned()));
        }
        reports
    }
}

async fn rescue(session: &mut Session, rows: usize) -> Result<Rescued, Error> {
    let rows = &limit(rows);
    let abandoned = {
        let session: &Session = session;
        let candidates = || async { ids(&session.query(ABANDONED, &[rows]).await?) };
        let abandoned = isolate_picked(
            candidates,
            |only| async move { session.query(sql!("abandoned_messages"), &[rows, &only]).await },
            |message: i64, reason| park_item(session, OUTBOX, message, reason),
        );
        claimed(OUTBOX, abandoned.await?)?.len()
    };
    let result = &Undelivered::new(delivery::EXPIRED, TOO_LATE).as_result();
    let expired = {
        // Each try is a transaction of its own on the one connection.
        let session = &Mutex::new(&mut *session);
        let late = || async { ids(&session.lock().await.query(LATE, &[rows]).await?) };
        let expired = isolate_picked(
            late,
            |only| async move {
                let values: [&(dyn ToSql + Sync); 5] =
                    [rows, &delivery::EXPIRED, &TOO_LATE, &result.as_str(), &only];
                let mut session = session.lock().await;
                let ended = end(&mut session, sql!("expired_messages"), &values).await;
                ended.map_err(|why| session.told(&why))
            },
            |message: i64, reason| async move {
                park_item(&**session.lock().await, OUTBOX, message, reason).await
            },
        );
        claimed(OUTBOX, expired.await?)?
    };
    let expired = expired.iter().map(|row| {
        Ok(Expired {
            topic: get(row, "topic")?,
            idempotency_key: get(row, "idempotency_key")?,
            attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
            uncounted: get(row, "uncounted")?,
        })
    });
    Ok(Rescued { abandoned: abandoned as u64, expired: expired.collect::<Result<_, Error>>()? })
}

async fn ages(session: &Session) -> Result<Ages, Error> {
    let rows = session.query(sql!(diagnostics::outbox_ages), &[]).await?;
    let Some(row) = rows.first() else { return Ok(Ages::default()) };
    let written = |column| Ok::<_, Error>(get::<Option<SystemTime>>(row, column)?.map(timestamp));
    Ok(Ages { oldest: written("oldest")?, old: written("old")? })
}

fn outgoing(row: &Row) -> Result<Outgoing, Error> {
    Ok(Outgoing {
        id: get(row, "id")?,
        lock: get(row, "lock")?,
        message: message(row)?,
        attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
        in_doubt: get(row, "in_doubt")?,
        created_at: get_time(row, "created_at")?,
        uncounted: get(row, "uncounted")?,
    })
}

pub(super) fn message(row: &Row) -> Result<NewMessage, Error> {
    Ok(NewMessage {
        topic: get(row, "topic")?,
        idempotency_key: get(row, "idempotency_key")?,
        ordering_key: get(row, "ordering_key")?,
        payload: payload(row, "payload", get(row, "payload")?)?,
        expires_at: get::<Option<SystemTime>>(row, "expires_at")?.map(timestamp),
    })
}

pub(super) fn payload(row: &Row, column: &'static str, text: &str) -> Result<Payload, Error> {
    let id: i64 = get(row, "id")?;
    Payload::parse(text).map_err(|why| {
        Corrupt { table: "outbox", column, id: format!("message {id}"), why: why.to_string() }.into()
    })
}
