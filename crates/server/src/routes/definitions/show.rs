//! `GET /v1/definitions/{name}`

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Draft;
use backstitch_modules::declaration::{Declaration, changes, with_secrets, without_secrets};
use serde::Serialize;
use serde_json::Value;

use super::list::DefinitionItem;
use super::{InFlight, in_flight, unknown};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{NameInPath, Query, json};
use crate::problem::{Described, Kind, Problem};

/// A declared definition in full.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DefinitionInFull)]
pub(crate) struct Shown {
    #[serde(flatten)]
    item: DefinitionItem,
    /// The version asked for, or else the active one, as it can be declared.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
    /// The staged one.
    #[schema(value_type = Option<Object>)]
    staged_definition: Option<Value>,
    /// What applying the staged one would change, place by place.
    #[schema(value_type = Vec<Object>)]
    changes: Value,
    /// Sagas that have not ended, by version.
    in_flight: Vec<InFlight>,
}

/// What is declared under a name: what is active, what is staged, and how they differ. The values of headers are for admins.
#[utoipa::path(get, path = "/v1/definitions/{name}", tag = "definitions",
    params(
        ("name" = String, Path, description = "The definition's name"),
        ("version" = Option<u32>, Query, description = "Show this version as the `definition`", minimum = 1, maximum = 2_147_483_647),
    ),
    responses(
        (status = 200, description = "The definition", body = Shown),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    holder: Option<Extension<Holder>>,
    mut query: Query,
) -> Result<Response, Problem> {
    let asked = query.number("version", 1, i32::MAX.unsigned_abs())?;
    query.finish("version")?;
    let declared = app.engine.declared(&name).await?.ok_or_else(|| unknown(&name))?;
    let holder = holder.map(|Extension(holder)| holder);
    let active = version_for(holder.as_ref(), &app, &name, declared.active).await?;
    let staged = version_for(holder.as_ref(), &app, &name, declared.staged).await?;
    let shown = match asked {
        None => active.clone(),
        Some(number) => {
            let found = version_for(holder.as_ref(), &app, &name, Some(number)).await?;
            let none = || Problem::new(Kind::DefinitionNotFound, format!("`{name}` has no version {number}"));
            Some(found.ok_or_else(none)?)
        }
    };
    let differences = match (&active, &staged) {
        (Some(active), Some(staged)) => changes(active, staged),
        _ => Vec::new(),
    };
    let answer = Shown {
        item: DefinitionItem::of(&declared),
        definition: shown.as_ref().map(Declaration::show),
        staged_definition: staged.as_ref().map(Declaration::show),
        changes: serde_json::to_value(&differences).unwrap_or_default(),
        in_flight: in_flight(&app.engine.in_flight(&name).await?),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// A version as whoever asks may see it.
pub(crate) async fn version_for(
    holder: Option<&Holder>,
    app: &App,
    name: &str,
    version: Option<u32>,
) -> Result<Option<Draft>, Problem> {
    let Some(version) = version else { return Ok(None) };
    let draft = app.engine.draft(name, Some(version)).await?;
    let seen = |draft: &Draft| {
        if Holder::sees_secrets(holder) { with_secrets(draft, &app.headers) } else { without_secrets(draft) }
    };
    Ok(draft.as_ref().map(seen))
}
