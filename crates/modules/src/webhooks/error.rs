//! What can go wrong with webhooks.

use std::fmt;

use backstitch::group_commit::NotWritten;
use backstitch::{Problem, Timestamp, store};

use super::vault;

/// Everything that is wrong with the terms of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadTerms(pub Vec<Problem>);

impl fmt::Display for BadTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<_> =
            self.0.iter().map(|wrong| format!("`{}`: {}", wrong.place, wrong.message)).collect();
        write!(f, "the subscription cannot be so: {}", said.join("; "))
    }
}

/// Why a call on webhooks did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database could not do its part.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The database could not do its part for a whole batch, of which this was one.
    #[error(transparent)]
    Batch(#[from] std::sync::Arc<store::Error>),
    /// Webhooks are being closed.
    #[error("webhooks are shutting down: try again on another node, or later")]
    Closed,
    /// The event's id belongs to another event.
    #[error("the id was first used for another event, number {event}: use a new id for a new event")]
    Conflict {
        /// The event that has the id.
        event: i64,
        /// When it came.
        at: Timestamp,
    },
    /// A value that cannot be.
    #[error("`{field}` {why}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Terms that a subscription cannot have.
    #[error(transparent)]
    Terms(#[from] BadTerms),
    /// A signing secret cannot be kept or read.
    #[error(transparent)]
    Secret(#[from] vault::Error),
    /// There is no such subscription.
    #[error("there is no subscription {0}: it was deleted, or never made")]
    UnknownSubscription(i64),
    /// Somebody else has changed the subscription meanwhile.
    #[error("subscription {0} was changed by somebody else just now: read it again")]
    ChangedMeanwhile(i64),
    /// An earlier secret of the subscription is still good.
    #[error(
        "subscription {subscription} is being rotated: its secret before is good for a while yet, and receivers may \
         still check with it; wait, or replace it"
    )]
    Rotating {
        /// Which.
        subscription: i64,
        /// Until when.
        until: Timestamp,
    },
    /// There is no such delivery.
    #[error("there is no delivery {0}: it was pruned, or never made")]
    UnknownDelivery(i64),
    /// There is no such dead letter.
    #[error("there is no dead letter {0}: the delivery has not been given up, or was pruned")]
    UnknownDeadLetter(i64),
}

impl From<NotWritten> for Error {
    fn from(why: NotWritten) -> Self {
        match why {
            NotWritten::Closed => Self::Closed,
            NotWritten::Store(why) => Self::Batch(why),
        }
    }
}

impl Error {
    pub(super) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, why: why.into() }
    }
}
