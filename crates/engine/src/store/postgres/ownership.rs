//! Ownership of sagas: adopted, released.

use async_trait::async_trait;
use backstitch_kernel::saga::{Event, Recorded, codec};
use backstitch_kernel::{SagaId, Timestamp};
use deadpool_postgres::Transaction;
use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::parked::park_item;
use super::sagas::recorded;
use super::session::{Session, change, conclude, read};
use super::values::{get, is_text, limit, time, timestamp};
use super::{PostgresStore, sql};
use crate::outbox::Announced;
use crate::store::isolation::isolate_picked;
use crate::store::nodes::{AdoptedBatch, AdoptedSaga, Epoch, Known, Node};
use crate::store::outbox::NewMessage;
use crate::store::parked::{ADOPTION, claimed};
use crate::store::{Error, OwnershipStore, Release};

#[async_trait]
impl OwnershipStore for PostgresStore {
    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        change!(self.sessions.to_ask(), |session| adopt(session, node, epoch, known, at, limit))
    }

    async fn release(&self, saga: Release) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| release(session, saga))
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        read!(self.sessions, |session| owned(session, epoch))
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        read!(self.sessions, |session| next_wake(session, known))
    }
}

/// So many sagas are looked at in halves when one of them is rejected. Those that are taken run only once this is over.
const ISOLATE_BATCH: usize = 64;

async fn adopt(
    session: &mut Session,
    node: &Node,
    epoch: Epoch,
    known: &[Known],
    at: Timestamp,
    rows: usize,
) -> Result<AdoptedBatch, Error> {
    let (names, versions) = columns(known);
    let event = node.adoption(epoch);
    session.query(sql!(nodes::remove_dead), &[]).await?;
    let (at, data) = (&time(at), &codec::data(&event));
    let (names, versions, event) = (&names, &versions, &event);
    let (all, some) = (&limit(rows), &limit(rows.min(ISOLATE_BATCH)));
    // One part of the batch is written at a time.
    let session = &Mutex::new(session);
    let candidates = || async move {
        let values: [&(dyn ToSql + Sync); 5] = [names, versions, &epoch, some, &None::<Vec<Uuid>>];
        let picked = session.lock().await.query(sql!(ownership::candidates), &values).await?;
        picked.iter().map(|row| get(row, "id").map(SagaId)).collect()
    };
    let write = |only: Option<Vec<SagaId>>| async move {
        let mut session = session.lock().await;
        let only = only.map(|sagas| sagas.into_iter().map(|saga| saga.0).collect::<Vec<Uuid>>());
        let values: [&(dyn ToSql + Sync); 7] = [names, versions, &epoch, all, &only, at, data];
        if node.announced.is_empty() {
            return session.query(sql!(ownership::adopt), &values).await;
        }
        let told = adopt_and_tell(&mut session, &values, event, &node.announced).await;
        told.map_err(|why| session.told(&why))
    };
    let park = |saga: SagaId, reason| async move {
        park_item(&**session.lock().await, ADOPTION, saga, reason).await
    };
    let adopted = isolate_picked(candidates, write, park).await?;
    let (parked, is_isolated) = (adopted.parked, adopted.is_isolated);
    let adopted = claimed(ADOPTION, adopted)?;
    let sagas = adopted.iter().map(|row| Ok(AdoptedSaga { id: SagaId(get(row, "id")?), seq: seq(row)? }));
    let sagas = sagas.collect::<Result<Vec<_>, Error>>()?;
    // Where one is rejected, only some are looked at.
    let is_part = is_isolated && (parked > 0 || !sagas.is_empty());
    Ok(AdoptedBatch { more: is_part || sagas.len() == rows, sagas })
}

/// The number of the adoption; only that of an orphaned saga is an event.
fn seq(row: &Row) -> Result<Option<u64>, Error> {
    Ok(get::<Option<i32>>(row, "seq")?.map(|seq| seq.unsigned_abs().into()))
}

async fn adopt_and_tell(
    session: &mut Session,
    values: &[&(dyn ToSql + Sync)],
    event: &Event,
    announced: &Announced,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let transaction = session.transaction().await?;
    let adopted = adopt_and_tell_on(&transaction, values, event, announced).await;
    conclude(transaction, adopted).await
}

