//! `GET /v1/orders/{tx_id}/events` and `/ws`: an order's progress, with what the customer reads.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;

use super::super::streams::{Position, SentEvent, Wording, of_saga, sse, ws};
use super::super::vocabulary;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{OrderInPath, Query};
use crate::problem::{Described, Problem};

/// What happens to an order, as it happens; each event has a `message` for the customer.
///
/// `id:` is the event's number, `event:` its type. The stream ends with the order. A reader that comes back with
/// `Last-Event-ID` gets exactly what it missed; one that missed nothing of an order at its end gets 204. A
/// number that no event has yet is refused.
#[utoipa::path(get, path = "/v1/orders/{tx_id}/events", tag = "orders",
    params(
        ("tx_id" = String, Path, description = "The transaction", format = Uuid),
        ("token" = Option<String>, Query, description = "The order's stream token, instead of a key"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last event that was read", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The events", body = SentEvent, content_type = "text/event-stream"),
        (status = 204, description = "The order is at its end, and nothing was missed"),
        (status = 400, description = "The id or a header is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such order", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn order_events(
    State(app): State<App>,
    OrderInPath(id): OrderInPath,
    leave: Leave,
    mut query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.text("token");
    query.finish("token")?;
    let run = super::followed(&app, id).await?;
    let position = Position::of_header(&headers)?;
    Ok(sse::response(leave, of_saga(&run, position, Wording::Order(app)).await?))
}

/// The same over WebSocket: one text message an event.
#[utoipa::path(get, path = "/v1/orders/{tx_id}/ws", tag = "orders",
    params(
        ("tx_id" = String, Path, description = "The transaction", format = Uuid),
        ("after" = Option<u64>, Query, description = "The number of the last event that was read", maximum = 2_147_483_647),
        ("token" = Option<String>, Query, description = "The order's stream token, instead of a key"),
    ),
    responses(
        (status = 101, description = "The events", body = vocabulary::Event),
        (status = 400, description = "Not a WebSocket, or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such order", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn order_socket(
    State(app): State<App>,
    OrderInPath(id): OrderInPath,
    leave: Leave,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let run = super::followed(&app, id).await?;
    ws::response(leave, &run, query, upgrade, Wording::Order(app)).await
}
