//! Ownership of sagas: adopted, released.

use async_trait::async_trait;
use backstitch_kernel::saga::{Event, Recorded};
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::commit::event_row;
use super::events::append_events;
use super::fault::Fault;
use super::parked::isolating;
use super::values::{RowReader, integer, limit};
use super::{SqliteStore, messages, sql};
use crate::store::nodes::{AdoptedBatch, AdoptedSaga, Epoch, Known, Node};
use crate::store::parked::ADOPTION;
use crate::store::{Corrupt, Error, OwnershipStore, Release};

#[async_trait]
impl OwnershipStore for SqliteStore {
    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        let (node, known) = (node.clone(), known.to_vec());
        self.connections.write(move |connection| adopt(connection, &node, epoch, &known, at, limit)).await
    }

    async fn release(&self, saga: Release) -> Result<bool, Error> {
        self.connections.write(move |connection| release(connection, saga)).await
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.connections.read(move |connection| owned(connection, epoch)).await
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        let (known, now) = (known.to_vec(), self.clock.now());
        self.connections.read(move |connection| next_wake(connection, &known, now)).await
    }
}

fn adopt(
    connection: &Connection,
    node: &Node,
    epoch: Epoch,
    known: &[Known],
    at: Timestamp,
    at_most: usize,
) -> Result<AdoptedBatch, Fault> {
    let event = node.adoption(epoch);
    isolating(connection, ADOPTION, at, |isolation| {
        let mut sagas = Vec::new();
        let mut picked = 0;
        for known in known {
            for Candidate { item, saga, orphaned } in
                candidates(connection, epoch, known, at, at_most - picked)?
            {
                picked += 1;
                let taken = isolation.run(item, || {
                    let saga = saga?;
                    let mut seq = None;
                    // A saga without an owner was released by it: there is no decision of an old owner to keep out.
                    if orphaned {
                        let recorded = append_adoption(connection, saga, &event, at)?;
                        if let Some(message) = node.announced.message(saga, &known.name, &recorded) {
                            messages::insert(connection, &message, None, false, recorded.at)?;
                        }
                        seq = Some(recorded.seq);
                    }
                    connection
                        .prepare_cached(sql!(ownership::take))?
                        .execute(params![saga.0.as_bytes(), epoch])?;
                    Ok(AdoptedSaga { id: saga, seq })
                })?;
                sagas.extend(taken);
            }
        }
        Ok(AdoptedBatch { sagas, more: picked == at_most })
    })
}

/// A saga that this process may take.
struct Candidate {
    /// What it is parked as.
    item: String,
    saga: Result<SagaId, Corrupt>,
    /// Whether a process that is gone owns it.
    orphaned: bool,
}

fn candidates(
    connection: &Connection,
    epoch: Epoch,
    known: &Known,
    at: Timestamp,
    at_most: usize,
) -> Result<Vec<Candidate>, Fault> {
    let mut statement = connection.prepare_cached(sql!(ownership::candidates))?;
    let values = params![known.name, known.version, epoch, at.as_micros(), limit(at_most)];
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let hex: String = row.get("item")?;
        let saga = RowReader::of("sagas", &hex, row).saga("id");
        let item = saga.as_ref().map_or_else(|_| hex.clone(), ToString::to_string);
        found.push(Candidate { item, saga, orphaned: row.get("orphaned")? });
    }
    Ok(found)
}

/// Appending at the next number is what keeps the old owner's decisions out, whenever they arrive.
fn append_adoption(
    connection: &Connection,
    saga: SagaId,
    event: &Event,
    at: Timestamp,
) -> Result<Recorded, Fault> {
    let mut head = connection.prepare_cached(sql!(ownership::head))?;
    let mut rows = head.query([saga.0.as_bytes()])?;
    let (seq, head_at) = match rows.next()? {
        Some(row) => {
            let row = RowReader::of("saga_events", &saga, row);
            (row.count("seq")?, row.time("at")?)
        }
        None => (0_u64, at),
    };
    let adopted = Recorded {
        seq: seq + 1,
        // A log's times never go backwards, whatever the clock does between two lives.
        at: at.max(head_at),
        event: event.clone(),
    };
    append_events(connection, &[event_row(&saga, &adopted)])?;
    Ok(adopted)
}

fn release(connection: &Connection, release: Release) -> Result<bool, Fault> {
    let Release { saga, epoch, seq, inbox_seen, wake_at } = release;
    let id = saga.0.as_bytes();
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let released = transaction.prepare_cached(sql!(ownership::release))?.execute(params![
        id,
        epoch,
        wake_at.map(Timestamp::as_micros),
        integer(inbox_seen),
        integer(seq)
    ])?;
    if released > 0 {
        transaction.prepare_cached(sql!(inbox::clear))?.execute([id])?;
    }
    transaction.commit()?;
    Ok(released > 0)
}

/// The active sagas of this incarnation: only those have an owner.
fn owned(connection: &Connection, epoch: Epoch) -> Result<Vec<SagaId>, Fault> {
    let mut statement = connection.prepare_cached(sql!(ownership::owned))?;
    let mut rows = statement.query([epoch])?;
    let mut sagas = Vec::new();
    while let Some(row) = rows.next()? {
        sagas.push(RowReader::of("sagas", &"?", row).saga("id")?);
    }
    Ok(sagas)
}

fn next_wake(connection: &Connection, known: &[Known], now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    let mut statement = connection.prepare_cached(sql!(ownership::next_wake))?;
    let mut next = None;
    for known in known {
        let values = params![known.name, known.version, now.as_micros()];
        let due: Option<i64> = statement.query_row(values, |row| row.get("wake_at"))?;
        next = [next, due].into_iter().flatten().min();
    }
    Ok(next.map(Timestamp::from_micros))
}
