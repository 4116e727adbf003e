//! The alerts there have been, and who was told when.

use std::fmt;
use std::str::FromStr;

use backstitch::store::product::Database;
use backstitch::store::{Error as StoreError, Store};
use backstitch::{Engine, Error, Payload, Timestamp, sql};

use super::acknowledgement::{Acknowledgement, kept};
use super::alert::Alert;
use super::notices::unreadable;

/// Most alerts of one page.
const LONGEST_PAGE: usize = 1_000;

/// A part of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The alerts, newest first.
    pub items: Vec<Listed>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// An alert and who was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub id: i64,
    /// What happened.
    pub alert: Alert,
    /// Who has taken it upon them.
    pub acknowledged: Option<Acknowledgement>,
    /// One for each recipient.
    pub notices: Vec<Notice>,
}

/// How one recipient was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Over which channel: `log`, `email`, `webhook` or `file`.
    pub channel: String,
    /// Whom, where a channel has several: the mail address.
    pub recipient: Option<String>,
    /// When it had the alert; `None` while it is still being tried.
    pub notified_at: Option<Timestamp>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last try that failed did.
    pub last_error: Option<String>,
}

/// Where in the list to go on, as text that is handed out and taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(i64);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is no place in the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no cursor of alerts: use the one that came with the page before, or none for the newest")]
pub struct BadCursor(String);

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| BadCursor(text.to_owned()))
    }
}

/// Alerts, newest first, a page at a time: at most `limit`, and only those beyond the cursor.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(engine: &Engine, limit: usize, cursor: Option<Cursor>) -> Result<Page, Error> {
    let limit = limit.min(LONGEST_PAGE);
    let before = cursor.map_or(i64::MAX, |cursor| cursor.0);
    // One more tells whether there is another page.
    let rows = read(engine, before, i64::try_from(limit + 1).unwrap_or(i64::MAX)).await?;
    let mut items: Vec<Listed> = Vec::new();
    for row in rows {
        if items.last().is_none_or(|listed| listed.id != row.id) {
            let (id, alert, acknowledged) = (row.id, row.alert()?, row.acknowledged());
            items.push(Listed { id, alert, acknowledged, notices: Vec::new() });
        }
        if let Some(listed) = items.last_mut() {
            listed.notices.extend(row.notice());
        }
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(|listed| Cursor(listed.id)).filter(|_| more);
    Ok(Page { items, next })
}

async fn read(engine: &Engine, before: i64, limit: i64) -> Result<Vec<Row>, StoreError> {
    match engine.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(sql!(sqlite / alerts::list))?;
                statement.query_map([before, limit], Row::of_sqlite)?.collect()
            };
            file.read_product(read).await
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!(postgres / alerts::list), &[&before, &limit]).await?;
            rows.iter().map(Row::of_postgres).collect::<Result<_, _>>().map_err(unreadable)
        }
    }
}

/// Up to `limit` alerts that were acknowledged before this time and nobody is being told of any more, earliest first, each once
/// for every notice of it, and once at least.
pub(super) async fn old(store: &dyn Store, before: Timestamp, limit: usize) -> Result<Vec<Row>, StoreError> {
    let (before, limit) = (before.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX));
    match store.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(sql!(sqlite / alerts::old))?;
                statement.query_map([before, limit], Row::of_sqlite)?.collect()
            };
            file.read_product(read).await
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!(postgres / alerts::old), &[&before, &limit]).await?;
            rows.iter().map(Row::of_postgres).collect::<Result<_, _>>().map_err(unreadable)
        }
    }
}

/// An alert with one of its notices, if it has any.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) key: String,
    pub(super) payload: String,
    pub(super) created_at: i64,
    pub(super) channel: Option<String>,
    pub(super) recipient: Option<String>,
    pub(super) attempts: Option<i32>,
    pub(super) notified_at: Option<i64>,
    pub(super) last_error: Option<String>,
    acknowledged_by: Option<String>,
    note: Option<String>,
    acknowledged_at: Option<i64>,
}

/// A row by the names of its columns, which both databases have, though not the word for getting one.
macro_rules! read {
    ($row:ident.$get:ident) => {
        Ok(Row {
            id: $row.$get("id")?,
            key: $row.$get("idempotency_key")?,
            payload: $row.$get("payload")?,
            created_at: $row.$get("created_at")?,
            channel: $row.$get("channel")?,
            recipient: $row.$get("recipient")?,
            attempts: $row.$get("attempts")?,
            notified_at: $row.$get("notified_at")?,
            last_error: $row.$get("last_error")?,
            acknowledged_by: $row.$get("acknowledged_by")?,
            note: $row.$get("note")?,
            acknowledged_at: $row.$get("acknowledged_at")?,
        })
    };
}

impl Row {
    fn of_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        read!(row.get)
    }

    fn of_postgres(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error> {
        read!(row.try_get)
    }

    fn alert(&self) -> Result<Alert, StoreError> {
        let payload = Payload::parse(self.payload.as_str()).map_err(|why| {
            StoreError::Refused(format!("outbox.payload of message {} cannot be read: {why}", self.id))
        })?;
        Ok(Alert::read(&self.key, &payload, Timestamp::from_micros(self.created_at)))
    }

    pub(super) fn acknowledged(&self) -> Option<Acknowledgement> {
        kept(self.acknowledged_by.clone(), self.note.clone(), self.acknowledged_at)
    }

    fn notice(self) -> Option<Notice> {
        Some(Notice {
            channel: self.channel?,
            recipient: self.recipient.filter(|recipient| !recipient.is_empty()),
            notified_at: self.notified_at.map(Timestamp::from_micros),
            attempts: self.attempts.unwrap_or_default().unsigned_abs(),
            last_error: self.last_error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_taken_back_as_it_was_given_and_nothing_else_is() {
        assert_eq!(Cursor(42).to_string().parse(), Ok(Cursor(42)));
        let refused = "42; drop table".parse::<Cursor>().unwrap_err().to_string();
        assert!(refused.contains("no cursor"), "{refused}");
    }
}
