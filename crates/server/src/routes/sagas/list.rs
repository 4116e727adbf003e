//! `GET /v1/sagas`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::{Cursor, Filter, SagaId, Status, Summary};
use serde::Serialize;

use super::super::vocabulary::SagaStatus;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 50;
const MOST: usize = 500;

/// A part of the list.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SagaPage {
    items: Vec<Item>,
    /// Give it as `cursor` to get the next part; `null` at the end.
    #[schema(value_type = Option<String>, format = Uuid)]
    next_cursor: Option<SagaId>,
}

/// A saga in a list.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SagaItem)]
pub(crate) struct Item {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    definition: String,
    version: u32,
    /// Where it stands.
    #[schema(value_type = SagaStatus)]
    status: &'static str,
    paused: bool,
    correlation_id: Option<String>,
    created_at: Time,
    updated_at: Time,
    /// The step that failed first.
    failed_step: Option<String>,
    /// Of a failed saga, the step whose compensation failed last: the one to resolve.
    stuck_step: Option<String>,
    /// Why that compensation failed.
    stuck_error: Option<String>,
}

impl From<Summary> for Item {
    fn from(saga: Summary) -> Self {
        Self {
            id: saga.id,
            definition: saga.definition.to_string(),
            version: saga.version,
            status: saga.status.as_str(),
            paused: saga.paused,
            correlation_id: saga.correlation_id,
            created_at: rfc3339(saga.created_at),
            updated_at: rfc3339(saga.updated_at),
            failed_step: saga.failed_step.map(|step| step.to_string()),
            stuck_step: saga.stuck.as_ref().map(|stuck| stuck.step.to_string()),
            stuck_error: saga.stuck.map(|stuck| stuck.error.message),
        }
    }
}

/// Sagas, newest first, a page at a time. Where several filters together find few, a page may be short, or empty: the list is
/// over when `next_cursor` is `null`.
#[utoipa::path(get, path = "/v1/sagas", tag = "sagas",
    params(
        ("status" = Option<SagaStatus>, Query, description = "In this status"),
        ("definition" = Option<String>, Query, description = "Of this definition"),
        ("correlation_id" = Option<String>, Query, description = "With this correlation id"),
        ("stuck_step" = Option<String>, Query, description = "Failed, and stuck at the compensation of this step"),
        ("attr.NAME" = Option<String>, Query, description = "With this attribute; any number of them"),
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before", format = Uuid),
    ),
    responses(
        (status = 200, description = "A page", body = SagaPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let statuses = "use pending, running, succeeded, failed, compensating or compensated";
    let filter = Filter {
        status: query.read("status", Status::parse, statuses)?,
        definition: query.text("definition"),
        correlation_id: query.text("correlation_id"),
        attributes: query.prefixed("attr.").into_iter().collect(),
        stuck_step: query.text("stuck_step"),
    };
    let cursor = Cursor {
        limit: query.number("limit", 1, MOST)?.unwrap_or(LIMIT),
        before: query.read(
            "cursor",
            |text| text.parse().ok(),
            "use the next_cursor of the page before, as it was given",
        )?,
    };
    query.finish("status, definition, correlation_id, stuck_step, attr.NAME, limit or cursor")?;
    let page = app.engine.list(&filter, &cursor).await?;
    let items = page.items.into_iter().map(Item::from).collect();
    Ok(json(StatusCode::OK, &SagaPage { items, next_cursor: page.next }))
}
