//! `PUT /v1/lifecycles/{machine}`

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::super::definitions::document::Document;
use super::super::documents;
use super::Machines;
use super::written::Written;
use crate::app::App;
use crate::http::{MachineInPath, Query};
use crate::problem::{Described, Problem};

/// What became of a declaration.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineDeclared)]
pub(crate) struct Declared {
    pub(super) name: String,
    /// The version it is.
    pub(super) version: u32,
    /// `staged`, or `active` when it is what new lifecycles take.
    pub(super) standing: &'static str,
    /// The machine as a picture: Mermaid's `stateDiagram-v2`.
    pub(super) diagram: String,
}

/// Stages a machine as the next version of its name, in place of what was staged before.
///
/// With `apply=true` new lifecycles take it at once. Those under way keep the version they were started with. The same
/// machine again changes nothing and is answered with 200.
#[utoipa::path(put, path = "/v1/lifecycles/{machine}", tag = "lifecycles",
    request_body(content((Written = "application/json"), (Written = "application/yaml")), description = "The machine, as docs/lifecycles.md says"),
    params(
        ("machine" = String, Path, description = "The name, as in the declaration", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("apply" = Option<bool>, Query, description = "Let new lifecycles take it at once"),
    ),
    responses(
        (status = 200, description = "It was declared before", body = Declared),
        (status = 201, description = "It is a new version", body = Declared),
        (status = 404, description = "That cannot be the name of a machine", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The machine is built in, or somebody declared another version at the same moment", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Neither YAML nor JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It has mistakes; each is listed with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn put(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    query: Query,
    document: Document,
) -> Result<Response, Problem> {
    documents::put::<Machines>(&app, name, query, &document).await
}
