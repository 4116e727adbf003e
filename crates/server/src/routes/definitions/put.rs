//! `PUT /v1/definitions/{name}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Declaring;
use backstitch_modules::declaration::Declaration;
use serde::Serialize;

use super::document::Document;
use super::written::Written;
use super::{InFlight, in_flight, refuse_the_servers_own};
use crate::app::App;
use crate::http::{NameInPath, Query, json};
use crate::problem::{Described, Problem};

/// What became of a definition.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Declared {
    name: String,
    /// The version it is.
    version: u32,
    /// `staged`, or `active` when it is what new sagas take.
    standing: &'static str,
    /// Sagas that have not ended, by version; only after it was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<Vec<InFlight>>,
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
        (status = 409, description = "The name belongs to something else, or somebody declared another version at the same moment", body = Described, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Neither YAML nor JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It has mistakes; each is listed with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn put(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    mut query: Query,
    document: Document,
) -> Result<Response, Problem> {
    let apply = query.read("apply", |text| text.parse().ok(), "use true or false")?.unwrap_or(false);
    query.finish("apply")?;
    refuse_the_servers_own(&name)?;
    let draft = document.read(Declaration::read).map_err(backstitch::Error::from)?;
    if draft.name != name {
        let message = format!("is `{}`, but the address says `{name}`: make them the same", draft.name);
        return Err(Problem::field("name", message));
    }
    let declaring = app.engine.declare(draft).await?;
    let status = match declaring {
        Declaring::Staged(_) => StatusCode::CREATED,
        Declaring::StagedBefore(_) | Declaring::ActiveBefore(_) => StatusCode::OK,
    };
    let version = declaring.version();
    let is_active = matches!(declaring, Declaring::ActiveBefore(_));
    if !apply || is_active {
        let standing = if is_active { "active" } else { "staged" };
        return Ok(json(status, &Declared { name, version, standing, in_flight: None }));
    }
    let applied = app.engine.apply(&name, Some(version)).await?;
    let in_flight = Some(in_flight(&applied.in_flight));
    Ok(json(status, &Declared { name, version, standing: "active", in_flight }))
}
