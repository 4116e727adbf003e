//! Messages for sagas.

use async_trait::async_trait;
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::values::RowReader;
use super::{SqliteStore, sql};
use crate::inbox::{Message, Posted};
use crate::store::nodes::Epoch;
use crate::store::{Error, InboxStore};

#[async_trait]
impl InboxStore for SqliteStore {
    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        let message = message.clone();
        self.connections.write(move |connection| post(connection, saga, &message, at)).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        self.connections.read(move |connection| mail(connection, epoch)).await
    }
}

fn post(connection: &Connection, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let posted = post_in(&transaction, saga, message, at)?;
    transaction.commit()?;
    Ok(posted)
}

/// The same as a part of something larger.
pub(super) fn post_in(
    transaction: &Connection,
    saga: SagaId,
    message: &Message,
    at: Timestamp,
) -> Result<Posted, Fault> {
    let body = serde_json::to_string(message).map_err(|why| Error::Refused(why.to_string()))?;
    let id = saga.0.as_bytes();
    let seq: Option<i64> = transaction
        .prepare_cached(sql!(inbox::post))?
        .query_row(params![id, at.as_micros()], |row| row.get("inbox_seq"))
        .optional()?;
    let Some(seq) = seq else {
        return refusal(transaction, saga);
    };
    transaction.prepare_cached(sql!(inbox::append))?.execute(params![id, seq, body, at.as_micros()])?;
    Ok(Posted::Accepted)
}

fn refusal(connection: &Connection, saga: SagaId) -> Result<Posted, Fault> {
    let mut statement = connection.prepare_cached(sql!(sagas::status))?;
    let mut rows = statement.query([saga.0.as_bytes()])?;
    match rows.next()? {
        Some(row) => Ok(Posted::Ended(RowReader::of("sagas", &saga, row).status()?)),
        None => Ok(Posted::Unknown),
    }
}

fn mail(connection: &Connection, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Fault> {
    let mut statement = connection.prepare_cached(sql!(inbox::newest))?;
    let mut rows = statement.query([epoch])?;
    let mut sagas = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RowReader::of("saga_inbox", &"?", row);
        sagas.push((row.saga("saga_id")?, row.count("newest")?));
    }
    Ok(sagas)
}
