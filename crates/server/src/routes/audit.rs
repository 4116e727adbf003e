//! `GET /v1/audit`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::app::App;
use crate::audit::{self, Recorded};
use crate::http::{Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A page of the audit.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct AuditPage {
    items: Vec<AuditItem>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// A change that somebody asked for.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditEntry)]
pub(super) struct AuditItem {
    id: i64,
    at: Time,
    /// The number of the API key; `null` while nobody needs one.
    key_id: Option<i64>,
    /// Its name.
    key: Option<String>,
    /// Its role, or `open`.
    role: String,
    /// The address that the request came from.
    peer: Option<String>,
    method: String,
    /// Path and query, as they came.
    path: String,
    /// The saga or the definition that it was about.
    subject: Option<String>,
    /// What was answered; `null` when nobody was able to record it, so that it may have been done or not.
    status: Option<i32>,
    /// What was done, where the path does not say it: which decision, on which filter, to how many.
    what: Option<String>,
}

impl From<Recorded> for AuditItem {
    fn from(recorded: Recorded) -> Self {
        let Recorded { id, at, key_id, key_name, role, peer, method, path, subject, status, what } = recorded;
        Self { id, at: rfc3339(at), key_id, key: key_name, role, peer, method, path, subject, status, what }
    }
}

/// Who asked for which change, when, from where, and what was answered, newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "operations",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = AuditPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    let before = query.read("cursor", |text| text.parse().ok(), "use the next_cursor of the page before")?;
    query.finish("limit or cursor")?;
    // One more tells whether there is another page.
    let beyond = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let found = audit::list(&app.engine, before.unwrap_or(i64::MAX), beyond).await;
    let mut found = found.map_err(|why| Problem::of_store(&why))?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(json(
        StatusCode::OK,
        &AuditPage { items: found.into_iter().map(AuditItem::from).collect(), next_cursor },
    ))
}
