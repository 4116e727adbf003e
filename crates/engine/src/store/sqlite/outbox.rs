//! Messages to the world on their way out.

use async_trait::async_trait;
use backstitch_kernel::{Payload, Timestamp, delivery};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::parked::{Isolation, isolating};
use super::values::{RowReader, limit};
use super::{SqliteStore, sql};
use crate::store::outbox::{
    Ages, Expired, LOOK_AHEAD, NewMessage, Outgoing, Report, Rescued, Sent, Share, Status, TOO_LATE, Waiting,
    scope, unreadable,
};
use crate::store::parked::OUTBOX;
use crate::store::{Corrupt, Error, OutboxStore};

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| waiting(connection, now)).await
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        let (shares, sender, now) = (shares.to_vec(), sender.to_owned(), self.clock.now());
        self.connections.write(move |connection| claim(connection, &shares, &sender, now)).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        let (sent, now) = (sent.to_vec(), self.clock.now());
        self.connections.write(move |connection| settle(connection, &sent, now)).await
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| rescue(connection, limit, now)).await
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        self.connections.read(ages).await
    }
}

/// Messages whose lease is over, and those that are too old to be sent.
const RESCUED: &str = "
    select id from outbox where locked_at is not null and leased_until <= ?1
    union
    select id from outbox
    where expires_at is not null and status in ('pending', 'failed') and expires_at <= ?1
    limit 2 * ?2";

fn waiting(connection: &Connection, now: Timestamp) -> Result<Vec<Waiting>, Fault> {
    let mut statement = connection.prepare_cached(sql!("waiting_topics"))?;
    let mut rows = statement.query([now.as_micros()])?;
    let mut waiting = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RowReader::of("outbox", &"of a topic", row);
        // Nothing where all that waits is parked.
        let Some(due) = row.optional_time("due_at")? else { continue };
        waiting.push(Waiting { topic: row.get("topic")?, due_in: due.since(now), late: now.since(due) });
    }
    Ok(waiting)
}

fn claim(
    connection: &Connection,
    shares: &[Share],
    sender: &str,
    now: Timestamp,
) -> Result<Vec<Outgoing>, Fault> {
    isolating(connection, OUTBOX, now, |isolation| {
        let mut claimed = Vec::new();
        for share in shares {
            claim_of(connection, isolation, share, sender, now, &mut claimed)?;
        }
        Ok(claimed)
    })
}

fn claim_of(
    connection: &Connection,
    isolation: &Isolation<'_>,
    share: &Share,
    sender: &str,
    now: Timestamp,
    claimed: &mut Vec<Outgoing>,
) -> Result<(), Fault> {
    let mut lock = connection.prepare_cached(
        "update or fail outbox
         set status = 'sending', lock = lock + 1, locked_by = ?2, locked_at = ?3, leased_until = ?4,
             updated_at = ?3, due_at = null
         where id = ?1",
    )?;
    let mut put_aside = connection.prepare_cached("update or fail outbox set due_at = null where id = ?1")?;
    let until = now.plus(share.lease).as_micros();
    let mut room = share.limit;
    // Where messages behind others took more than half of the share, it looks further for some that can go.
    for look_ahead in [0, LOOK_AHEAD] {
        let due = due(connection, &share.topic, now, room.max(look_ahead))?;
        let mut behind = 0;
        let mut unread = Vec::new();
        for Due { id, lock: before, is_behind, outgoing } in due {
            if room == 0 {
                break;
            }
            if is_behind {
                isolation.run(id, || Ok(put_aside.execute([id])?))?;
                behind += 1;
                continue;
            }
            if let Ok(Outgoing { message: NewMessage { expires_at: Some(expiry), .. }, .. }) = &outgoing
                && *expiry <= now
            {
                continue;
            }
            let values = params![id, sender, now.as_micros(), until];
            if isolation.run(id, || Ok(lock.execute(values)?))?.is_none() {
                continue;
            }
            match outgoing {
                Ok(outgoing) => {
                    claimed.push(Outgoing { lock: before + 1, ..outgoing });
                    room -= 1;
                }
                Err(corrupt) => unread.push(unreadable(id, before + 1, &corrupt)),
            }
        }
        // Only then are those put aside that may go now.
        for sent in unread {
            isolation.run(sent.id, || settle_one(connection, &sent, now))?;
        }
        if behind == 0 || room * 2 <= share.limit {
            break;
        }
    }
    Ok(())
}

