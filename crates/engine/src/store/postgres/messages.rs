//! Messages as they are asked for, asked about and asked for again.

use std::collections::HashMap;
use std::time::SystemTime;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use backstitch_kernel::idempotency::{self, Digest};
use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row, Transaction};

use super::outbox::{message, payload};
use super::qualified::QualifiedStatements;
use super::session::{Session, change, conclude, read};
use super::values::{get, get_time, is_text, limit, micros, time, timestamp};
use super::{PostgresStore, durability, fault, sql};
use crate::outbox::sink::Undelivered;
use crate::store::outbox::{Kept, Listing, Publication, Published, REMOVED, Retried, Status, list_of};
use crate::store::{Corrupt, Error, MessageStore};

#[async_trait]
impl MessageStore for PostgresStore {
    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        change!(self.sessions.to_ask(), |session| publish(session, self.sessions.qualified(), batch, at))
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        read!(self.sessions, |session| message_numbered(session, id))
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        read!(self.sessions, |session| message_of(session, topic, key))
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        read!(self.sessions, |session| list(session, listing, limit))
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        change!(self.sessions.to_ask(), |session| retry(session, id, at))
    }
}

impl PostgresStore {
    /// Writes a message inside the caller's own transaction, and its key into the ledger: both stand or fall with that
    /// transaction. The caller's `search_path` does not matter.
    ///
    /// # Errors
    /// When the database cannot be read or written. As after any failed statement, `PostgreSQL` then refuses all but a
    /// rollback.
    pub async fn publish_in(
        &self,
        transaction: &Transaction<'_>,
        publication: &Publication,
        at: Timestamp,
    ) -> Result<Published, Error> {
        let one = std::slice::from_ref(publication);
        let published = publish_on(transaction, self.sessions.qualified(), one, false, at).await;
        let first = published.map_err(|why| fault::error(&why))?.into_iter().next();
        first.ok_or_else(|| Error::Unavailable("the database gave no answer".to_owned()))
    }
}

/// As one transaction. A key that somebody's open transaction holds is not waited for: those beside it go on, and it is
/// told.
async fn publish(
    session: &mut Session,
    statements: &QualifiedStatements,
    batch: &[Publication],
    at: Timestamp,
) -> Result<Vec<Published>, Error> {
    match try_publish(session, statements, batch, at).await {
        Err(why) if fault::is_held(&why) => {}
        published => return published.map_err(|why| session.told(&why)),
    }
    let mut published = Vec::with_capacity(batch.len());
    for publication in batch {
        match try_publish(session, statements, std::slice::from_ref(publication), at).await {
            Ok(one) => published.extend(one),
            Err(why) if fault::is_held(&why) => published.push(Published::Held),
            Err(why) => return Err(session.told(&why)),
        }
    }
    Ok(published)
}

async fn try_publish(
    session: &mut Session,
    statements: &QualifiedStatements,
    batch: &[Publication],
    at: Timestamp,
) -> Result<Vec<Published>, tokio_postgres::Error> {
    let transaction = session.transaction().await?;
    transaction.batch_execute("set local lock_timeout = '500ms'").await?;
    let published = publish_on(&*transaction, statements, batch, true, at).await;
    conclude(transaction, published).await
}

