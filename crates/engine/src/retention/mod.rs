//! What is over is kept for as long as somebody wants, and then removed in small batches. Off unless told.
//!
//! One process at a time does it, beside everything else and with rests, so that it takes a small part of the database's
//! time. Where an [`Archive`] is given, nothing goes that the archive has not kept.

mod archive;
mod area;
mod fitting;
mod lines;
mod messages;
mod pruning;
mod removal;
mod report;
mod sagas;

use std::sync::Arc;
use std::time::Duration;

pub use archive::{Archive, NotKept};
pub use area::{Area, CandidatePage, Line, Prunable};
pub use lines::line;
pub(crate) use pruning::{Areas, keep_pruning};
pub use pruning::{PrunedNow, prune_now};
pub use removal::NotPruned;
pub use report::Report;

use crate::outbox;

/// How long what is over is kept, and where it goes from there.
#[derive(Clone, Default)]
pub struct Retention {
    /// Sagas, with their logs.
    pub sagas: SagaAges,
    /// Messages of the outbox, and their keys.
    pub messages: outbox::Retention,
    /// Who keeps what is removed; nobody, unless told.
    pub archive: Option<Arc<dyn Archive>>,
}

/// How long sagas are kept that have ended, counted from their end: for ever, unless told. A saga goes with its log, its
/// attributes, its jobs, the key it was started under and the rows that products keep about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SagaAges {
    /// Those whose every step succeeded.
    pub succeeded: Option<Duration>,
    /// Those that were rolled back.
    pub compensated: Option<Duration>,
    /// Those whose rollback failed. They wait for a person: once they are gone nobody can resolve them.
    pub failed: Option<Duration>,
}

impl Retention {
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let SagaAges { succeeded, compensated, failed } = self.sagas;
        let outbox::Retention { sent, aborted, keys, besides: _ } = self.messages;
        let ages = [
            ("sagas.succeeded", succeeded),
            ("sagas.compensated", compensated),
            ("sagas.failed", failed),
            ("messages.sent", sent),
            ("messages.aborted", aborted),
            ("messages.keys", keys),
        ];
        let empty = ages.iter().filter(|(_, age)| *age == Some(Duration::ZERO));
        let empty = empty.map(|(name, _)| format!("retention.{name} must be longer than nothing"));
        empty.chain(self.messages.mistake().map(str::to_owned)).collect()
    }
}
