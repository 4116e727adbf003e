//! `GET /v1/events`: everything, as it happens.

use axum::extract::State;
use axum::response::Response;
use futures::StreamExt;

use super::super::sagas::event::EventView;
use super::SentEvent;
use super::sse::{frame, stream};
use crate::app::App;
use crate::http::Query;
use crate::problem::{Described, Problem};

/// What happens to any saga of this process from now on. There are no ids: what is missed is read from the sagas' logs.
#[utoipa::path(get, path = "/v1/events", tag = "sagas",
    params(
        ("definition" = Option<String>, Query, description = "Only of sagas of this definition"),
        ("type" = Option<String>, Query, description = "Only events of this type, as in `saga.failed`"),
    ),
    responses(
        (status = 200, description = "The events", body = SentEvent, content_type = "text/event-stream"),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn all_events(
    State(app): State<App>,
    mut query: Query,
) -> Result<Response, Problem> {
    let definition = query.text("definition");
    let name = query.text("type");
    query.finish("definition or type")?;
    let frames = app.engine.events().filter_map(move |live| {
        let event = &live.recorded.event;
        let wanted = definition.as_deref().is_none_or(|definition| *live.definition == *definition)
            && name.as_deref().is_none_or(|name| event.name() == name);
        let frame = wanted.then(|| frame(None, event.name(), &EventView::among_all(&live))).flatten();
        async { frame }
    });
    Ok(stream(&app, frames))
}
