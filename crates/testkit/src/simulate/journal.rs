//! Where a simulated saga keeps its log.

use std::collections::HashMap;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;

/// A log per saga with a fence. Stores that wait are driven from a runtime of their own.
pub trait Journal {
    /// Appends these events if the saga's newest one has the number `expected_seq` (zero for a new saga), all of
    /// them or none.
    ///
    /// # Errors
    /// [`Refusal::Fenced`] when somebody else has appended since; [`Refusal::Broken`] when it cannot be done.
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal>;

    /// The whole log, oldest first; empty when there is no such saga.
    ///
    /// # Errors
    /// [`Refusal::Broken`] when it cannot be read.
    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal>;
}

/// Why a journal did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The number is taken: whoever asks does not own the saga any more.
    #[error("somebody else has appended that number")]
    Fenced,
    /// It does not work.
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
