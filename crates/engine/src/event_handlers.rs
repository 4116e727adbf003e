//! Handlers that are called for every event of a name ([`Engine::on`](crate::Engine::on)).

use std::sync::Arc;
use std::time::Duration;

use crate::outbox::Announced;
use crate::runtime::Shared;
use crate::runtime::catch_panic::{self, Ended};
use crate::watch::{EventQueue, EventReader, EventReaders, SagaEvent};

/// How long one call of a handler may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A handler that was registered with [`Engine::on`](crate::Engine::on). Dropping this leaves the handler registered.
pub struct EventSubscription {
    queue: Arc<EventQueue>,
}

impl EventSubscription {
    /// Unregisters the handler. A call that has begun is finished; no other follows.
    pub fn unsubscribe(self) {
        self.queue.leave();
    }
}

/// Calls the handler for every event of these names from now on, one after the other, in a task of its own.
pub(crate) fn subscribe<F, Fut>(shared: &Arc<Shared>, names: Announced, handler: F) -> EventSubscription
where
    F: Fn(Arc<SagaEvent>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let reader = EventReaders::reader(shared, names, true);
    let queue = reader.queue().clone();
    // Not among the tasks that an engine waits for: a shutdown asks the queues instead.
    tokio::spawn(call_for_each(reader, handler));
    EventSubscription { queue }
}

async fn call_for_each<F, Fut>(mut reader: EventReader, handler: F)
where
    F: Fn(Arc<SagaEvent>) -> Fut,
    Fut: Future<Output = ()>,
{
    while let Some(next) = reader.next().await {
        if reader.queue().is_left() {
            return;
        }
        let event = match next {
            Ok(event) => event,
            Err(gap) => {
                tracing::warn!(missed = gap.missed, "events are gone before their handler was called");
                continue;
            }
        };
        let (saga, name) = (event.saga, event.recorded.event.name());
        match catch_panic::run(TIMEOUT, async { handler(event).await }).await {
            Ended::Answered(()) => {}
            Ended::Panicked(panic) => {
                let panic = catch_panic::text(panic.as_ref());
                tracing::error!(%saga, event = name, panic, "event handler panicked");
            }
            Ended::TimedOut => {
                let limit = TIMEOUT.as_secs();
                tracing::error!(%saga, event = name, limit, "event handler timed out");
            }
        }
    }
}
