//! `GET /v1/lifecycles/{machine}/{key}/log`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::super::sagas::log::MAX_SEQ;
use super::event::LifecycleEvent;
use super::told;
use crate::app::App;
use crate::http::{LifecycleInPath, Query, json};
use crate::problem::{Described, Problem};
use backstitch_modules::lifecycles::LifecycleKey;

const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A part of a lifecycle's log.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LifecycleLogPage)]
pub(in crate::routes) struct LogPage<'a> {
    items: Vec<LifecycleEvent<'a>>,
    /// Give it as `cursor` to get the next part; `null` at the end of the log as it stands.
    next_cursor: Option<String>,
}

/// What happened to a lifecycle, oldest first, a page at a time.
#[utoipa::path(get, path = "/v1/lifecycles/{machine}/{key}/log", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<u64>, Query, description = "The `next_cursor` of the page before, or the `seq` to begin after", maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "A page", body = LogPage),
        (status = 404, description = "There is no such machine, or nothing of this key", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn log(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    mut query: Query,
) -> Result<Response, Problem> {
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    let after = query.number("cursor", 0, MAX_SEQ)?.unwrap_or(0);
    query.finish("limit or cursor")?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&machine, &key).await).await?;
    // One more than asked for tells whether there is more.
    let mut events = parts.log(standing.id, after, limit + 1).await?;
    let more = events.len() > limit;
    events.truncate(limit);
    let next_cursor = events.last().filter(|_| more).map(|last| last.seq.to_string());
    let items = events.iter().map(LifecycleEvent::of).collect();
    Ok(json(StatusCode::OK, &LogPage { items, next_cursor }))
}
