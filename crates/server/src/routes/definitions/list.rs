//! `GET /v1/definitions`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::store::documents::Document;
use serde::Serialize;

use super::super::documents::DocumentPage;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// A page of declared definitions.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct DefinitionPage {
    items: Vec<DefinitionItem>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// A declared definition.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Definition)]
pub(crate) struct DefinitionItem {
    pub(super) name: String,
    /// The version that new sagas take; `null` before one is applied.
    pub(super) active: Option<u32>,
    /// The version that waits to be applied or discarded.
    pub(super) staged: Option<u32>,
    /// Every version there is, oldest first.
    pub(super) versions: Vec<VersionItem>,
}

/// A version of it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DefinitionVersion)]
pub(crate) struct VersionItem {
    version: u32,
    created_at: Time,
}

impl DefinitionItem {
    pub(super) fn of(declared: &Document) -> Self {
        let versions = declared.versions.iter();
        Self {
            name: declared.name.to_string(),
            active: declared.active,
            staged: declared.staged,
            versions: versions
                .map(|version| VersionItem {
                    version: version.number,
                    created_at: rfc3339(version.created_at),
                })
                .collect(),
        }
    }
}

/// What is declared, by name, a page at a time.
#[utoipa::path(get, path = "/v1/definitions", tag = "definitions",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = DefinitionPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn list(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    let asked = DocumentPage::read(query)?;
    let declared = app.engine.declarations().await?;
    let (page, next_cursor) = asked.of(&declared);
    let items = page.iter().map(DefinitionItem::of).collect();
    Ok(json(StatusCode::OK, &DefinitionPage { items, next_cursor }))
}
