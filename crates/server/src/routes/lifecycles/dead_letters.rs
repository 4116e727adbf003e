//! `GET /v1/lifecycle-dead-letters`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::lifecycles::DeadLetter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 20;
/// Each may be as large as a message.
const MOST: usize = 100;

/// A page of requests that nobody could make sense of.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct LifecycleDeadLetterPage {
    items: Vec<LifecycleDeadLetter>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// A request that nobody could make sense of.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct LifecycleDeadLetter {
    id: i64,
    at: Time,
    /// Where it came from.
    #[schema(example = "nats:SITES")]
    source: String,
    /// What is wrong with it.
    reason: String,
    /// The request as it came, where it is text.
    body: Option<String>,
    /// The same in base64, where it is not.
    body_base64: Option<String>,
}

impl From<DeadLetter> for LifecycleDeadLetter {
    fn from(DeadLetter { id, at, source, reason, body }: DeadLetter) -> Self {
        let (body, body_base64) = match String::from_utf8(body) {
            Ok(text) => (Some(text), None),
            Err(bytes) => (None, Some(STANDARD.encode(bytes.into_bytes()))),
        };
        Self { id, at: rfc3339(at), source, reason, body, body_base64 }
    }
}

/// Requests for lifecycles that nobody could make sense of, newest first, a page at a time. They are kept as they came.
#[utoipa::path(get, path = "/v1/lifecycle-dead-letters", tag = "lifecycles",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 20 unless given", minimum = 1, maximum = 100),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before", minimum = 1),
    ),
    responses(
        (status = 200, description = "A page", body = LifecycleDeadLetterPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    let before = query.number("cursor", 1, i64::MAX)?;
    query.finish("limit or cursor")?;
    let mut letters = app.lifecycles.parts.dead_letters(before, limit + 1).await?;
    let more = letters.len() > limit;
    letters.truncate(limit);
    let next_cursor = letters.last().filter(|_| more).map(|last| last.id.to_string());
    let items = letters.into_iter().map(LifecycleDeadLetter::from).collect();
    Ok(json(StatusCode::OK, &LifecycleDeadLetterPage { items, next_cursor }))
}
