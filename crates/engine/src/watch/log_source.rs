//! A log that can be followed.

use backstitch_kernel::{lifecycle, saga};

use crate::store;

/// An event of a log.
pub trait LogEvent: Clone + Send + Sync + 'static {
    /// Its number in the log: the first is 1, and none is left out.
    fn seq(&self) -> u64;
}

impl LogEvent for saga::Recorded {
    fn seq(&self) -> u64 {
        self.seq
    }
}

impl LogEvent for lifecycle::Recorded {
    fn seq(&self) -> u64 {
        self.seq
    }
}

/// How an event ends a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// Nothing can follow it.
    Final,
    /// More can follow, once an operator resumes what failed.
    Reopenable,
}

/// One log.
pub trait LogSource: Send + Sync + 'static {
    /// What is in it.
    type Event: LogEvent;

    /// Up to `limit` events after number `after`, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Self::Event>, store::Error>> + Send;

    /// Whether this event ends the log.
    fn end(&self, event: &Self::Event) -> Option<LogEnd>;
}
