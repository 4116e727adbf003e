//! `GET /v1/sagas/{id}/log`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::EventView;
use serde::Serialize;

use super::super::vocabulary;
use crate::app::App;
use crate::http::{Query, SagaInPath, json};
use crate::problem::{Described, Problem};

const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A part of a saga's log.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct LogPage<'a> {
    #[schema(value_type = Vec<vocabulary::Event>)]
    items: Vec<EventView<'a>>,
    /// Give it as `cursor` to get the next part; `null` at the end of the log as it stands.
    next_cursor: Option<String>,
}

/// What happened to a saga, oldest first, a page at a time.
#[utoipa::path(get, path = "/v1/sagas/{id}/log", tag = "sagas",
    params(
        ("id" = String, Path, description = "The saga", format = Uuid),
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<u64>, Query, description = "The `next_cursor` of the page before, or the `seq` to begin after", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "A page", body = LogPage),
        (status = 400, description = "The id or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is no such saga", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn log(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    mut query: Query,
) -> Result<Response, Problem> {
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    let after = query.number("cursor", 0, MAX_SEQ)?.unwrap_or(0);
    query.finish("limit or cursor")?;
    // One more than asked for tells whether there is more.
    let mut events = app.engine.log(id, after, limit + 1).await?;
    let more = events.len() > limit;
    events.truncate(limit);
    let next_cursor = events.last().filter(|_| more).map(|last| last.seq.to_string());
    Ok(json(StatusCode::OK, &LogPage { items: events.iter().map(EventView::of).collect(), next_cursor }))
}

/// The largest number that every store can hold.
pub(in crate::routes) const MAX_SEQ: u64 = i32::MAX as u64;
