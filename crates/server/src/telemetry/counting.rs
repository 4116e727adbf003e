//! Counts what happens to sagas, beside the engine and never in its way.

use futures::StreamExt;

use super::metrics::UPKEEP;
use crate::app::App;

/// Counts the engine's events until the server closes.
pub(crate) async fn count_events(app: App) {
    let counters = app.metrics.event_counters();
    let mut events = Box::pin(app.engine.events());
    let mut upkeep = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => counters.count(&event.recorded.event),
                None => return,
            },
            _ = upkeep.tick() => app.metrics.upkeep(),
            () = app.closing.cancelled() => return,
        }
    }
}
