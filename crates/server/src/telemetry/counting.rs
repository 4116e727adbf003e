//! Counts what happens to sagas, beside the engine and never in its way.

use futures::StreamExt;

use super::metrics::UPKEEP;
use crate::app::App;

/// Counts the engine's events, from this call on and until the server closes.
pub(crate) fn count_events(app: App) -> impl Future<Output = ()> {
    let counters = app.metrics.event_counters();
    let mut events = Box::pin(app.engine.events());
    async move {
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => counters.count(&event.recorded.event),
                    None => return,
                },
                _ = upkeep.tick() => {
                    app.metrics.upkeep();
                    app.gate.rates.upkeep();
                }
                () = app.closing.cancelled() => return,
            }
        }
    }
}
