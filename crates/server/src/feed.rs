//! The one reader of what happens to sagas and lifecycles, for all who want to know: the numbers, whoever listens to
//! everything, and whoever follows one lifecycle.

use backstitch_modules::lifecycles::Happened;
use futures::StreamExt;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::routes;
use crate::telemetry::{Durations, UPKEEP};

/// Passes events on, from this call on and until the server closes; beside the engine and never in its way.
pub(crate) fn pass_on_events(app: App) -> impl Future<Output = ()> {
    let counters = app.metrics.event_counters();
    let mut durations = Durations::default();
    let mut events = Box::pin(app.engine.events_and_gaps());
    let mut lifecycles = app.lifecycles.parts.listen();
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
                        app.audience.tell(&event.definition, name, || routes::live_frame(&event));
                    }
                    // Nobody is to take what follows for all there was.
                    Some(Err(_)) => app.audience.dismiss(),
                    None => return,
                },
                happened = lifecycles.recv() => match happened {
                    Ok(happened) => tell_of(&app, &happened),
                    Err(RecvError::Lagged(_)) => {
                        app.audience.dismiss();
                        app.lifecycles.followers.tell_all();
                    }
                    Err(RecvError::Closed) => return,
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

fn tell_of(app: &App, happened: &Happened) {
    let event = &happened.recorded.event;
    app.metrics.count_lifecycle(&happened.machine, event);
    app.audience.tell(&happened.machine, event.name(), || routes::lifecycle_frame(happened));
    app.lifecycles.followers.tell(happened.id);
}
