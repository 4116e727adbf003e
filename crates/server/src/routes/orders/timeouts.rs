//! `/v1/admin/config/timeouts`: how long each service may take.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::orders::TimeoutsChange;

use super::settings::{applied, described};
use crate::app::App;
use crate::http::{Json, Query, json};
use crate::problem::{Described, Problem};

/// Says how long each service may take: what is active, and what is staged.
#[utoipa::path(get, path = "/v1/admin/config/timeouts", tag = "configuration",
    responses((status = 200, description = "As they stand", body = described::TimeoutsStanding)))]
pub(in crate::routes) async fn show(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(json(StatusCode::OK, &app.orders.timeouts().await?))
}

/// Stages a change of how long each service may take, in place of what was staged before.
#[utoipa::path(put, path = "/v1/admin/config/timeouts", tag = "configuration",
    request_body = described::TimeoutsChange,
    responses(
        (status = 200, description = "It waits to be applied", body = described::TimeoutsStanding),
        (status = 400, description = "The body is not JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The body has mistakes", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn stage(
    State(app): State<App>,
    query: Query,
    Json(change): Json<TimeoutsChange>,
) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(json(StatusCode::OK, &app.orders.stage_timeouts(change, app.clock.now()).await?))
}

/// Lets new orders take the staged timeouts. Orders under way keep theirs.
#[utoipa::path(post, path = "/v1/admin/config/timeouts/apply", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "New orders take them", body = described::TimeoutsApplied),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn apply(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let expected = query.text("revision");
    query.finish("revision")?;
    let now = app.orders.apply_timeouts(expected.as_deref()).await?;
    Ok(applied(app.orders.timeouts().await?, &now))
}

/// Forgets the staged timeouts.
#[utoipa::path(delete, path = "/v1/admin/config/timeouts/staged", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "They are forgotten", body = described::TimeoutsStanding),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn discard(
    State(app): State<App>,
    mut query: Query,
) -> Result<Response, Problem> {
    let expected = query.text("revision");
    query.finish("revision")?;
    app.orders.discard_timeouts(expected.as_deref()).await?;
    Ok(json(StatusCode::OK, &app.orders.timeouts().await?))
}
