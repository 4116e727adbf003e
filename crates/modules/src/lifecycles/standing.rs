//! An instance as its row shows it.

use std::sync::Arc;

use backstitch::kernel::lifecycle::{Failure, Given, Instance, Machine, Recorded};
use backstitch::store::Error;
use backstitch::{Payload, SagaId, Timestamp};

use crate::question::Record;

/// Where one thing stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its id, which its log is found by.
    pub id: SagaId,
    /// The machine that describes it.
    pub machine: Arc<str>,
    /// Which one of this machine it is.
    pub key: Arc<str>,
    /// The machine's version; it keeps it to its end.
    pub version: u32,
    /// Whether nothing follows.
    pub ended: bool,
    /// Since when it exists.
    pub created_at: Timestamp,
    /// From then on it has been in its state for too long.
    pub stuck_at: Option<Timestamp>,
    /// The rest.
    pub instance: Instance,
    /// Who performs its action at the moment.
    pub(super) holder: Option<String>,
    /// How often whoever performed it was not heard of again.
    pub(super) interruptions: u32,
}

/// What a call has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it stood before; nothing where there was nothing.
    pub from: Option<Arc<str>>,
    /// Where it stands now.
    pub standing: Standing,
    /// What was written to its log, at least one event.
    pub events: Vec<Recorded>,
}

/// The columns that [`Standing::read`] expects, in both dialects.
pub(super) const COLUMNS: &str = "id, machine, key, version, state, ended, seq, entry, attempt, failures, interruptions, \
     token, holder, correlation_id, error_kind, last_error, input, created_at, updated_at, entered_at, due_at, stuck_at, \
     abandoned, leased";

impl Standing {
    pub(super) fn read(row: &Record) -> Result<Self, Error> {
        let kind = row.optional_text(14)?;
        let message = row.optional_text(15)?;
        let failure = kind.map(|kind| Failure { kind, message: message.unwrap_or_default() });
        let input = row.optional_text(16)?.map(Payload::parse).transpose();
        let input = input.map_err(|why| Error::Refused(format!("the input of a lifecycle: {why}")))?;
        Ok(Self {
            id: row.id(0)?,
            machine: row.text(1)?.into(),
            key: row.text(2)?.into(),
            version: row.count(3)?,
            ended: row.flag(5)? || row.flag(22)?,
            created_at: row.time(17)?,
            stuck_at: row.optional_time(21)?,
            holder: row.optional_text(12)?,
            interruptions: row.count(10)?,
            instance: Instance {
                state: row.text(4)?.into(),
                attempt: row.count(8)?,
                seq: row.count(6)?.into(),
                entry: row.count(7)?.into(),
                failures: row.count(9)?,
                leased: row.flag(23)?,
                given: Given { correlation_id: row.optional_text(13)?, input },
                failure,
                abandoned: row.flag(22)?,
                entered_at: row.time(19)?,
                updated_at: row.time(18)?,
                due_at: row.optional_time(20)?,
                token: row.integer(11)?.unsigned_abs(),
            },
        })
    }

    /// Who performs its action at the moment, or did and was not heard of again.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Whether its state is terminal; an abandoned one has ended in a state that is not.
    pub(super) fn is_in_terminal_state(&self) -> bool {
        self.ended && !self.instance.abandoned
    }

    /// The same after a decision.
    pub(super) fn after(&self, machine: &Machine, instance: Instance) -> Self {
        let ended = instance.has_ended(machine);
        // Whoever performs an action goes on unless it is not wanted any more.
        let goes_on =
            instance.entry == self.instance.entry && instance.failures == self.instance.failures && !ended;
        Self {
            ended,
            stuck_at: instance.stuck_at(machine),
            holder: self.holder.clone().filter(|_| goes_on),
            interruptions: if goes_on { self.interruptions } else { 0 },
            instance,
            ..self.clone()
        }
    }
}
