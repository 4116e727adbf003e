//! `GET /v1/events`: everything, as it happens.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use backstitch::{EventView, FeedEvent};
use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;

use super::SentEventOfAll;
use super::sse::{frame, stream};
use crate::app::App;
use crate::audience::Wish;
use crate::auth::Leave;
use crate::http::Query;
use crate::problem::{Described, Kind, Problem};

/// What happens to any saga or lifecycle of this process from now on. There are no ids: what is missed is read from their
/// logs. The stream of a reader that falls too far behind ends.
#[utoipa::path(get, path = "/v1/events", tag = "sagas",
    params(
        ("definition" = Option<String>, Query, description = "Only of sagas of this definition, or of lifecycles of this machine"),
        ("type" = Option<String>, Query, description = "Only events of this type, as in `saga.failed` or `lifecycle.transitioned`"),
    ),
    responses(
        (status = 200, description = "The events", body = SentEventOfAll, content_type = "text/event-stream"),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn all_events(
    State(app): State<App>,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let wish = Wish {
        definition: query.text("definition").map(Arc::from),
        name: query.text("type").map(Cow::Owned),
    };
    query.finish("definition or type")?;
    let told = app.audience.listen(wish).ok_or_else(|| {
        Problem::new(
            Kind::TooManyRequests,
            "others listen for too many different things already: listen to everything, or try again later",
        )
    })?;
    let frames = futures::stream::unfold(told, |mut told| async move {
        match told.recv().await {
            Ok(frame) => Some((frame, told)),
            // A stream that ends is better than a gap that nobody sees.
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "a reader of all events is too slow: its stream ends");
                None
            }
            Err(RecvError::Closed) => None,
        }
    });
    Ok(stream(leave, frames))
}

/// An event among all others, as it is sent.
pub(crate) fn live_frame(event: &FeedEvent) -> Option<Bytes> {
    let recorded = &event.recorded;
    frame(None, recorded.event.name(), &EventView::among_all(event.saga, &event.definition, recorded))
}
