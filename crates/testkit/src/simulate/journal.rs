//! The log of a simulated saga.

use std::collections::HashMap;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;

/// A fenced log per saga. Asynchronous stores use a runtime of their own.
pub trait Journal {
    /// Appends all of these events, or none, if the saga's newest one has the number `expected_seq` (zero for a new
    /// saga).
    ///
    /// # Errors
    /// [`Refusal::Fenced`] if another append came first; [`Refusal::Broken`] when it fails.
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal>;

    /// The whole log, oldest first; empty for an unknown saga.
    ///
    /// # Errors
    /// [`Refusal::Broken`] when it cannot be read.
    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal>;
}

/// Why a journal refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The number is taken: the caller no longer owns the saga.
    #[error("somebody else has appended that number")]
    Fenced,
    /// The journal failed.
    #[error("{0}")]
    Broken(String),
}

/// Logs in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    logs: HashMap<SagaId, Vec<Recorded>>,
}

impl Journal for Memory {
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal> {
        let log = self.logs.entry(saga).or_default();
        if log.last().map_or(0, |newest| newest.seq) != expected_seq {
            return Err(Refusal::Fenced);
        }
        log.extend_from_slice(events);
        Ok(())
    }

    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal> {
        Ok(self.logs.get(&saga).cloned().unwrap_or_default())
    }
}
