//! Items that the server rejected.

use std::fmt::Display;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::session::{Session, change, read};
use super::values::{get, get_time, limit, readable, time};
use super::{PostgresStore, sql};
use crate::store::parked::{ParkedFilter, ParkedItem, Rejection, rejections};
use crate::store::{Error, ParkedStore};

#[async_trait]
impl ParkedStore for PostgresStore {
    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| park(session, area, rejected))
    }

    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        read!(self.sessions, |session| list(session, filter, limit))
    }

    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        read!(self.sessions, |session| longest(session, area, limit))
    }

    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        change!(self.sessions.to_ask(), |session| retry(session, filter))
    }
}

async fn park(session: &Session, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
    session.query(sql!(parked::forget), &[]).await?;
    for Rejection { item, reason } in rejected {
        session.query(sql!(parked::park), &[&area, &readable(item), &readable(reason)]).await?;
    }
    Ok(())
}

async fn list(session: &Session, filter: &ParkedFilter, at_most: usize) -> Result<Vec<ParkedItem>, Error> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let text = |text: &Option<String>| text.as_deref().map(readable);
    let (area, item, reason) = (text(area), text(item), text(reason));
    let (since, retry_before) = (since.map(time), retry_before.map(time));
    let (after_area, after_item) =
        after.as_ref().map(|(area, item)| (readable(area), readable(item))).unzip();
    let rows = session
        .query(
            sql!(parked::list),
            &[&area, &item, &reason, &since, &retry_before, &after_area, &after_item, &limit(at_most)],
        )
        .await?;
    rows.iter().map(read).collect()
}

async fn longest(session: &Session, area: Option<&str>, at_most: usize) -> Result<Vec<ParkedItem>, Error> {
    let area = area.map(readable);
    let rows = session.query(sql!(parked::longest), &[&area, &limit(at_most)]).await?;
    rows.iter().map(read).collect()
}

async fn retry(session: &Session, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let text = |text: &Option<String>| text.as_deref().map(readable);
    let (area, item, reason) = (text(area), text(item), text(reason));
    let (since, retry_before) = (since.map(time), retry_before.map(time));
    let (after_area, after_item) =
        after.as_ref().map(|(area, item)| (readable(area), readable(item))).unzip();
    let rows = session
        .query(sql!(parked::retry), &[&area, &item, &reason, &since, &retry_before, &after_area, &after_item])
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<ParkedItem, Error> {
    Ok(ParkedItem {
        area: get(row, "area")?,
        item: get(row, "item")?,
        reason: get(row, "reason")?,
        attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
        parked_at: get_time(row, "parked_at")?,
        retry_at: get_time(row, "retry_at")?,
    })
}

/// Parks an item on the connection at hand.
pub(super) async fn park_item<T: Display>(
    session: &Session,
    area: &'static str,
    item: T,
    reason: String,
) -> Result<(), Error> {
    park(session, area, &rejections(area, &[(item, reason)])).await
}

/// The numbers of rows.
pub(super) fn ids(rows: &[Row]) -> Result<Vec<i64>, Error> {
    rows.iter().map(|row| get(row, "id")).collect()
}