async fn adopt_and_tell_on(
    transaction: &Transaction<'_>,
    values: &[&(dyn ToSql + Sync)],
    event: &Event,
    announced: &Announced,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(sql!(ownership::adopt)).await?;
    let adopted = transaction.query(&statement, values).await?;
    let mut said = starts(transaction, &adopted, announced).await?;
    for row in &adopted {
        // Only the adoption of an orphaned saga is an event.
        let Some(seq) = row.get::<_, Option<i32>>("seq") else { continue };
        let seq = seq.unsigned_abs().into();
        let recorded = Recorded { seq, at: timestamp(row.get("at")), event: event.clone() };
        let message = announced.message(SagaId(row.get("id")), row.get("definition"), &recorded);
        said.extend(message.map(|message| (recorded.at, message)));
    }
    if !said.is_empty() {
        write(transaction, &said).await?;
    }
    Ok(adopted)
}

/// `backstitch.start` in SQL knows of no engine's settings: what it started is told by whoever takes it up first. What was
/// told already keeps its first message.
async fn starts(
    transaction: &Transaction<'_>,
    adopted: &[Row],
    announced: &Announced,
) -> Result<Vec<(Timestamp, NewMessage)>, tokio_postgres::Error> {
    let released = adopted.iter().filter(|row| row.get::<_, Option<i32>>("seq").is_none());
    let released: Vec<Uuid> = released.map(|row| row.get("id")).collect();
    if released.is_empty() || !announced.includes("saga.started") {
        return Ok(Vec::new());
    }
    let statement = transaction.prepare_cached(sql!(sagas::first_events)).await?;
    let starts = transaction.query(&statement, &[&released]).await?;
    let message = |row: &Row| {
        let saga = SagaId(row.get("saga_id"));
        // One that cannot be read is told of by whoever runs the saga.
        let start = recorded(row, saga).ok()?;
        let Event::SagaStarted(started) = &start.event else { return None };
        Some((start.at, announced.message(saga, &started.definition, &start)?))
    };
    Ok(starts.iter().filter_map(message).collect())
}

async fn write(
    transaction: &Transaction<'_>,
    said: &[(Timestamp, NewMessage)],
) -> Result<(), tokio_postgres::Error> {
    let column = |of: fn(&NewMessage) -> &str| said.iter().map(|(_, message)| of(message)).collect();
    let times: Vec<_> = said.iter().map(|(at, _)| time(*at)).collect();
    let topics: Vec<&str> = column(|message| &message.topic);
    let keys: Vec<&str> = column(|message| &message.idempotency_key);
    let payloads: Vec<&str> = column(|message| message.payload.as_str());
    let ordering: Vec<Option<&str>> =
        said.iter().map(|(_, message)| message.ordering_key.as_deref()).collect();
    let statement = transaction.prepare_cached(sql!(messages::write)).await?;
    transaction.query(&statement, &[&times, &topics, &keys, &ordering, &payloads]).await?;
    Ok(())
}

async fn release(session: &Session, release: Release) -> Result<bool, Error> {
    let Release { saga, epoch, seq, inbox_seen, wake_at } = release;
    let number = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let (seq, seen) = (number(seq), number(inbox_seen));
    let values: [&(dyn ToSql + Sync); 5] = [&saga.0, &epoch, &wake_at.map(time), &seen, &seq];
    Ok(!session.query(sql!(ownership::release), &values).await?.is_empty())
}

/// The active sagas of this incarnation: only those have an owner.
async fn owned(session: &Session, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
    let rows = session.query(sql!(ownership::owned), &[&epoch]).await?;
    rows.iter().map(|row| get(row, "id").map(SagaId)).collect()
}

async fn next_wake(session: &Session, known: &[Known]) -> Result<Option<Timestamp>, Error> {
    let (names, versions) = columns(known);
    let rows = session.query(sql!(ownership::next_wake), &[&names, &versions]).await?;
    let wake_at = rows.first().map(|row| get::<Option<_>>(row, "wake_at")).transpose()?;
    Ok(wake_at.flatten().map(timestamp))
}

/// A version that no column can hold is the version of no saga.
fn columns(known: &[Known]) -> (Vec<&str>, Vec<i32>) {
    let holdable = known.iter().filter_map(|it| Some((&*it.name, i32::try_from(it.version).ok()?)));
    holdable.filter(|(name, _)| is_text(name)).unzip()
}
