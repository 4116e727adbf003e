//! `POST /v1/lifecycles/{machine}/apply` and `DELETE /v1/lifecycles/{machine}/staged`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::super::declared::meant;
use super::show::{COUNTED, VersionItem};
use super::{refuse_the_servers_own, told};
use crate::app::App;
use crate::http::{MachineInPath, Query, json};
use crate::problem::{Described, Problem};

/// A version that new lifecycles take from now on.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineApplied)]
pub(in crate::routes) struct Applied {
    name: String,
    version: u32,
    /// Every version there is, oldest first, with what is under way on it.
    versions: Vec<VersionItem>,
}

/// A version that was not applied.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = MachineDiscarded)]
pub(in crate::routes) struct Discarded {
    name: String,
    /// Its number, which is not used again.
    discarded: u32,
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
    let expected = meant(query)?;
    refuse_the_servers_own(&name)?;
    let machines = &app.lifecycles.parts.machines;
    let version = told(&app, machines.apply(&name, expected).await).await?;
    let versions = machines.versions(&name, COUNTED).await?.iter().map(VersionItem::from).collect();
    Ok(json(StatusCode::OK, &Applied { name, version, versions }))
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
    let expected = meant(query)?;
    refuse_the_servers_own(&name)?;
    let discarded = told(&app, app.lifecycles.parts.machines.discard(&name, expected).await).await?;
    Ok(json(StatusCode::OK, &Discarded { name, discarded }))
}
