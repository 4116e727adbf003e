//! Events as they happen. A log is one stream of events, whichever way it is encoded: server-sent events or WebSocket.

pub(super) mod all;
mod position;
mod sent;
pub(super) mod sse;
pub(super) mod ws;

pub(super) use position::Position;
pub(super) use sent::{SentEvent, SentEventOfAll, SentLifecycleEvent};

use std::time::Duration;

use backstitch::{Event, EventView, Recorded, Run, SagaId};
use backstitch_modules::orders::{Outcome, message};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Serialize;

use crate::app::App;
use crate::problem::Problem;

/// Heartbeat interval of an idle stream, so that no proxy takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// One event, ready to be encoded.
pub(super) struct StreamedEvent {
    /// Its number, unless it is one among those of all logs.
    seq: Option<u64>,
    name: &'static str,
    json: String,
}

impl StreamedEvent {
    pub(super) fn of<T: Serialize>(
        seq: Option<u64>,
        name: &'static str,
        view: &T,
    ) -> Result<Self, Interrupted> {
        let json = serde_json::to_string(view).map_err(|error| Interrupted::by(&error))?;
        Ok(Self { seq, name, json })
    }
}

/// A stream that ends before its log does. Its reader sees no end, and comes back with its last number.
pub(super) struct Interrupted;

impl Interrupted {
    pub(super) fn by(error: &dyn std::error::Error) -> Self {
        tracing::debug!(%error, "a stream ends early");
        Self
    }
}

/// The events of one log from a position on.
pub(super) type EventStream = BoxStream<'static, Result<StreamedEvent, Interrupted>>;

/// The words that a saga's events are streamed in.
pub(super) enum Wording {
    Saga,
    /// With a message for the customer.
    Order(App),
}

fn streamed(recorded: &Recorded, message: Option<&'static str>) -> Result<StreamedEvent, Interrupted> {
    let view = EventView::of(recorded).with_message(message);
    StreamedEvent::of(Some(recorded.seq), recorded.event.name(), &view)
}

async fn customer_message(app: &App, order: SagaId, event: &Event) -> Option<&'static str> {
    if !matches!(event, Event::SagaCompensated { .. }) {
        return message(event);
    }
    // Whether the payment came back is in the order's state, not in its last event.
    let order = app.engine.load(order).await.ok()??;
    Some(Outcome::of(&order).of_rollback())
}

/// The events of a saga after a position; `None` when its end is not after it.
pub(super) async fn of_saga(
    run: &Run,
    position: Position,
    wording: Wording,
) -> Result<Option<EventStream>, Problem> {
    if position.seq() > 0 {
        let newest = run.newest_event().await?;
        position.refuse_beyond(newest.seq)?;
        if position.seq() == newest.seq && newest.event.is_terminal() {
            return Ok(None);
        }
    }
    let events = run.events_after(position.seq());
    let events = events.map(|event| event.map_err(|error| Interrupted::by(&error)));
    Ok(Some(match wording {
        Wording::Saga => events.map(|event| streamed(&event?, None)).boxed(),
        Wording::Order(app) => {
            let order = run.id();
            let streamed = move |event: Result<Recorded, Interrupted>| {
                let app = app.clone();
                async move {
                    let recorded = event?;
                    streamed(&recorded, customer_message(&app, order, &recorded.event).await)
                }
            };
            events.then(streamed).boxed()
        }
    }))
}
