//! The log of an instance, to be followed.

use std::sync::Arc;

use backstitch::SagaId;
use backstitch::kernel::lifecycle::{Event, Machine, Recorded};
use backstitch::store;
use backstitch::watch::{LogEnd, LogSource};
use futures::Stream;

use super::base::Base;
use super::looking;
use super::{Error, Lifecycles, Standing};

struct InstanceLog {
    base: Arc<Base>,
    id: SagaId,
    machine: Arc<Machine>,
}

impl LogSource for InstanceLog {
    type Event = Recorded;

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, store::Error> {
        looking::log(&self.base, self.id, after, limit).await
    }

    fn end(&self, recorded: &Recorded) -> Option<LogEnd> {
        let event = &recorded.event;
        let is_last = matches!(event, Event::Abandoned { .. })
            || event.state().is_some_and(|state| self.machine.is_terminal(state));
        is_last.then_some(LogEnd::Final)
    }
}

impl Lifecycles {
    /// The events of one after number `after`: those that are there, and each that follows as it is written, until the one
    /// that ends it.
    ///
    /// # Errors
    /// When its machine cannot be read.
    pub async fn follow(
        &self,
        standing: &Standing,
        after: u64,
    ) -> Result<impl Stream<Item = Result<Recorded, backstitch::Error>> + Send + use<>, Error> {
        let machine = self.machines.machine(&standing.machine, standing.version).await?;
        let log = InstanceLog { base: self.base.clone(), id: standing.id, machine };
        Ok(self.base.watchers.follow(standing.id, log, after))
    }
}
