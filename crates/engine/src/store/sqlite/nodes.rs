//! Lives of processes, and what they own.
//!
//! Whoever has the file's lock is the only process that lives, so nobody waits for a lease to end: a new life
//! strikes off all before it and may take over what they owned at once.

use backstitch_kernel::saga::{Event, Recorded};
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::commit::event_row;
use super::events::append_events;
use super::fault::Fault;
use super::messages;
use super::parked::isolating;
use super::sql;
use super::values::{Reading, limit};
use crate::store::Corrupt;
use crate::store::nodes::{AdoptedBatch, AdoptedSaga, Epoch, Joined, Known, Node};
use crate::store::parked::ADOPTION;

pub(super) fn join(connection: &Connection, node: &Node, now: Timestamp) -> Result<Epoch, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute("delete from nodes", [])?;
    let lease_ms = i64::try_from(node.lease.as_millis()).unwrap_or(i64::MAX).max(1);
    transaction.execute(
        "insert into nodes (name, started_at, heartbeat_at, lease_ms) values (?1, ?2, ?2, ?3)",
        params![node.name, now.as_micros(), lease_ms],
    )?;
    let epoch = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(epoch)
}

/// Nobody waits for a heartbeat here: whoever reads this has the file's lock, and so lives.
pub(super) fn joined(connection: &Connection, now: Timestamp, at_most: usize) -> Result<Vec<Joined>, Fault> {
    let mut statement = connection.prepare_cached(sql!("nodes"))?;
    let joined = statement.query_map([limit(at_most)], |row| {
        let started_at = Timestamp::from_micros(row.get(2)?);
        let heartbeat_at = now.max(started_at);
        Ok(Joined { epoch: row.get(0)?, name: row.get(1)?, started_at, heartbeat_at, lives: true })
    })?;
    Ok(joined.collect::<Result<_, _>>()?)
}

pub(super) fn heartbeat(connection: &Connection, epoch: Epoch, now: Timestamp) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("update nodes set heartbeat_at = ?2 where epoch = ?1")?;
    Ok(statement.execute(params![epoch, now.as_micros()])? > 0)
}

pub(super) fn leave(connection: &Connection, epoch: Epoch, now: Timestamp) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute(sql!("release_sagas"), params![epoch, now.as_micros()])?;
    transaction.execute("delete from nodes where epoch = ?1", [epoch])?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn adopt(
    connection: &Connection,
    node: &Node,
    epoch: Epoch,
    known: &[Known],
    at: Timestamp,
    at_most: usize,
) -> Result<AdoptedBatch, Fault> {
    let event = Event::SagaAdopted { node: node.name.clone(), epoch };
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
                        .prepare_cached("update or fail sagas set owner = ?2, wake_at = null where id = ?1")?
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
    let mut statement = connection.prepare_cached(include_str!("adopt_candidates.sql"))?;
    let values = params![known.name, known.version, epoch, at.as_micros(), limit(at_most)];
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let hex: String = row.get(2)?;
        let saga = Reading::of("sagas", &hex, row).saga(0, "id");
        let item = saga.as_ref().map_or_else(|_| hex.clone(), ToString::to_string);
        found.push(Candidate { item, saga, orphaned: row.get(1)? });
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
    let head = "select seq, at from saga_events where saga_id = ?1 order by seq desc limit 1";
    let mut head = connection.prepare_cached(head)?;
    let mut rows = head.query([saga.0.as_bytes()])?;
    let (seq, head_at) = match rows.next()? {
        Some(row) => {
            let row = Reading::of("saga_events", &saga, row);
            (row.count(0, "seq")?, row.time(1, "at")?)
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

pub(super) fn next_wake(
    connection: &Connection,
    known: &[Known],
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let mut statement = connection.prepare_cached(sql!("next_wake"))?;
    let mut next = None;
    for known in known {
        let values = params![known.name, known.version, now.as_micros()];
        let due: Option<i64> = statement.query_row(values, |row| row.get(0))?;
        next = [next, due].into_iter().flatten().min();
    }
    Ok(next.map(Timestamp::from_micros))
}

/// The active sagas of this incarnation: only those have an owner.
pub(super) fn owned(connection: &Connection, epoch: Epoch) -> Result<Vec<SagaId>, Fault> {
    let mut statement = connection.prepare_cached("select id from sagas where owner = ?1")?;
    let mut rows = statement.query([epoch])?;
    let mut sagas = Vec::new();
    while let Some(row) = rows.next()? {
        sagas.push(Reading::of("sagas", &"?", row).saga(0, "id")?);
    }
    Ok(sagas)
}
