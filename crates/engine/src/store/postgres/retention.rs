//! Removes what has been over for long enough. Nodes that do so at once pass over each other's rows.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::saga::Status;
use backstitch_kernel::{Payload, SagaId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::session::{Session, change, conclude, read};
use super::values::{get, get_time, limit, millis, time};
use super::{PostgresStore, sql};
use crate::store::retention::{Bulk, Gone, Key, KeyName, OldKey, OldKeys, OldMessage, OldMessages, OldSagas};
use crate::store::{Corrupt, Error, RetentionStore, outbox};

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn take_turn(&self, holder: &str, lease: Duration) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| take_turn(session, holder, lease))
    }

    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        read!(self.sessions, |session| old_sagas(session, status, age, after, limit))
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        read!(self.sessions, |session| bulk_of_sagas(session, sagas))
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        read!(self.sessions, |session| keys_of_sagas(session, sagas))
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        change!(self.sessions.to_ask(), |session| remove_sagas(session, sagas, status, age))
    }

    async fn old_messages(
        &self,
        status: outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        read!(self.sessions, |session| old_messages(session, status, age, besides, after, limit))
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        change!(self.sessions.to_ask(), |session| remove_messages(session, messages))
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        read!(self.sessions, |session| old_keys(session, age, after, limit))
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        change!(self.sessions.to_ask(), |session| remove_keys(session, keys))
    }
}

/// Whoever has it may keep it, and anybody may take it whose time is over.
async fn take_turn(session: &Session, holder: &str, lease: Duration) -> Result<bool, Error> {
    let taken = session.query(sql!(retention::acquire_lease), &[&holder, &millis(lease)]).await?;
    Ok(!taken.is_empty())
}

fn ids(sagas: &[SagaId]) -> Vec<Uuid> {
    sagas.iter().map(|saga| saga.0).collect()
}

async fn old_sagas(
    session: &Session,
    status: Status,
    age: Duration,
    after: Option<SagaId>,
    rows: usize,
) -> Result<OldSagas, Error> {
    let after = after.map_or(Uuid::nil(), |saga| saga.0);
    let values = [&status.as_str() as _, &millis(age) as _, &after as _, &limit(rows) as _];
    let page = session.query(sql!(retention::old_sagas), &values).await?;
    let mut found = OldSagas::default();
    for row in &page {
        if get(row, "old")? {
            found.old.push(SagaId(get(row, "id")?));
        }
    }
    if let Some(last) = page.last()
        && page.len() == rows
        && !get::<bool>(last, "young")?
    {
        found.next = Some(SagaId(get(last, "id")?));
    }
    Ok(found)
}

async fn bulk_of_sagas(session: &Session, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
    let count = |row: &Row, column| Ok::<u64, Error>(get::<i64>(row, column)?.unsigned_abs());
    let bulk = |row: &Row| {
        let bulk = Bulk { rows: count(row, "events")?, bytes: count(row, "bytes")? };
        Ok((SagaId(get(row, "saga_id")?), bulk))
    };
    session.query(sql!(retention::log_sizes), &[&ids(sagas)]).await?.iter().map(bulk).collect()
}

async fn keys_of_sagas(session: &Session, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
    session.query(sql!(idempotency::of_sagas), &[&ids(sagas)]).await?.iter().map(key).collect()
}

/// The row goes first, then what belongs to it: a log that lost its row can go, and none before.
async fn remove_sagas(
    session: &mut Session,
    sagas: &[SagaId],
    status: Status,
    age: Duration,
) -> Result<Gone, Error> {
    let (sagas, age) = (ids(sagas), millis(age));
    let removal = async {
        let transaction = session.transaction().await?;
        let removal = async {
            let rows = transaction.prepare_cached(sql!(retention::remove_sagas)).await?;
            let removed = transaction.query(&rows, &[&sagas, &status.as_str(), &age]).await?;
            let removed: Vec<Uuid> = removed.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?;
            let belongings = transaction.prepare_cached(sql!(retention::remove_rest_of_sagas)).await?;
            let counts = transaction.query_one(&belongings, &[&removed]).await?;
            Ok((removed.len() as u64, counts))
        };
        let outcome = removal.await;
        conclude(transaction, outcome).await
    };
    let removal = removal.await.map_err(|why| session.told(&why));
    let (sagas, counts) = removal?;
    let count = |column| Ok::<u64, Error>(get::<i64>(&counts, column)?.unsigned_abs());
    Ok(Gone { sagas, events: count("events")?, keys: count("keys")?, jobs: count("jobs")? })
}

