//! `POST /v1/outbox/{id}/retry`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::store::outbox::Retried;

use super::message::{Item, not_found};
use crate::app::App;
use crate::http::{MessageInPath, Query, json};
use crate::problem::{Described, Kind, Problem};

/// Sends an aborted message again, as a new one under the same idempotency key. Asking twice gives the same one.
#[utoipa::path(post, path = "/v1/outbox/{id}/retry", tag = "outbox",
    params(("id" = i64, Path, description = "The aborted message", minimum = 1)),
    responses(
        (status = 201, description = "The message that stands for it from now on", body = Item),
        (status = 200, description = "The message that stands for it since it was asked for first", body = Item),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "It is not aborted", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn retry(
    State(app): State<App>,
    MessageInPath(id): MessageInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (status, new) = match app.engine.retry_message(id).await? {
        Retried::Accepted(new) => (StatusCode::CREATED, new),
        Retried::Replay(new) => (StatusCode::OK, new),
        Retried::Unknown => return Err(not_found(id)),
        Retried::NotAborted(status) => {
            let detail = format!("message {id} is {}: only an aborted one is sent again", status.as_str());
            return Err(Problem::new(Kind::MessageNotAborted, detail).with("message_status", status.as_str()));
        }
    };
    let kept = app.engine.message(new).await?.ok_or_else(|| not_found(new))?;
    Ok(json(status, &Item::of(&kept)))
}
