//! Items that the server rejected.

use std::fmt::Display;

use tokio_postgres::Row;

use super::session::Session;
use super::sql;
use super::value::{get, get_time, limit, readable, time};
use crate::store::Error;
use crate::store::parked::{ParkedFilter, ParkedItem, Rejection, rejections};

pub(super) async fn park(session: &Session, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
    session.query(sql!("forget_parked_items"), &[]).await?;
    for Rejection { item, reason } in rejected {
        session.query(sql!("park_item"), &[&area, &readable(item), &readable(reason)]).await?;
    }
    Ok(())
}

pub(super) async fn list(
    session: &Session,
    filter: &ParkedFilter,
    at_most: usize,
) -> Result<Vec<ParkedItem>, Error> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let text = |text: &Option<String>| text.as_deref().map(readable);
    let (area, item, reason) = (text(area), text(item), text(reason));
    let (since, retry_before) = (since.map(time), retry_before.map(time));
    let (after_area, after_item) =
        after.as_ref().map(|(area, item)| (readable(area), readable(item))).unzip();
    let rows = session
        .query(
            sql!("parked_items"),
            &[&area, &item, &reason, &since, &retry_before, &after_area, &after_item, &limit(at_most)],
        )
        .await?;
    rows.iter().map(read).collect()
}

pub(super) async fn longest(
    session: &Session,
    area: Option<&str>,
    at_most: usize,
) -> Result<Vec<ParkedItem>, Error> {
    let area = area.map(readable);
    let rows = session.query(sql!("longest_parked_items"), &[&area, &limit(at_most)]).await?;
    rows.iter().map(read).collect()
}

pub(super) async fn retry(session: &Session, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
    let ParkedFilter { area, item, reason, since, retry_before, after } = filter;
    let text = |text: &Option<String>| text.as_deref().map(readable);
    let (area, item, reason) = (text(area), text(item), text(reason));
    let (since, retry_before) = (since.map(time), retry_before.map(time));
    let (after_area, after_item) =
        after.as_ref().map(|(area, item)| (readable(area), readable(item))).unzip();
    let rows = session
        .query(
            sql!("retry_parked_items"),
            &[&area, &item, &reason, &since, &retry_before, &after_area, &after_item],
        )
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
