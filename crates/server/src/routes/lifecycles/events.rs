//! `GET /v1/lifecycles/{machine}/{key}/events`: server-sent events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use backstitch::SagaId;
use backstitch_modules::lifecycles::{Error, Event, Machine, Recorded};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::watch::Receiver;

use super::super::streams::sse::{frame, stream};
use super::super::streams::{SentLifecycleEvent, Since};
use super::super::text::LifecycleKey;
use super::event::LifecycleEvent;
use super::told;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{LifecycleInPath, Query};
use crate::problem::{Described, Problem};

/// Events that are read at once.
const PAGE: usize = 100;
/// How often the log is looked at where another process may write to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What happens to a lifecycle, as it happens.
///
/// `id:` is the event's number, `event:` its type, `data:` the event. The stream ends after the event that ends the
/// lifecycle. A reader that comes back with `Last-Event-ID` gets exactly what it missed; one that missed nothing of a
/// lifecycle at its end gets 204. A number that no event has yet is refused.
#[utoipa::path(get, path = "/v1/lifecycles/{machine}/{key}/events", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last event that was read", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The events", body = SentLifecycleEvent, content_type = "text/event-stream"),
        (status = 204, description = "The lifecycle is at its end, and nothing was missed"),
        (status = 400, description = "The key or a header is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such machine, or nothing of this key", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn lifecycle_events(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    leave: Leave,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.finish("")?;
    let since = Since::of_header(&headers)?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&machine, &key).await).await?;
    since.refuse_beyond(standing.instance.seq)?;
    if standing.ended && since.seq() == standing.instance.seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let machine = parts.machines.machine(&machine, standing.version).await?;
    let told = app.lifecycles.followers.follow(standing.id);
    let reading = Reading {
        app,
        id: standing.id,
        machine,
        after: since.seq(),
        told,
        unsent: VecDeque::new(),
        ended: false,
    };
    Ok(stream(leave, reading.frames()))
}

/// A reader of one log, and how far it has come.
struct Reading {
    app: App,
    id: SagaId,
    machine: Arc<Machine>,
    /// The number of the newest event that was read.
    after: u64,
    told: Receiver<()>,
    unsent: VecDeque<Recorded>,
    /// Whether the last event was read that there ever is.
    ended: bool,
}

impl Reading {
    fn frames(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut reading| async move {
            let recorded = reading.next().await?;
            let sent = frame(Some(recorded.seq), recorded.event.name(), &LifecycleEvent::of(&recorded))?;
            Some((sent, reading))
        })
    }

    /// The next event, as soon as there is one; `None` after the last.
    async fn next(&mut self) -> Option<Recorded> {
        loop {
            if let Some(recorded) = self.unsent.pop_front() {
                return Some(recorded);
            }
            if self.ended {
                return None;
            }
            // Before the look: what happens after it is told.
            self.told.mark_unchanged();
            if let Err(error) = self.look().await {
                // The reader sees no end, and comes back with its last number.
                tracing::debug!(%error, "a stream ends early");
                return None;
            }
            if self.unsent.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        let found = self.app.lifecycles.parts.log(self.id, self.after, PAGE).await?;
        if let Some(newest) = found.last() {
            self.after = newest.seq;
            let leads_to = newest.event.state();
            self.ended = matches!(newest.event, Event::Abandoned { .. })
                || leads_to.is_some_and(|state| self.machine.is_terminal(state));
        }
        self.unsent.extend(found);
        Ok(())
    }

    async fn wait(&mut self) {
        let told = self.told.changed();
        if self.app.lifecycles.parts.is_shared() {
            let _ = tokio::time::timeout(LOOK_EVERY, told).await;
        } else {
            let _ = told.await;
        }
    }
}