async fn old_messages(
    session: &Session,
    status: outbox::Status,
    age: Duration,
    besides: Option<&str>,
    after: Option<i64>,
    rows: usize,
) -> Result<OldMessages, Error> {
    let after = after.unwrap_or_default();
    let values = [&status.as_str() as _, &millis(age) as _, &limit(rows) as _, &besides as _, &after as _];
    let page = session.query(sql!(retention::old_messages), &values).await?;
    let mut found = OldMessages::default();
    for row in &page {
        if get(row, "old")? {
            found
                .old
                .push(OldMessage { id: get(row, "id")?, bytes: get::<i64>(row, "bytes")?.unsigned_abs() });
        }
    }
    if let Some(last) = page.last().filter(|_| page.len() == rows) {
        found.next = Some(get(last, "id")?);
    }
    Ok(found)
}

async fn remove_messages(session: &Session, messages: &[i64]) -> Result<u64, Error> {
    Ok(session.query(sql!(retention::remove_messages), &[&messages]).await?.len() as u64)
}

async fn old_keys(
    session: &Session,
    age: Duration,
    after: Option<&KeyName>,
    rows: usize,
) -> Result<OldKeys, Error> {
    let earliest = Timestamp::from_micros(i64::MIN);
    let (at, scope, key) =
        after.map_or((earliest, "", ""), |after| (after.at, after.scope.as_str(), after.key.as_str()));
    let (age, at, rows) = (millis(age), time(at), limit(rows));
    let page = session.query(sql!(idempotency::old), &[&age, &at, &scope, &key, &rows]).await?;
    let mut found = OldKeys::default();
    for row in &page {
        if !get::<bool>(row, "old")? {
            continue;
        }
        let kept = match self::key(row) {
            Ok(key) => Ok(key),
            Err(Error::Corrupt(why)) => Err(why),
            Err(error) => return Err(error),
        };
        found.old.push(OldKey { name: name(row)?, kept });
    }
    if let Some(last) = page.last().filter(|_| limit(page.len()) == rows) {
        found.next = Some(name(last)?);
    }
    Ok(found)
}

fn name(row: &Row) -> Result<KeyName, Error> {
    Ok(KeyName { at: get_time(row, "at")?, scope: get(row, "scope")?, key: get(row, "key")? })
}

async fn remove_keys(session: &Session, keys: &[KeyName]) -> Result<u64, Error> {
    let scopes: Vec<&str> = keys.iter().map(|key| key.scope.as_str()).collect();
    let names: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let times: Vec<_> = keys.iter().map(|key| time(key.at)).collect();
    Ok(session.query(sql!(idempotency::remove), &[&scopes, &names, &times]).await?.len() as u64)
}

fn key(row: &Row) -> Result<Key, Error> {
    let key: String = get(row, "key")?;
    let corrupt = |column, why: String| Corrupt { table: "idempotency_ledger", column, id: key.clone(), why };
    let digest: &[u8] = get(row, "digest")?;
    let digest = digest.try_into().map_err(|_| corrupt("digest", "it has not 32 bytes".to_owned()))?;
    let result: Option<&str> = get(row, "result")?;
    let result = result.map(Payload::parse).transpose().map_err(|why| corrupt("result", why.to_string()))?;
    let at: Timestamp = get_time(row, "at")?;
    Ok(Key {
        scope: get(row, "scope")?,
        digest: Digest(digest),
        state: get(row, "state")?,
        saga: get::<Option<Uuid>>(row, "saga_id")?.map(SagaId),
        result,
        at,
        key,
    })
}
