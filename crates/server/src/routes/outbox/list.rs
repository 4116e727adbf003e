//! `GET /v1/outbox`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::store::outbox::{Listing, Status};
use serde::Serialize;

use super::message::{Item, MessageStatus};
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};

const LIMIT: usize = 50;
const MOST: usize = 500;

/// A page of messages.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct MessagePage<'a> {
    items: Vec<Item<'a>>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<i64>,
}

/// Messages, newest first, a page at a time.
#[utoipa::path(get, path = "/v1/outbox", tag = "outbox",
    params(
        ("status" = Option<MessageStatus>, Query, description = "In this status"),
        ("topic" = Option<String>, Query, description = "Of this topic"),
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before", minimum = 1),
    ),
    responses(
        (status = 200, description = "A page", body = MessagePage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let statuses = "use pending, sending, failed, succeeded or aborted";
    let number = |text: &str| text.parse().ok().filter(|id: &i64| *id > 0);
    let listing = Listing {
        status: query.read("status", Status::named, statuses)?,
        topic: query.text("topic"),
        before: query.read("cursor", number, "use the next_cursor of the page before")?,
    };
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    query.finish("status, topic, limit or cursor")?;
    // One more, which tells whether there is another page.
    let mut found = app.engine.messages(&listing, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|kept| kept.id);
    let items = found.iter().map(Item::of).collect();
    Ok(json(StatusCode::OK, &MessagePage { items, next_cursor }))
}
