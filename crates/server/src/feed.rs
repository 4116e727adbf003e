//! The one reader of the engine's events, for all who want to know: the numbers, and whoever listens to everything.

use futures::StreamExt;

use crate::app::App;
use crate::routes;
use crate::telemetry::UPKEEP;

/// Passes the engine's events on, from this call on and until the server closes; beside the engine and never in its way.
pub(crate) fn pass_on_events(app: App) -> impl Future<Output = ()> {
    let counters = app.metrics.event_counters();
    let mut events = Box::pin(app.engine.events_and_gaps());
    async move {
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        counters.count(&event.recorded.event);
                        let name = event.recorded.event.name();
                        app.audience.tell(&event.definition, name, || routes::live_frame(&event));
                    }
                    // Nobody is to take what follows for all there was.
                    Some(Err(_)) => app.audience.dismiss(),
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