/// Whoever knows that they stand counts them.
async fn publish_on(
    client: &impl GenericClient,
    statements: &QualifiedStatements,
    batch: &[Publication],
    counted: bool,
    at: Timestamp,
) -> Result<Vec<Published>, tokio_postgres::Error> {
    let rows = Rows::of(batch.iter().filter(|publication| unkeepable(publication).is_none()));
    let written = client.query(&statements.publish, &rows.values(&time(at), &counted)).await?;
    let mut written: HashMap<(String, String), i64> =
        written.iter().map(|row| ((row.get("topic"), row.get("idempotency_key")), row.get("id"))).collect();
    let mut first = HashMap::new();
    if written.len() < batch.len() {
        for row in client.query(&statements.find_messages, &[&rows.topics, &rows.keys]).await? {
            let digest: Option<[u8; 32]> = row.get::<_, &[u8]>("digest").try_into().ok();
            let found = (digest.map(Digest), timestamp(row.get("at")), row.get::<_, Option<i64>>("id"));
            first.insert((row.get::<_, String>("topic"), row.get::<_, String>("key")), found);
        }
        // The first request with this key may have an unknown outcome.
        durability::confirm(client).await?;
    }
    Ok(batch
        .iter()
        .map(|publication| {
            if let Some(why) = unkeepable(publication) {
                return Published::Refused(why);
            }
            let key = (publication.message.topic.clone(), publication.message.idempotency_key.clone());
            // The first one of a batch that asks for the same twice.
            if let Some(id) = written.remove(&key) {
                return Published::Accepted(id);
            }
            let Some((Some(digest), at, id)) = first.get(&key) else {
                return Published::Refused(format!(
                    "the topic {:?} has a message of the engine's own under the key {:?}: use another key",
                    key.0, key.1
                ));
            };
            let id = id.unwrap_or(REMOVED);
            match idempotency::judge(Some(digest), &publication.digest) {
                idempotency::Verdict::Conflict => Published::Conflict { id, digest: *digest, at: *at },
                idempotency::Verdict::Fresh | idempotency::Verdict::Replay => Published::Replay(id),
            }
        })
        .collect())
}

/// Why the database cannot hold it, if it cannot.
fn unkeepable(publication: &Publication) -> Option<String> {
    let message = &publication.message;
    let texts = [
        ("the topic", Some(&message.topic)),
        ("the idempotency key", Some(&message.idempotency_key)),
        ("the ordering key", message.ordering_key.as_ref()),
        ("the ordering scope", publication.ordering_scope.as_ref()),
    ];
    let unfit = texts.into_iter().find(|(_, text)| text.is_some_and(|text| !is_text(text)));
    unfit.map(|(what, _)| format!("{what} holds a NUL character, which PostgreSQL cannot keep: leave it out"))
}

/// Messages, column by column.
#[derive(Default)]
struct Rows<'a> {
    topics: Vec<&'a str>,
    keys: Vec<&'a str>,
    ordering_keys: Vec<Option<&'a str>>,
    payloads: Vec<&'a str>,
    digests: Vec<&'a [u8]>,
    expiries: Vec<Option<SystemTime>>,
    lifetimes: Vec<Option<i64>>,
    ordering_scopes: Vec<Option<&'a str>>,
}

impl<'a> Rows<'a> {
    fn of(publications: impl Iterator<Item = &'a Publication>) -> Self {
        let mut rows = Self::default();
        for Publication { message, digest, expires_in, ordering_scope } in publications {
            rows.topics.push(&message.topic);
            rows.keys.push(&message.idempotency_key);
            rows.ordering_keys.push(message.ordering_key.as_deref());
            rows.payloads.push(message.payload.as_str());
            rows.digests.push(&digest.0);
            rows.expiries.push(message.expires_at.map(time));
            rows.lifetimes.push(expires_in.map(micros));
            rows.ordering_scopes.push(ordering_scope.as_deref());
        }
        rows
    }

    fn values<'v>(&'v self, at: &'v SystemTime, counted: &'v bool) -> [&'v (dyn ToSql + Sync); 10] {
        let Self { topics, keys, ordering_keys, payloads, digests, expiries, lifetimes, ordering_scopes } =
            self;
        [topics, keys, ordering_keys, payloads, digests, expiries, at, counted, lifetimes, ordering_scopes]
    }
}

async fn message_numbered(session: &Session, id: i64) -> Result<Option<Kept>, Error> {
    first(&session.query(sql!(messages::by_id), &[&id]).await?)
}

async fn message_of(session: &Session, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
    if !is_text(topic) || !is_text(key) {
        return Ok(None);
    }
    first(&session.query(sql!(messages::by_key), &[&topic, &key]).await?)
}

