//! Somebody says that they have seen an alert and look after it.

use backstitch::store::product::Database;
use backstitch::{Engine, Error, Timestamp, sql};
use rusqlite::params;

use super::notices::unreadable;
use crate::question::tidied;

/// Who has taken an alert upon them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// What they say.
    pub note: String,
    /// When.
    pub at: Timestamp,
}

/// Who acknowledges the alerts of a step that an operator resolved: a trigger, in the transaction of the resolution.
pub const RESOLUTION: &str = "resolution";

impl Acknowledgement {
    /// Whether a resolution closed the alert.
    #[must_use]
    pub fn is_resolution(&self) -> bool {
        self.by == RESOLUTION
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// It is acknowledged now.
    Now,
    /// Somebody had done so before, and that stays.
    Before,
    /// There is no such alert.
    Unknown,
}

/// Acknowledges the alert of this number. The first who does so is kept, for good.
///
/// # Errors
/// When the database cannot be written.
pub async fn acknowledge(engine: &Engine, id: i64, by: &str, note: &str) -> Result<Acknowledged, Error> {
    let (by, note, at) = (tidied(by), tidied(note), engine.clock().now().as_micros());
    let (known, new) = match engine.database() {
        Database::Sqlite(file) => {
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                let known = sql!(sqlite / alerts::exists);
                let known = transaction.prepare_cached(known)?.query_row([id], |row| row.get("is_alert"))?;
                let statement = sql!(sqlite / alerts::acknowledge);
                let new = transaction.prepare_cached(statement)?.execute(params![id, by, note, at])?;
                Ok((known, new > 0))
            };
            file.write_product(write).await?
        }
        Database::Postgres(server) => {
            let rows = server.read_product(sql!(postgres / alerts::exists), &[&id]).await?;
            let known = rows.first().map_or(Ok(false), |row| row.try_get("is_alert")).map_err(unreadable)?;
            let sql = sql!(postgres / alerts::acknowledge);
            // The request that acknowledged it before may have an unknown outcome.
            (known, !server.query_durably(sql, &[&id, &by, &note, &at]).await?.is_empty())
        }
    };
    Ok(match (known, new) {
        (_, true) => Acknowledged::Now,
        (true, false) => Acknowledged::Before,
        (false, false) => Acknowledged::Unknown,
    })
}

/// What is kept about an alert, if anything is.
pub(super) fn kept(by: Option<String>, note: Option<String>, at: Option<i64>) -> Option<Acknowledgement> {
    Some(Acknowledgement { by: by?, note: note?, at: Timestamp::from_micros(at?) })
}
