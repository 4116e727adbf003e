//! The log of a saga.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Event, Recorded};

use super::{LogEnd, LogSource};
use crate::runtime::Shared;
use crate::store;

pub(crate) struct SagaLog {
    pub(crate) shared: Arc<Shared>,
    pub(crate) saga: SagaId,
}

impl LogSource for SagaLog {
    type Event = Recorded;

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, store::Error> {
        self.shared.store.log(self.saga, after, limit).await
    }

    fn end(&self, recorded: &Recorded) -> Option<LogEnd> {
        match recorded.event {
            // An operator can resume a rollback that failed.
            Event::SagaFailed { .. } => Some(LogEnd::Reopenable),
            _ => recorded.event.is_terminal().then_some(LogEnd::Final),
        }
    }
}
