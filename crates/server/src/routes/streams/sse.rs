//! `GET /v1/sagas/{id}/events`: server-sent events.

use std::convert::Infallible;
use std::future::ready;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::{EventStream, HEARTBEAT, Position, SentEvent, StreamedEvent, Wording};
use crate::app::App;
use crate::auth::Leave;
use crate::http::{Query, SagaInPath};
use crate::problem::{Described, Problem};

/// A comment: readers skip it.
const BEAT: Bytes = Bytes::from_static(b":\n\n");

/// What happens to a saga, as it happens.
///
/// `id:` is the event's number, `event:` its type, `data:` the event. The stream ends after the saga's end. A reader that
/// comes back with `Last-Event-ID` gets exactly what it missed; one that missed nothing of a saga at its end gets 204. A
/// number that no event has yet is refused.
#[utoipa::path(get, path = "/v1/sagas/{id}/events", tag = "sagas",
    params(
        ("id" = String, Path, description = "The saga", format = Uuid),
        ("token" = Option<String>, Query, description = "The saga's stream token, instead of a key"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last event that was read", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The events", body = SentEvent, content_type = "text/event-stream"),
        (status = 204, description = "The saga is at its end, and nothing was missed"),
        (status = 400, description = "The id or a header is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such saga", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn saga_events(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    leave: Leave,
    mut query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.text("token");
    query.finish("token")?;
    let run = app.engine.find(id).await?;
    let position = Position::of_header(&headers)?;
    Ok(response(leave, super::of_saga(&run, position, Wording::Saga).await?))
}

/// The events of a log; 204 when the reader has them all.
pub(in crate::routes) fn response(leave: Leave, events: Option<EventStream>) -> Response {
    let Some(events) = events else { return StatusCode::NO_CONTENT.into_response() };
    stream(leave, events.scan((), |(), event| ready(event.ok().map(|event| event.to_sse()))))
}

/// An answer that goes on for as long as there are frames and leave, with heartbeats between them.
pub(crate) fn stream(leave: Leave, frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let beaten = futures::stream::unfold((Box::pin(frames), leave), move |(mut frames, leave)| {
        async move {
            // Before anything else: there may always be a frame.
            if leave.is_withdrawn() {
                return None;
            }
            let next = tokio::select! {
                biased;
                frame = frames.next() => frame?,
                () = leave.over() => return None,
                () = tokio::time::sleep_until(Instant::now() + HEARTBEAT) => BEAT,
            };
            Some((Ok::<_, Infallible>(next), (frames, leave)))
        }
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(beaten)).into_response()
}

impl StreamedEvent {
    pub(super) fn to_sse(&self) -> Bytes {
        let id = self.seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
        // A line break would end the line of data. Inside JSON it can only be a blank between values: texts escape theirs.
        let data = self.json.replace(['\n', '\r'], " ");
        format!("{id}event: {}\ndata: {data}\n\n", self.name).into()
    }
}
