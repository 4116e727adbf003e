//! Events as they happen.

pub(super) mod live;
mod sent;
mod since;
pub(super) mod sse;
pub(super) mod ws;

pub(super) use sent::{SentEvent, SentEventOfAll, SentLifecycleEvent};
pub(super) use since::Since;

use std::pin::Pin;
use std::time::Duration;

use backstitch::{Error, Event, EventView, Recorded, Run, SagaId};
use backstitch_modules::orders::{Outcome, message};
use futures::{Stream, StreamExt};

use crate::app::App;
use crate::problem::Problem;

/// How often something is sent where nothing happens, so that nobody on the way takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// In whose words events are told.
pub(super) enum Told {
    /// In those of sagas.
    OfSaga,
    /// In those of orders, with a message for the customer.
    OfOrder(App, SagaId),
}

impl Told {
    async fn view<'a>(&self, recorded: &'a Recorded) -> EventView<'a> {
        let view = EventView::of(recorded);
        let Self::OfOrder(app, order) = self else { return view };
        if !matches!(recorded.event, Event::SagaCompensated { .. }) {
            return view.with_message(message(&recorded.event));
        }
        // Whether the payment came back is known to the saga as a whole, and to nobody who reads its last event alone.
        match app.engine.load(*order).await {
            Ok(Some(order)) => view.with_message(Some(Outcome::of(&order).of_rollback())),
            Ok(None) | Err(_) => view,
        }
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<Recorded, Error>> + Send>>;

/// The events of a saga that a reader has not got yet; `None` when its end lies before.
async fn events_after(app: &App, run: &Run, since: Since) -> Result<Option<Events>, Problem> {
    let mut events: Events = Box::pin(run.events_after(since.seq()));
    if since.seq() == 0 {
        return Ok(Some(events));
    }
    let state = app.engine.load(run.id()).await?.ok_or(Error::NotFound(run.id()))?;
    since.refuse_beyond(state.seq)?;
    if !state.status.is_terminal() {
        return Ok(Some(events));
    }
    // What is at its end is not waited for, so its first event, or that there is none, is known at once.
    let Some(first) = events.next().await.transpose()? else { return Ok(None) };
    Ok(Some(Box::pin(futures::stream::iter([Ok(first)]).chain(events))))
}
