//! Requests that nobody could make sense of, kept as they came, so that people can.

use backstitch::Timestamp;
use backstitch::store;

use super::Lifecycles;
use super::error::Error;
use crate::question::{Record, Statement, Value, statement, tidied};

const DEAD_LETTERS: Statement = statement!("lifecycles/dead_letters");
const KEEP_DEAD_LETTER: Statement = statement!("lifecycles/keep_dead_letter");

/// A request that nobody could make sense of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number: newer ones have greater ones.
    pub id: i64,
    /// Since when it is here.
    pub at: Timestamp,
    /// Where it came from, such as `nats:SITES`.
    pub source: String,
    /// What is wrong with it.
    pub reason: String,
    /// The request as it came.
    pub body: Vec<u8>,
}

/// What is kept of one.
pub(super) struct Unreadable<'a> {
    pub(super) source: String,
    /// The same for a request that comes twice.
    pub(super) mark: String,
    pub(super) reason: &'a str,
    pub(super) body: &'a [u8],
}

impl Lifecycles {
    /// Up to `limit` requests that nobody could make sense of, newest first; of those before one, where it is named.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn dead_letters(&self, before: Option<i64>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let rows = self.base.read(DEAD_LETTERS, vec![before.into(), limit.into()]).await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Keeps one, unless it is kept already; whether it was new.
    pub(super) async fn keep_dead_letter(&self, letter: Unreadable<'_>) -> Result<bool, store::Error> {
        let Unreadable { source, mark, reason, body } = letter;
        let values: Vec<Value> = vec![
            self.base.now().into(),
            source.into(),
            body.to_vec().into(),
            tidied(reason).into(),
            mark.into(),
        ];
        Ok(!self.base.change(KEEP_DEAD_LETTER, values).await?.is_empty())
    }
}

pub(super) fn read(row: &Record) -> Result<DeadLetter, store::Error> {
    Ok(DeadLetter {
        id: row.integer(0)?,
        at: row.time(1)?,
        source: row.text(2)?,
        reason: row.text(3)?,
        body: row.optional_bytes(4)?.unwrap_or_default(),
    })
}
