//! `GET /v1/outbox/{id}`, and a message as every route of the outbox shows it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch::store::outbox::Kept;
use serde::Serialize;

use crate::app::App;
use crate::http::{MessageInPath, Query, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

/// Where a message stands.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes what is written as text")]
pub(super) enum MessageStatus {
    Pending,
    Sending,
    Failed,
    Succeeded,
    Aborted,
}

/// A message as it stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Message)]
pub(super) struct Item<'a> {
    id: i64,
    topic: &'a str,
    /// Receivers tell a repeated message by it.
    idempotency_key: &'a str,
    /// Messages of a topic with the same one arrive in order.
    ordering_key: Option<&'a str>,
    #[schema(value_type = MessageStatus)]
    status: &'static str,
    /// Sends finished so far.
    attempts: u32,
    /// It may have been sent before by somebody who never came back.
    in_doubt: bool,
    /// SHA-256 of the canonical payload (RFC 8785); the server's own messages have none.
    request_digest: Option<String>,
    /// Any JSON.
    #[schema(value_type = Value)]
    payload: &'a Payload,
    /// What the other side answered, once it has the message.
    #[schema(value_type = Value)]
    result: Option<&'a Payload>,
    last_error_code: Option<&'a str>,
    last_error_msg: Option<&'a str>,
    /// When it is sent next; `null` while it is sent, once it is settled, and behind another one of its ordering key.
    next_attempt_at: Option<Time>,
    locked_by: Option<&'a str>,
    locked_at: Option<Time>,
    expires_at: Option<Time>,
    /// The aborted message that this one stands for.
    retry_of: Option<i64>,
    created_at: Time,
    updated_at: Time,
}

impl<'a> Item<'a> {
    pub(super) fn of(kept: &'a Kept) -> Self {
        let error = kept.last_error.as_ref();
        Self {
            id: kept.id,
            topic: &kept.message.topic,
            idempotency_key: &kept.message.idempotency_key,
            ordering_key: kept.message.ordering_key.as_deref(),
            status: kept.status.as_str(),
            attempts: kept.attempts,
            in_doubt: kept.in_doubt,
            request_digest: kept.digest.map(|digest| digest.to_string()),
            payload: &kept.message.payload,
            result: kept.result.as_ref(),
            last_error_code: error.map(|error| error.code.as_str()),
            last_error_msg: error.map(|error| error.message.as_str()),
            next_attempt_at: kept.due_at.map(rfc3339),
            locked_by: kept.locked_by.as_deref(),
            locked_at: kept.locked_at.map(rfc3339),
            expires_at: kept.message.expires_at.map(rfc3339),
            retry_of: kept.retry_of,
            created_at: rfc3339(kept.created_at),
            updated_at: rfc3339(kept.updated_at),
        }
    }
}

/// There is none.
pub(crate) fn not_found(id: i64) -> Problem {
    Problem::new(Kind::MessageNotFound, format!("there is no message {id}: GET /v1/outbox lists them"))
}

/// A message as it stands.
#[utoipa::path(get, path = "/v1/outbox/{id}", tag = "outbox",
    params(("id" = i64, Path, description = "The message", minimum = 1)),
    responses(
        (status = 200, description = "The message", body = Item),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    MessageInPath(id): MessageInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let kept = app.engine.message(id).await?.ok_or_else(|| not_found(id))?;
    Ok(json(StatusCode::OK, &Item::of(&kept)))
}
