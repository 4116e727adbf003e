//! `POST /v1/definitions/{name}/apply` and `DELETE /v1/definitions/{name}/staged`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::super::declared::meant;
use super::{InFlight, in_flight, refuse_the_servers_own};
use crate::app::App;
use crate::http::{NameInPath, Query, json};
use crate::problem::{Described, Problem};

/// A version that new sagas take from now on.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Applied {
    name: String,
    version: u32,
    /// Sagas that have not ended, each with the version it was started with and keeps.
    in_flight: Vec<InFlight>,
}

/// A version that was not applied.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Discarded {
    name: String,
    /// Its number, which is not used again.
    discarded: u32,
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
    let expected = meant(query)?;
    refuse_the_servers_own(&name)?;
    let applied = app.engine.apply(&name, expected).await?;
    let answer = Applied { name, version: applied.version, in_flight: in_flight(&applied.in_flight) };
    Ok(json(StatusCode::OK, &answer))
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
    let expected = meant(query)?;
    refuse_the_servers_own(&name)?;
    let discarded = app.engine.discard(&name, expected).await?;
    Ok(json(StatusCode::OK, &Discarded { name, discarded }))
}
