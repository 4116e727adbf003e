//! Alerts that have not reached everybody.

use backstitch::store::Error as StoreError;
use backstitch::store::product::Database;
use backstitch::{Engine, Error, Timestamp, sql};

use super::notices::unreadable;

/// An alert that has not reached everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// What it is known by.
    pub key: String,
    /// When it was raised.
    pub raised_at: Timestamp,
    /// How many have it.
    pub reached: usize,
    /// Who does not have it yet: over which channel, whom, and why the last try failed.
    pub missed: Vec<Missed>,
    /// Why it is not out, all channels together.
    pub last_error: Option<String>,
}

/// Somebody who does not have an alert yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Over which channel: `log`, `email`, `webhook` or `file`.
    pub channel: String,
    /// Whom, where a channel has several: the mail address.
    pub recipient: Option<String>,
    /// Why the last try failed.
    pub last_error: Option<String>,
}

/// Up to `limit` alerts that were raised before this time and have not reached everybody, oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn undelivered(
    engine: &Engine,
    raised_before: Timestamp,
    limit: usize,
) -> Result<Vec<Undelivered>, Error> {
    let (before, limit) = (raised_before.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut found: Vec<Undelivered> = Vec::new();
    for row in read(engine, before, limit).await? {
        if found.last().is_none_or(|last| last.key != row.key) {
            found.push(Undelivered {
                key: row.key,
                raised_at: Timestamp::from_micros(row.raised_at),
                reached: 0,
                missed: Vec::new(),
                last_error: row.last_error,
            });
        }
        let (Some(last), Some(channel)) = (found.last_mut(), row.channel) else { continue };
        if row.notified_at.is_some() {
            last.reached += 1;
        } else {
            let recipient = row.recipient.filter(|recipient| !recipient.is_empty());
            last.missed.push(Missed { channel, recipient, last_error: row.notice_error });
        }
    }
    Ok(found)
}

struct Row {
    key: String,
    raised_at: i64,
    last_error: Option<String>,
    channel: Option<String>,
    recipient: Option<String>,
    notified_at: Option<i64>,
    notice_error: Option<String>,
}

/// A row of either database.
macro_rules! row {
    ($row:ident.$get:ident) => {
        Ok(Row {
            key: $row.$get("alert_key")?,
            raised_at: $row.$get("created_at")?,
            last_error: $row.$get("last_error_msg")?,
            channel: $row.$get("channel")?,
            recipient: $row.$get("recipient")?,
            notified_at: $row.$get("notified_at")?,
            notice_error: $row.$get("last_error")?,
        })
    };
}

async fn read(engine: &Engine, before: i64, limit: i64) -> Result<Vec<Row>, StoreError> {
    match engine.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(sql!(sqlite / alerts::undelivered))?;
                let row = |row: &rusqlite::Row<'_>| row!(row.get);
                statement.query_map([before, limit], row)?.collect()
            };
            file.read_product(read).await
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!(postgres / alerts::undelivered), &[&before, &limit]).await?;
            let row = |row: &tokio_postgres::Row| row!(row.try_get);
            rows.iter().map(row).collect::<Result<_, _>>().map_err(unreadable)
        }
    }
}
