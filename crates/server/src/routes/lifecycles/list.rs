//! `GET /v1/lifecycles`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::store::documents::Document;
use serde::Serialize;

use super::super::documents::DocumentPage;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::Problem;
use backstitch_api::time::{Time, rfc3339};

/// A page of machines.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct MachinePage {
    items: Vec<MachineItem>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// A machine that is declared.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Machine)]
pub(in crate::routes) struct MachineItem {
    name: String,
    /// The version that new lifecycles take; `null` before one is applied.
    active: Option<u32>,
    /// The version that waits to be applied or discarded.
    staged: Option<u32>,
    /// When that changed last.
    changed_at: Time,
}

impl From<&Document> for MachineItem {
    fn from(document: &Document) -> Self {
        let &Document { active, staged, changed_at, .. } = document;
        Self { name: document.name.to_string(), active, staged, changed_at: rfc3339(changed_at) }
    }
}

/// The machines that are declared, by name, a page at a time.
#[utoipa::path(get, path = "/v1/lifecycles", tag = "lifecycles",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses((status = 200, description = "A page", body = MachinePage)))]
pub(in crate::routes) async fn list(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    let asked = DocumentPage::read(query)?;
    let declared = app.lifecycles.parts.machines.list().await?;
    let (page, next_cursor) = asked.of(&declared);
    let items = page.iter().map(MachineItem::from).collect();
    Ok(json(StatusCode::OK, &MachinePage { items, next_cursor }))
}
