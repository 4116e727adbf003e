//! `/v1/admin/config/timeouts`: how long each service may take.

use axum::extract::State;
use axum::response::Response;
use backstitch_modules::orders::{TimeoutSetting, TimeoutsChange};

use super::settings::{self, described};
use crate::app::App;
use crate::http::{Json, Query};
use crate::problem::{Described, Problem};

/// Says how long each service may take: what is active, and what is staged.
#[utoipa::path(get, path = "/v1/admin/config/timeouts", tag = "configuration",
    responses((status = 200, description = "As they stand", body = described::TimeoutsStanding)))]
pub(in crate::routes) async fn show(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    settings::show::<TimeoutSetting>(&app, query, None).await
}

/// Stages a change of how long each service may take, in place of what was staged before.
#[utoipa::path(put, path = "/v1/admin/config/timeouts", tag = "configuration",
    request_body = TimeoutsChange,
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
    settings::stage::<TimeoutSetting>(&app, query, change).await
}

/// Lets new orders take the staged timeouts. Orders under way keep theirs.
#[utoipa::path(post, path = "/v1/admin/config/timeouts/apply", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "New orders take them", body = described::TimeoutsApplied),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn apply(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    settings::apply::<TimeoutSetting>(&app, query).await
}

/// Forgets the staged timeouts.
#[utoipa::path(delete, path = "/v1/admin/config/timeouts/staged", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "They are forgotten", body = described::TimeoutsStanding),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn discard(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    settings::discard::<TimeoutSetting>(&app, query).await
}
