//! `POST /do/order`

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use backstitch_api::request;
use backstitch_api::validate::{Label, Omittable};
use backstitch_modules::outbox::{Answer, ORDERS, OrderRequest};

use super::message::Item;
use super::publish::refuse_unknown_topic;
use crate::app::App;
use crate::http::{Json, Query, idempotency_key, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

request! {
    /// An order request, whatever it holds besides its key.
    pub(in crate::routes) struct Request as "DoOrder" example { "idempotency_key": "order-17", "sku": "book" } {
        /// The same key and request give the same answer. Required unless the `Idempotency-Key` header has it.
        idempotency_key: Omittable<Label>,
        /// Aborted if it is not sent by then. Like the key it is no part of what the broker gets.
        expires_at: Option<Time>,
        ..order,
    }
}

/// Accepts an order request for the broker. It is on disk, together with its key, when this answers; it is sent
/// afterwards. The same request again is answered with what has become of the first.
#[utoipa::path(post, path = "/do/order", tag = "outbox", request_body = Request,
    params(("Idempotency-Key" = Option<String>, Header, description = "The request's key, if its body has none", min_length = 1, max_length = 512)),
    responses(
        (status = 202, description = "Accepted for the first time", body = Item),
        (status = 200, description = "It was there: what has become of it", body = Item),
        (status = 409, description = "The key belongs to another request: when that came, its digest, and where the two differ", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It does not fit", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn accept(
    State(app): State<App>,
    query: Query,
    headers: HeaderMap,
    Json(Request { idempotency_key: key, expires_at, order }): Json<Request>,
) -> Result<Response, Problem> {
    query.finish("")?;
    refuse_unknown_topic(&app, ORDERS)?;
    let key = key.0.map(|Label(key)| key);
    let request = OrderRequest::new(key, idempotency_key(&headers)?, order)
        .map_err(|why| Problem::field("idempotency_key", why.to_string()))?
        .expires_at(expires_at.map(|Time(time)| time));
    match request.accept(&app.engine).await? {
        Answer::Accepted(kept) => Ok(json(StatusCode::ACCEPTED, &Item::of(&kept))),
        Answer::Known(kept) => Ok(json(StatusCode::OK, &Item::of(&kept))),
        Answer::Conflict(conflict) => {
            let first_at = rfc3339(conflict.first_at);
            let detail = format!(
                "the idempotency key was first used for another request, at {first_at}: send that one again, or use a new \
                 key for a new request"
            );
            let problem = Problem::new(Kind::IdempotencyConflict, detail);
            Err(problem
                .with("message_id", &conflict.id)
                .with("first_digest", &conflict.first_digest)
                .with("digest", &conflict.digest)
                .with("first_at", &first_at)
                .with("differs", &conflict.differs))
        }
    }
}
