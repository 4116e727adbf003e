//! Reads every event of this process once: counts it, and encodes it for all subscribers.

use backstitch_modules::lifecycles::InstanceEvent;
use futures::StreamExt;

use crate::app::App;
use crate::routes;
use crate::telemetry::{Durations, UPKEEP};

/// How far a subscriber can fall behind, in events. Its stream ends then: what it missed is in the logs.
pub(crate) const BUFFERED_EVENTS: usize = 512;

/// Passes events on, from this call on and until the server closes; beside the engine and never in its way.
pub(crate) fn watch_events(app: App) -> impl Future<Output = ()> {
    let counters = app.metrics.event_counters();
    let mut durations = Durations::default();
    let mut events = Box::pin(app.engine.events_and_gaps());
    let mut lifecycles = app.lifecycles.parts.events();
    async move {
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        counters.count(&event.recorded.event);
                        durations.count(&event, &app.metrics);
                        app.pulse.count(event.saga, &event.recorded);
                        let name = event.recorded.event.name();
                        app.events.publish(&event.definition, name, || routes::encode_event(&event));
                    }
                    // What follows must not look like all there was.
                    Some(Err(_)) => app.events.disconnect_all(),
                    None => return,
                },
                event = lifecycles.next() => match event {
                    Some(Ok(event)) => publish(&app, &event),
                    Some(Err(_)) => app.events.disconnect_all(),
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

fn publish(app: &App, event: &InstanceEvent) {
    let recorded = &event.recorded.event;
    app.metrics.count_lifecycle(&event.machine, recorded);
    app.events.publish(&event.machine, recorded.name(), || routes::encode_instance_event(event));
}
