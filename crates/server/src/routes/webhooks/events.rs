//! `POST /v1/webhooks/events` and `GET /v1/webhooks/events/{id}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_api::request;
use backstitch_modules::webhooks::{EventId, EventType, NewEvent};
use serde::Serialize;

use crate::app::App;
use crate::http::{EventInPath, Json, Query, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

request! {
    /// Something that happened.
    pub(in crate::routes) struct NewWebhookEvent as "NewWebhookEvent" {
        /// What kind of thing: words of letters, digits, `-` and `_` with dots between.
        r#type: EventType,
        /// What there is to say about it: any JSON, sent byte by byte as it stands.
        payload: Payload,
        /// Your own id: the same id and event again are the same event.
        id: Option<EventId>,
    }
}

/// An event that is on disk with its deliveries.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AcceptedWebhookEvent)]
pub(in crate::routes) struct Accepted {
    event_id: i64,
    /// What receivers tell repeats by.
    webhook_id: String,
    /// To how many subscriptions it was routed.
    deliveries: u64,
    /// It had been told before, and nothing changed.
    repeated: bool,
}

/// Takes an event. It is on disk, together with a delivery for each subscription that names its type, when this answers; it is
/// sent afterwards, at least once. The same `id` and event again route nothing twice.
#[utoipa::path(post, path = "/v1/webhooks/events", tag = "webhooks", request_body = NewWebhookEvent,
    responses(
        (status = 202, description = "It is on disk, and routed", body = Accepted),
        (status = 200, description = "It was there: how it was routed then", body = Accepted),
        (status = 409, description = "The id belongs to another event: its number, and when it came", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn tell(
    State(app): State<App>,
    query: Query,
    Json(NewWebhookEvent { r#type: EventType(kind), payload, id }): Json<NewWebhookEvent>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let id = id.map(|EventId(id)| id);
    let accepted = app.webhooks.parts.ingest.accept(NewEvent { id, kind, payload }).await?;
    let status = if accepted.repeated { StatusCode::OK } else { StatusCode::ACCEPTED };
    let backstitch_modules::webhooks::Accepted { event, webhook_id, deliveries, repeated } = accepted;
    Ok(json(status, &Accepted { event_id: event, webhook_id, deliveries, repeated }))
}

/// An event as it was told.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WebhookEvent)]
pub(in crate::routes) struct View {
    event_id: i64,
    /// The id that its client gave, or one made for it.
    id: String,
    r#type: String,
    webhook_id: String,
    #[schema(value_type = Value)]
    payload: Payload,
    created_at: Time,
}

/// An event as it was told.
#[utoipa::path(get, path = "/v1/webhooks/events/{id}", tag = "webhooks",
    params(("id" = i64, Path, description = "The `event_id` of the event", minimum = 1)),
    responses(
        (status = 200, description = "The event", body = View),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    EventInPath(id): EventInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let Some(event) = app.webhooks.parts.deliveries.event(id).await? else {
        let detail = format!("there is no event {id}: it was never told, or was removed for its age");
        return Err(Problem::new(Kind::EventNotFound, detail));
    };
    let payload = Payload::parse(event.payload).map_err(|why| {
        tracing::error!(%why, event = id, "an event's payload is no JSON");
        Problem::internal()
    })?;
    let view = View {
        event_id: event.id,
        id: event.uid,
        r#type: event.kind,
        webhook_id: event.webhook_id,
        payload,
        created_at: rfc3339(event.created_at),
    };
    Ok(json(StatusCode::OK, &view))
}
