//! Items that the server rejected.

use std::fmt::Display;

use tokio_postgres::Row;

use super::session::Session;
use super::sql;
use super::value::{get, get_time, limit, readable};
use crate::store::Error;
use crate::store::isolation::Isolated;
use crate::store::parked::{ParkedItem, Rejection, rejections};

pub(super) async fn park(session: &Session, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
    session.query(sql!("forget_parked_items"), &[]).await?;
    for Rejection { item, reason } in rejected {
        session.query(sql!("park_item"), &[&area, &readable(item), &readable(reason)]).await?;
    }
    Ok(())
}

pub(super) async fn parked(
    session: &Session,
    area: Option<&str>,
    at_most: usize,
) -> Result<Vec<ParkedItem>, Error> {
    let rows = session.query(sql!("parked_items"), &[&area, &limit(at_most)]).await?;
    let item = |row: &Row| {
        Ok(ParkedItem {
            area: get(row, "area")?,
            item: get(row, "item")?,
            reason: get(row, "reason")?,
            attempts: get::<i32>(row, "attempts")?.unsigned_abs(),
            parked_at: get_time(row, "parked_at")?,
            retry_at: get_time(row, "retry_at")?,
        })
    };
    rows.iter().map(item).collect()
}

/// Parks what was rejected on the connection at hand. Answers with the rows that the others gave.
pub(super) async fn park_rejected<T: Display>(
    session: &Session,
    area: &'static str,
    isolated: Isolated<T, Vec<Row>, Error>,
) -> Result<Vec<Row>, Error> {
    let Isolated { written, rejected, mut failed } = isolated;
    if !rejected.is_empty() {
        failed = park(session, area, &rejections(area, &rejected)).await.err().or(failed);
    }
    let rows: Vec<Row> = written.into_iter().flatten().collect();
    match failed {
        // These are claimed: without an answer they would wait for the end of their leases, or for the sweep.
        Some(error) if !rows.is_empty() => {
            tracing::warn!(area, %error, "the rest of a batch was not written");
            Ok(rows)
        }
        Some(error) => Err(error),
        None => Ok(rows),
    }
}

/// The numbers of rows.
pub(super) fn ids(rows: &[Row]) -> Result<Vec<i64>, Error> {
    rows.iter().map(|row| get(row, "id")).collect()
}
