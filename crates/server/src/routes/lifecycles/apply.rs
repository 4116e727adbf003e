//! `POST /v1/lifecycles/{machine}/apply` and `DELETE /v1/lifecycles/{machine}/staged`

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::super::documents::{self, Discarded};
use super::Machines;
use super::show::VersionItem;
use crate::app::App;
use crate::http::{MachineInPath, Query};
use crate::problem::{Described, Problem};

/// A version that new lifecycles take from now on.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineApplied)]
pub(crate) struct Applied {
    pub(super) name: String,
    pub(super) version: u32,
    /// Every version there is, oldest first, with what is under way on it.
    pub(super) versions: Vec<VersionItem>,
}

/// Lets new lifecycles take the staged version. Those under way keep theirs.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/apply", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("version" = Option<u32>, Query, description = "The version that is meant; whichever is staged unless given", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "New lifecycles take it", body = Applied),
        (status = 404, description = "There is no such machine", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "Nothing is staged, or another version than the one that is meant; or the machine is built in", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn apply(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    query: Query,
) -> Result<Response, Problem> {
    documents::apply::<Machines>(&app, &name, query).await
}

/// Forgets which version is staged.
#[utoipa::path(delete, path = "/v1/lifecycles/{machine}/staged", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("version" = Option<u32>, Query, description = "The version that is meant; whichever is staged unless given", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "It is forgotten", body = Discarded),
        (status = 404, description = "There is no such machine", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "Nothing is staged, or another version than the one that is meant; or the machine is built in", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn discard(
    State(app): State<App>,
    MachineInPath(name): MachineInPath,
    query: Query,
) -> Result<Response, Problem> {
    documents::discard::<Machines>(&app, name, query).await
}