/// A message that is due, if it can be read.
struct Due {
    id: i64,
    lock: i64,
    /// Another one of its ordering key is ahead of it.
    is_behind: bool,
    outgoing: Result<Outgoing, Corrupt>,
}

fn due(connection: &Connection, topic: &str, now: Timestamp, at_most: usize) -> Result<Vec<Due>, Fault> {
    let mut statement = connection.prepare_cached(sql!("due_messages"))?;
    let mut rows = statement.query(params![topic, now.as_micros(), limit(at_most)])?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        let outgoing = outgoing(row);
        due.push(Due {
            id: row.get("id")?,
            lock: row.get("lock")?,
            is_behind: row.get("is_behind")?,
            outgoing,
        });
    }
    Ok(due)
}

fn outgoing(row: &Row<'_>) -> Result<Outgoing, Corrupt> {
    let id = RowReader::of("outbox", &"?", row).get("id")?;
    let row = RowReader::of("outbox", &id, row);
    Ok(Outgoing {
        id,
        message: message(&row)?,
        attempts: row.count("attempts")?,
        lock: row.get("lock")?,
        in_doubt: row.get("in_doubt")?,
        created_at: row.time("created_at")?,
        uncounted: row.get("uncounted")?,
    })
}

/// The message in the columns from the second to the sixth.
pub(super) fn message(row: &RowReader<'_>) -> Result<NewMessage, Corrupt> {
    Ok(NewMessage {
        topic: row.get("topic")?,
        idempotency_key: row.get("idempotency_key")?,
        ordering_key: row.get("ordering_key")?,
        payload: row.payload("payload")?,
        expires_at: row.optional_time("expires_at")?,
    })
}

fn settle(connection: &Connection, sent: &[Sent], now: Timestamp) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for sent in sent {
        settle_one(&transaction, sent, now)?;
    }
    transaction.commit()?;
    Ok(())
}

fn settle_one(connection: &Connection, sent: &Sent, now: Timestamp) -> Result<(), Fault> {
    let (status, due_at, error) = match &sent.report {
        Report::Delivered(_) => (Status::Succeeded, None, None),
        Report::Retry { after, error } => (Status::Failed, Some(now.plus(*after)), Some(error)),
        Report::Aborted(error) => (Status::Aborted, None, Some(error)),
        Report::GivenBack => return give_back(connection, sent, now),
    };
    let mut settle = connection.prepare_cached(sql!("settle_outbox"))?;
    let mut rows = settle.query(params![
        sent.id,
        sent.lock,
        status.as_str(),
        1,
        due_at.map(Timestamp::as_micros),
        error.map(|error| &error.code),
        error.map(|error| &error.message),
        now.as_micros(),
    ])?;
    // A lock that is not the newest has nothing to say.
    let Some(row) = rows.next()? else { return Ok(()) };
    if status.is_settled() {
        let answer = match &sent.report {
            Report::Delivered(answer) => answer.clone(),
            Report::Aborted(error) => Some(error.as_result()),
            Report::Retry { .. } | Report::GivenBack => None,
        };
        match Over::read(row) {
            Ok(message) => over(connection, &message, status, answer.as_ref(), now)?,
            Err(why) => tell_unread(&why),
        }
    }
    Ok(())
}

fn give_back(connection: &Connection, sent: &Sent, now: Timestamp) -> Result<(), Fault> {
    connection.prepare_cached(include_str!("give_back_message.sql"))?.execute(params![
        sent.id,
        sent.lock,
        now.as_micros()
    ])?;
    Ok(())
}

/// A message that is settled.
struct Over {
    topic: String,
    key: String,
    ordering_key: Option<String>,
    /// The topics across which the ordering key holds.
    ordering_scope: String,
}

