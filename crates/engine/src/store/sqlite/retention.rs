//! Removes messages and keys that are old enough.

use std::time::Duration;

use backstitch_kernel::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::sql;
use super::values::limit;
use crate::outbox::Retention;
use crate::store::outbox::{Pruned, Status};

pub(super) fn prune(
    connection: &Connection,
    retention: &Retention,
    at_most: usize,
    now: Timestamp,
) -> Result<Pruned, Fault> {
    let before = |age: Duration| {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        now.as_micros().saturating_sub(age)
    };
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut messages = 0;
    for (status, age) in [(Status::Succeeded, retention.sent), (Status::Aborted, retention.aborted)] {
        let mut statement = transaction.prepare_cached(sql!("prune_messages"))?;
        messages += statement.execute(params![status.as_str(), before(age), limit(at_most)])?;
    }
    let mut statement = transaction.prepare_cached(sql!("prune_keys"))?;
    let keys = statement.execute(params![before(retention.keys), limit(at_most)])?;
    drop(statement);
    transaction.commit()?;
    Ok(Pruned { messages: messages as u64, keys: keys as u64 })
}