async fn list(session: &Session, listing: &Listing, rows: usize) -> Result<Vec<Kept>, Error> {
    if let Some(topic) = &listing.topic {
        return list_topic(session, topic, listing, rows).await;
    }
    let status = listing.status.map(Status::as_str);
    let at_most = limit(rows);
    let mut values: Vec<&(dyn ToSql + Sync)> = Vec::new();
    values.extend(status.as_ref().map(|status| status as &(dyn ToSql + Sync)));
    values.extend(listing.before.as_ref().map(|before| before as &(dyn ToSql + Sync)));
    values.push(&at_most);
    session.query(&list_of(sql!(messages::messages), listing), &values).await?.iter().map(kept).collect()
}

/// The index of topics is ordered by status within, so that each has its own newest.
async fn list_topic(
    session: &Session,
    topic: &str,
    listing: &Listing,
    rows: usize,
) -> Result<Vec<Kept>, Error> {
    if !is_text(topic) {
        return Ok(Vec::new());
    }
    let statuses = listing.status.map_or(Status::ALL.to_vec(), |status| vec![status]);
    let statuses: Vec<&str> = statuses.into_iter().map(Status::as_str).collect();
    let before = listing.before.unwrap_or(i64::MAX);
    let values: [&(dyn ToSql + Sync); 4] = [&statuses, &topic, &before, &limit(rows)];
    session.query(sql!(messages::of_topic), &values).await?.iter().map(kept).collect()
}

fn first(rows: &[Row]) -> Result<Option<Kept>, Error> {
    rows.first().map(kept).transpose()
}

fn kept(row: &Row) -> Result<Kept, Error> {
    let id: i64 = get(row, "id")?;
    let optional = |column| Ok::<_, Error>(get::<Option<SystemTime>>(row, column)?.map(timestamp));
    let digest: Option<&[u8]> = get(row, "request_digest")?;
    let corrupt =
        |why: String| Corrupt { table: "outbox", column: "request_digest", id: format!("message {id}"), why };
    let digest = digest.map(|bytes| {
        bytes.try_into().map(Digest).map_err(|_| corrupt(format!("{} bytes are no digest", bytes.len())))
    });
    let code: Option<String> = get(row, "last_error_code")?;
    let said: Option<String> = get(row, "last_error_msg")?;
    let result: Option<&str> = get(row, "result")?;
    Ok(Kept {
        id,
        message: message(row)?,
        digest: digest.transpose()?,
        // The table's check leaves nothing else.
        status: Status::named(get(row, "status")?).unwrap_or(Status::Pending),
        attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
        in_doubt: get(row, "in_doubt")?,
        due_at: optional("due_at")?,
        locked_by: get(row, "locked_by")?,
        locked_at: optional("locked_at")?,
        retry_of: get(row, "retry_of")?,
        last_error: code.zip(said).map(|(code, said)| Undelivered::new(code, said)),
        result: result.map(|text| payload(row, "result", text)).transpose()?,
        created_at: get_time(row, "created_at")?,
        updated_at: get_time(row, "updated_at")?,
    })
}

async fn retry(session: &Session, id: i64, at: Timestamp) -> Result<Retried, Error> {
    match retry_once(session, id, at).await? {
        Some(retried) => Ok(retried),
        // Whoever was a moment faster is there to be seen by now.
        None => retry_once(session, id, at).await?.ok_or_else(|| {
            Error::Unavailable("others ask for the same message all the time: try again".to_owned())
        }),
    }
}

/// Nothing where somebody else asked for it while this was under way.
async fn retry_once(session: &Session, id: i64, at: Timestamp) -> Result<Option<Retried>, Error> {
    let rows = session.query(sql!(messages::retry), &[&id, &time(at)]).await?;
    let Some(row) = rows.first() else {
        return Ok(Some(Retried::Unknown));
    };
    let (new, earlier): (Option<i64>, Option<i64>) = (get(row, "new")?, get(row, "earlier")?);
    let status = Status::named(get(row, "status")?).unwrap_or(Status::Pending);
    Ok(match (new, earlier) {
        (Some(new), _) => Some(Retried::Accepted(new)),
        (None, Some(earlier)) => {
            // The first request for it may have an unknown outcome.
            session.confirm().await?;
            Some(Retried::Replay(earlier))
        }
        (None, None) if status == Status::Aborted => None,
        (None, None) => Some(Retried::NotAborted(status)),
    })
}
