//! `GET /v1/events`: everything, as it happens.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use backstitch::watch::EventFilter;
use backstitch::{EventView, SagaEvent};
use backstitch_modules::lifecycles::InstanceEvent;
use bytes::Bytes;
use serde::Serialize;

use super::super::lifecycles::LifecycleEvent;
use super::sse::stream;
use super::{SentEventOfAll, StreamedEvent};
use crate::app::App;
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
    let filter = EventFilter {
        definition: query.text("definition").map(Arc::from),
        name: query.text("type").map(Cow::Owned),
    };
    query.finish("definition or type")?;
    let events = app.events.subscribe(filter).ok_or_else(|| {
        Problem::new(
            Kind::TooManyRequests,
            "others listen for too many different things already: listen to everything, or try again later",
        )
    })?;
    let frames = futures::stream::unfold(events, |mut events| async move {
        // A stream that ends is better than an unnoticed gap.
        let frame = events.next().await?.inspect_err(|gap| {
            tracing::warn!(missed = gap.missed, "a reader of all events is too slow; its stream ends");
        });
        Some((frame.ok()?, events))
    });
    Ok(stream(leave, frames))
}

/// An event of a saga among those of all logs.
pub(crate) fn encode_event(event: &SagaEvent) -> Option<Bytes> {
    let recorded = &event.recorded;
    let view = EventView::among_all(event.saga, &event.definition, recorded);
    encode(recorded.event.name(), &view)
}

/// An event of a lifecycle among those of all logs.
pub(crate) fn encode_instance_event(event: &InstanceEvent) -> Option<Bytes> {
    encode(event.recorded.event.name(), &LifecycleEvent::among_all(event))
}

fn encode<T: Serialize>(name: &'static str, view: &T) -> Option<Bytes> {
    StreamedEvent::of(None, name, view).ok().map(|event| event.to_sse())
}
