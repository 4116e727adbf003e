//! Events as they happen.

pub(super) mod live;
mod sent;
pub(super) mod sse;
pub(super) mod ws;

pub(super) use sent::SentEvent;

use std::pin::Pin;
use std::time::Duration;

use backstitch::{Error, Recorded, Run};
use futures::{Stream, StreamExt};

use crate::app::App;
use crate::problem::Problem;

/// How often something is sent where nothing happens, so that nobody on the way takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

type Events = Pin<Box<dyn Stream<Item = Result<Recorded, Error>> + Send>>;

/// The events of a saga after this number; `None` when its end lies before.
async fn events_after(app: &App, run: &Run, after: u64) -> Result<Option<Events>, Problem> {
    let mut events: Events = Box::pin(run.events_after(after));
    if after == 0 {
        return Ok(Some(events));
    }
    let state = app.engine.load(run.id()).await?.ok_or(Error::NotFound(run.id()))?;
    if !state.status.is_terminal() {
        return Ok(Some(events));
    }
    // What is at its end is not waited for, so its first event, or that there is none, is known at once.
    let Some(first) = events.next().await.transpose()? else { return Ok(None) };
    Ok(Some(Box::pin(futures::stream::iter([Ok(first)]).chain(events))))
}
