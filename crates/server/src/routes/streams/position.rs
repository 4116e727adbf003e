//! Where in a log a stream begins.

use axum::http::HeaderMap;

use super::super::sagas::log::MAX_SEQ;
use crate::http::{Query, bad_query};
use crate::problem::{Kind, Problem};

/// The number of the last event that a reader has, and where it says so; 0 for one that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::routes) enum Position {
    /// `Last-Event-ID`.
    Header(u64),
    /// `after`.
    Parameter(u64),
}

impl Position {
    pub(in crate::routes) fn of_header(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(header) = headers.get("last-event-id") else { return Ok(Self::Header(0)) };
        let number = header.to_str().ok().and_then(|text| text.trim().parse().ok());
        number.filter(|number| *number <= MAX_SEQ).map(Self::Header).ok_or_else(|| {
            Problem::new(
                Kind::BadHeader,
                "Last-Event-ID must be the number of an event: the `id:` that was read last",
            )
        })
    }

    pub(super) fn of_parameter(query: &mut Query) -> Result<Self, Problem> {
        Ok(Self::Parameter(query.number("after", 0, MAX_SEQ)?.unwrap_or(0)))
    }

    pub(in crate::routes) fn seq(self) -> u64 {
        match self {
            Self::Header(seq) | Self::Parameter(seq) => seq,
        }
    }

    /// Refuses a number that no event has yet: it is of another log, and its reader would wait for ever.
    pub(in crate::routes) fn refuse_beyond(self, newest: u64) -> Result<(), Problem> {
        let refused = match self {
            _ if self.seq() <= newest => return Ok(()),
            Self::Header(seq) => Problem::new(
                Kind::BadHeader,
                format!(
                    "Last-Event-ID is {seq}, but the newest event is number {newest}: send the `id:` that was read last, \
                     or leave the header out to read from the beginning"
                ),
            ),
            Self::Parameter(seq) => bad_query(
                "after",
                &format!(
                    "is {seq}, but the newest event is number {newest}: use the `seq` that was read last, or leave it \
                     out to read from the beginning"
                ),
            ),
        };
        Err(refused.with("newest", &newest))
    }
}
