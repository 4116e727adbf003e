//! Items that the file rejected.

use std::fmt::Display;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;
use rusqlite::{Connection, Rows, Transaction, TransactionBehavior, params};

use super::fault::Fault;
use super::values::{RowReader, limit};
use super::{SqliteStore, sql};
use crate::store::parked::{ParkedFilter, ParkedItem, Rejection, rejections};
use crate::store::{Error, ParkedStore};

#[async_trait]
impl ParkedStore for SqliteStore {
    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
        let (area, rejected, now) = (area.to_owned(), rejected.to_vec(), self.clock.now());
        self.connections.write(move |connection| park(connection, &area, &rejected, now)).await
    }

    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.connections.read(move |connection| list(connection, &filter, limit, now)).await
    }

    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        let (area, now) = (area.map(str::to_owned), self.clock.now());
        self.connections.read(move |connection| longest(connection, area.as_deref(), limit, now)).await
    }

    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.connections.write(move |connection| retry(connection, &filter, now)).await
    }
}

/// Parks these within the transaction at hand, if there is one.
fn park(connection: &Connection, area: &str, rejected: &[Rejection], now: Timestamp) -> Result<(), Fault> {
    connection.prepare_cached(sql!(parked::forget))?.execute([now.as_micros()])?;
    let mut park = connection.prepare_cached(sql!(parked::park))?;
    for Rejection { item, reason } in rejected {
        park.execute(params![area, item, reason, now.as_micros()])?;
    }
    Ok(())
}

fn list(
    connection: &Connection,
    filter: &ParkedFilter,
    at_most: usize,
    now: Timestamp,
) -> Result<Vec<ParkedItem>, Fault> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let (after_area, after_item) = after.as_ref().map(|(area, item)| (area, item)).unzip();
    let mut statement = connection.prepare_cached(sql!(parked::list))?;
    let rows = statement.query(params![
        now.as_micros(),
        area,
        item,
        reason,
        since.map(Timestamp::as_micros),
        retry_before.map(Timestamp::as_micros),
        after_area,
        after_item,
        limit(at_most),
    ])?;
    read(rows)
}

fn longest(
    connection: &Connection,
    area: Option<&str>,
    at_most: usize,
    now: Timestamp,
) -> Result<Vec<ParkedItem>, Fault> {
    let mut statement = connection.prepare_cached(sql!(parked::longest))?;
    read(statement.query(params![now.as_micros(), area, limit(at_most)])?)
}

fn retry(connection: &Connection, filter: &ParkedFilter, now: Timestamp) -> Result<Vec<ParkedItem>, Fault> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let (after_area, after_item) = after.as_ref().map(|(area, item)| (area, item)).unzip();
    let mut statement = connection.prepare_cached(sql!(parked::retry))?;
    let rows = statement.query(params![
        now.as_micros(),
        area,
        item,
        reason,
        since.map(Timestamp::as_micros),
        retry_before.map(Timestamp::as_micros),
        after_area,
        after_item,
    ])?;
    read(rows)
}

fn read(mut rows: Rows<'_>) -> Result<Vec<ParkedItem>, Fault> {
    let mut parked = Vec::new();
    while let Some(row) = rows.next()? {
        let row = RowReader::of("parked_items", &"an item", row);
        parked.push(ParkedItem {
            area: row.get("area")?,
            item: row.get("item")?,
            reason: row.get("reason")?,
            attempts: row.count("attempts")?,
            parked_at: row.time("parked_at")?,
            retry_at: row.time("retry_at")?,
        });
    }
    Ok(parked)
}

/// One transaction for a batch. If the file rejects an item, or cannot read it, the batch is done once more with each item on its own: those that
/// are rejected are parked, and leave nothing else behind.
pub(super) fn isolating<R>(
    connection: &Connection,
    area: &'static str,
    now: Timestamp,
    work: impl Fn(&Isolation<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let attempt = |apart| {
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let done = work(&Isolation { connection, area, now, apart })?;
        transaction.commit()?;
        Ok::<R, Fault>(done)
    };
    match attempt(false) {
        Err(fault) if fault.is_about_an_item() => attempt(true),
        done => done,
    }
}

/// A batch under way.
pub(super) struct Isolation<'c> {
    connection: &'c Connection,
    area: &'static str,
    now: Timestamp,
    /// Something was rejected before: each item gets a savepoint. It is too dear to have one around those that do no harm.
    apart: bool,
}

impl Isolation<'_> {
    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Does the work of one item; nothing where it was rejected and is parked.
    pub(super) fn run<R>(
        &self,
        item: impl Display,
        work: impl FnOnce() -> Result<R, Fault>,
    ) -> Result<Option<R>, Fault> {
        if !self.apart {
            return work().map(Some);
        }
        let Self { connection, area, now, .. } = *self;
        match on_its_own(connection, work)? {
            Ok(done) => Ok(Some(done)),
            Err(rejected) => {
                park(connection, area, &rejections(area, &[(item, Error::from(rejected))]), now)?;
                Ok(None)
            }
        }
    }
}

/// Works within a savepoint. What is about one item is undone, and harms nothing else of the transaction.
pub(super) fn on_its_own<R>(
    connection: &Connection,
    work: impl FnOnce() -> Result<R, Fault>,
) -> Result<Result<R, Fault>, Fault> {
    connection.execute_batch("savepoint one_item")?;
    let fault = match work() {
        Ok(done) => {
            connection.execute_batch("release one_item")?;
            return Ok(Ok(done));
        }
        Err(fault) => fault,
    };
    let undone = connection.execute_batch("rollback to one_item; release one_item");
    if undone.is_ok() && fault.is_about_an_item() { Ok(Err(fault)) } else { Err(fault) }
}
