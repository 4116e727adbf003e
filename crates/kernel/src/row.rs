//! Rows of logs of every kind.

use serde::Deserialize;

/// A row that cannot be decoded as an event.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// An unknown type; a newer version of Backstitch may have written it.
    #[error("the event type `{0}` is unknown to this version: run the version that wrote it, or a newer one")]
    UnknownType(String),
    /// A required column is empty.
    #[error("a `{name}` event has no `{column}`")]
    Missing {
        /// The event's type.
        name: String,
        /// The column.
        column: &'static str,
    },
    /// The JSON does not match the type.
    #[error("the data of a `{name}` event cannot be read: {source}")]
    Data {
        /// The event's type.
        name: String,
        /// The error.
        source: serde_json::Error,
    },
}

/// A row of a log, before it is decoded as an event.
pub(crate) struct LogRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) step: Option<&'a str>,
    pub(crate) attempt: Option<u32>,
    pub(crate) data: Option<&'a str>,
}

impl<'a> LogRow<'a> {
    pub(crate) fn present<T>(&self, column: &'static str, value: Option<T>) -> Result<T, Unreadable> {
        value.ok_or_else(|| Unreadable::Missing { name: self.name.to_owned(), column })
    }

    pub(crate) fn attempt(&self) -> Result<u32, Unreadable> {
        self.present("attempt", self.attempt)
    }

    pub(crate) fn json<T: Deserialize<'a>>(&self) -> Result<T, Unreadable> {
        serde_json::from_str(self.present("data", self.data)?)
            .map_err(|source| Unreadable::Data { name: self.name.to_owned(), source })
    }
}
