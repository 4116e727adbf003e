//! `POST /do/order`

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_modules::outbox::{Answer, ORDERS, OrderRequest};
use backstitch_modules::unique::each_name_once;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::text::Label;
use super::message::Item;
use super::publish::refuse_unknown_topic;
use crate::app::App;
use crate::http::{Json, Query, idempotency_key, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

/// An order request, whatever it holds besides its key.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = DoOrder, min_properties = 2, example = json!({ "idempotency_key": "order-17", "sku": "book" }))]
#[expect(dead_code, reason = "describes what is read as it comes")]
pub(in crate::routes) struct Request {
    /// The same key and request give the same answer. Required unless the `Idempotency-Key` header has it.
    #[serde(default)]
    #[schema(value_type = Label, required = false, example = "order-17")]
    idempotency_key: Option<String>,
    /// Aborted if it is not sent by then. Like the key it is no part of what the broker gets.
    #[serde(default)]
    expires_at: Option<Time>,
    #[serde(flatten)]
    order: BTreeMap<String, Value>,
}

/// What a request holds, as it is written.
pub(in crate::routes) struct Members(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        each_name_once(from).map(Self)
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
    Json(Members(mut request)): Json<Members>,
) -> Result<Response, Problem> {
    query.finish("")?;
    refuse_unknown_topic(&app, ORDERS)?;
    let expires_at = expiry(&mut request)?;
    let request = OrderRequest::read(request, idempotency_key(&headers)?)
        .map_err(|why| Problem::field("idempotency_key", why.to_string()))?
        .expires_at(expires_at);
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

/// Takes the time out of a request by which it must be sent.
fn expiry(request: &mut BTreeMap<String, Box<RawValue>>) -> Result<Option<Timestamp>, Problem> {
    let Some(given) = request.remove("expires_at") else { return Ok(None) };
    let read: Result<Option<Time>, _> = serde_json::from_str(given.get());
    let message = "is not a time: write it in RFC 3339, like 2030-01-31T12:00:00Z, or leave it out";
    let time = read.map_err(|_| Problem::field("expires_at", message))?;
    Ok(time.map(|Time(time)| time))
}
