//! `POST /v1/definitions/{name}/apply` and `DELETE /v1/definitions/{name}/staged`

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::super::documents::{self, Discarded};
use super::{Definitions, InFlight};
use crate::app::App;
use crate::http::{NameInPath, Query};
use crate::problem::{Described, Problem};

/// A version that new sagas take from now on.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Applied {
    pub(super) name: String,
    pub(super) version: u32,
    /// Sagas that have not ended, each with the version it was started with and keeps.
    pub(super) in_flight: Vec<InFlight>,
}

/// Lets new sagas take the staged version. Those under way keep theirs.
#[utoipa::path(post, path = "/v1/definitions/{name}/apply", tag = "definitions",
    params(
        ("name" = String, Path, description = "The definition's name"),
        ("version" = Option<u32>, Query, description = "The version that is meant; whichever is staged unless given", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "New sagas take it", body = Applied),
        (status = 409, description = "Nothing is staged, or another version than the one that is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn apply(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    query: Query,
) -> Result<Response, Problem> {
    documents::apply::<Definitions>(&app, &name, query).await
}

/// Forgets the staged version.
#[utoipa::path(delete, path = "/v1/definitions/{name}/staged", tag = "definitions",
    params(
        ("name" = String, Path, description = "The definition's name"),
        ("version" = Option<u32>, Query, description = "The version that is meant; whichever is staged unless given", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "It is forgotten", body = Discarded),
        (status = 409, description = "Nothing is staged, or another version than the one that is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn discard(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    query: Query,
) -> Result<Response, Problem> {
    documents::discard::<Definitions>(&app, name, query).await
}
