//! Lives of processes, and what they own.
//!
//! Whoever has the file's lock is the only process that lives, so nobody waits for a lease to end: a new life
//! strikes off all before it and may take over what they owned at once.

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::values::limit;
use super::{SqliteStore, sql};
use crate::store::nodes::{Epoch, Joined, Node};
use crate::store::{Error, NodeStore};

#[async_trait]
impl NodeStore for SqliteStore {
    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| joined(connection, now, limit)).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        let (node, now) = (node.clone(), self.clock.now());
        self.connections.write(move |connection| join(connection, &node, now)).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| heartbeat(connection, epoch, now)).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| leave(connection, epoch, now)).await
    }
}

fn join(connection: &Connection, node: &Node, now: Timestamp) -> Result<Epoch, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute(sql!(nodes::remove_all), [])?;
    let lease_ms = i64::try_from(node.lease.as_millis()).unwrap_or(i64::MAX).max(1);
    transaction.execute(sql!(nodes::join), params![node.name, now.as_micros(), lease_ms])?;
    let epoch = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(epoch)
}

/// Nobody waits for a heartbeat here: whoever reads this has the file's lock, and so lives.
fn joined(connection: &Connection, now: Timestamp, at_most: usize) -> Result<Vec<Joined>, Fault> {
    let mut statement = connection.prepare_cached(sql!(nodes::list))?;
    let joined = statement.query_map([limit(at_most)], |row| {
        let started_at = Timestamp::from_micros(row.get("started_at")?);
        let heartbeat_at = now.max(started_at);
        Ok(Joined { epoch: row.get("epoch")?, name: row.get("name")?, started_at, heartbeat_at, lives: true })
    })?;
    Ok(joined.collect::<Result<_, _>>()?)
}

fn heartbeat(connection: &Connection, epoch: Epoch, now: Timestamp) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached(sql!(nodes::heartbeat))?;
    Ok(statement.execute(params![epoch, now.as_micros()])? > 0)
}

fn leave(connection: &Connection, epoch: Epoch, now: Timestamp) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute(sql!(ownership::release_all), params![epoch, now.as_micros()])?;
    transaction.execute(sql!(nodes::leave), [epoch])?;
    transaction.commit()?;
    Ok(())
}
