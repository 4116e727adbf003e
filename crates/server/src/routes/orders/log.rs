//! `GET /v1/orders/{tx_id}/log`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::StepId;
use backstitch_modules::orders::{Code, Entry, entry};
use serde::Serialize;

use super::super::vocabulary::TransactionCode;
use crate::app::App;
use crate::http::{OrderInPath, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// Events read at once.
const PAGE: usize = 1000;

/// The transaction log of an order.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TransactionLog<'a> {
    items: Vec<TransactionEntry<'a>>,
    /// Always `null`: the log is answered as a whole.
    next_cursor: Option<String>,
}

/// A state transition, as it stands in the append-only log.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TransactionEntry<'a> {
    /// Its number; numbers in between belong to events of other kinds.
    seq: u64,
    at: Time,
    /// The service; `null` for the order as a whole.
    #[schema(value_type = Option<String>)]
    service: Option<&'a StepId>,
    /// `U` uncommitted, `S` succeeded, `F` failed, `R` rolled back, `D` done, `RF` rollback failed.
    #[schema(value_type = TransactionCode)]
    status: Code,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> TransactionEntry<'a> {
    fn of(entry: &Entry<'a>) -> Self {
        Self {
            seq: entry.seq,
            at: rfc3339(entry.at),
            service: entry.service,
            status: entry.status,
            error: entry.error.map(|error| error.message.as_str()),
        }
    }
}

/// What happened to an order, service by service, oldest first.
#[utoipa::path(get, path = "/v1/orders/{tx_id}/log", tag = "orders",
    params(
        ("tx_id" = String, Path, description = "The transaction", format = Uuid),
        ("token" = Option<String>, Query, description = "The order's stream token, instead of a key"),
    ),
    responses(
        (status = 200, description = "The log", body = TransactionLog),
        (status = 404, description = "There is no such order", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn log(
    State(app): State<App>,
    OrderInPath(id): OrderInPath,
    mut query: Query,
) -> Result<Response, Problem> {
    query.text("token");
    query.finish("token")?;
    super::followed(&app, id).await?;
    let mut events = app.engine.log(id, 0, PAGE).await?;
    while events.len().is_multiple_of(PAGE)
        && let Some(last) = events.last()
    {
        let more = app.engine.log(id, last.seq, PAGE).await?;
        if more.is_empty() {
            break;
        }
        events.extend(more);
    }
    let items = events.iter().filter_map(entry).map(|entry| TransactionEntry::of(&entry)).collect();
    Ok(json(StatusCode::OK, &TransactionLog { items, next_cursor: None }))
}