impl Over {
    fn read(row: &Row<'_>) -> Result<Self, Corrupt> {
        let row = RowReader::of("outbox", &"settled", row);
        Ok(Self {
            topic: row.get("topic")?,
            key: row.get("idempotency_key")?,
            ordering_key: row.get("ordering_key")?,
            ordering_scope: row.get("ordering_scope")?,
        })
    }
}

/// Nobody can be told of the end of a message whose names cannot be read, and it holds up no other.
fn tell_unread(why: &Corrupt) {
    tracing::error!(%why, "an outbox message has ended, and nothing follows from it");
}

/// What follows from the end of a message: the ledger knows, and the next one of its ordering key may go.
fn over(
    connection: &Connection,
    over: &Over,
    status: Status,
    answer: Option<&Payload>,
    now: Timestamp,
) -> Result<(), Fault> {
    let state = if status == Status::Succeeded { "succeeded" } else { "failed" };
    connection.prepare_cached(include_str!("settle_claim.sql"))?.execute(params![
        scope(&over.topic),
        over.key,
        state,
        answer.map(Payload::as_str)
    ])?;
    if let Some(ordering_key) = &over.ordering_key {
        let mut next = connection.prepare_cached(sql!("let_next_go"))?;
        next.execute(params![over.ordering_scope, ordering_key, now.as_micros()])?;
    }
    Ok(())
}

fn rescue(connection: &Connection, at_most: usize, now: Timestamp) -> Result<Rescued, Fault> {
    isolating(connection, OUTBOX, now, |isolation| {
        if !isolation.is_apart() {
            return rescue_those(connection, None, at_most, now);
        }
        let values = params![now.as_micros(), limit(at_most)];
        let mut candidates = connection.prepare_cached(RESCUED)?;
        let ids = candidates.query_map(values, |row| row.get("id"))?.collect::<Result<Vec<i64>, _>>()?;
        let mut all = Rescued::default();
        for id in ids {
            let rescued = isolation.run(id, || rescue_those(connection, Some(id), 1, now))?;
            if let Some(rescued) = rescued {
                all.abandoned += rescued.abandoned;
                all.expired.extend(rescued.expired);
            }
        }
        Ok(all)
    })
}

/// Rescues the message of this number, or as many as there may be.
fn rescue_those(
    connection: &Connection,
    only: Option<i64>,
    at_most: usize,
    now: Timestamp,
) -> Result<Rescued, Fault> {
    let values = params![now.as_micros(), limit(at_most), only];
    let abandoned = connection.prepare_cached(sql!("abandoned_messages"))?.execute(values)?;
    let late = expired(connection, only, at_most, now)?;
    let error = crate::outbox::sink::Undelivered::new(delivery::EXPIRED, TOO_LATE);
    let mut expired = Vec::with_capacity(late.len());
    for (message, attempts, uncounted) in late {
        over(connection, &message, Status::Aborted, Some(&error.as_result()), now)?;
        let Over { topic, key: idempotency_key, .. } = message;
        expired.push(Expired { topic, idempotency_key, attempts, uncounted });
    }
    Ok(Rescued { abandoned: abandoned as u64, expired })
}

/// What is too late, after how many sends, and whether nobody has counted it.
fn expired(
    connection: &Connection,
    only: Option<i64>,
    at_most: usize,
    now: Timestamp,
) -> Result<Vec<(Over, u32, bool)>, Fault> {
    let mut statement = connection.prepare_cached(sql!("expired_messages"))?;
    let mut rows =
        statement.query(params![now.as_micros(), delivery::EXPIRED, TOO_LATE, limit(at_most), only])?;
    let mut expired = Vec::new();
    while let Some(row) = rows.next()? {
        match Over::read(row) {
            Ok(message) => expired.push((message, row.get("attempts")?, row.get("uncounted")?)),
            Err(why) => tell_unread(&why),
        }
    }
    Ok(expired)
}

fn ages(connection: &Connection) -> Result<Ages, Fault> {
    let mut statement = connection.prepare_cached(sql!(diagnostics::outbox_ages))?;
    let written = |row: &Row<'_>, column: &str| {
        row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_micros))
    };
    Ok(statement
        .query_row([], |row| Ok(Ages { oldest: written(row, "oldest")?, old: written(row, "old")? }))?)
}
