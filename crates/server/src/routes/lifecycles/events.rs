//! `GET /v1/lifecycles/{machine}/{key}/events`: server-sent events.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use backstitch_modules::lifecycles::{LifecycleKey, Recorded};
use futures::StreamExt;

use super::super::streams::sse::response;
use super::super::streams::{Interrupted, Position, SentLifecycleEvent, StreamedEvent};
use super::event::LifecycleEvent;
use super::told;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{LifecycleInPath, Query};
use crate::problem::{Described, Problem};

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
    let position = Position::of_header(&headers)?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&machine, &key).await).await?;
    position.refuse_beyond(standing.instance.seq)?;
    if standing.ended && position.seq() == standing.instance.seq {
        return Ok(response(leave, None));
    }
    let events = parts.follow(&standing, position.seq()).await?;
    Ok(response(leave, Some(events.map(streamed).boxed())))
}

fn streamed(event: Result<Recorded, backstitch::Error>) -> Result<StreamedEvent, Interrupted> {
    let recorded = event.map_err(|error| Interrupted::by(&error))?;
    StreamedEvent::of(Some(recorded.seq), recorded.event.name(), &LifecycleEvent::of(&recorded))
}
