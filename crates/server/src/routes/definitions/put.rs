//! `PUT /v1/definitions/{name}`

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::super::documents;
use super::document::Document;
use super::written::Written;
use super::{Definitions, InFlight};
use crate::app::App;
use crate::http::{NameInPath, Query};
use crate::problem::{Described, Problem};

/// What became of a definition.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Declared {
    pub(super) name: String,
    /// The version it is.
    pub(super) version: u32,
    /// `staged`, or `active` when it is what new sagas take.
    pub(super) standing: &'static str,
    /// Sagas that have not ended, by version; only where it was to be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_flight: Option<Vec<InFlight>>,
}

/// Stages a definition as the next version of its name, in place of what was staged before.
///
/// With `apply=true` new sagas take it at once. Those under way keep the version they were started with. The same
/// definition again changes nothing and is answered with 200.
#[utoipa::path(put, path = "/v1/definitions/{name}", tag = "definitions",
    request_body(content((Written = "application/json"), (Written = "application/yaml")), description = "The definition, as docs/definitions.md says"),
    params(
        ("name" = String, Path, description = "The name, as in the definition"),
        ("apply" = Option<bool>, Query, description = "Let new sagas take it at once"),
    ),
    responses(
        (status = 200, description = "It was declared before", body = Declared),
        (status = 201, description = "It is a new version", body = Declared),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The name belongs to something else, or too many declared another version at the same moment: nothing was changed", body = Described, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Neither YAML nor JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It has mistakes; each is listed with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn put(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    query: Query,
    document: Document,
) -> Result<Response, Problem> {
    documents::put::<Definitions>(&app, name, query, &document).await
}
