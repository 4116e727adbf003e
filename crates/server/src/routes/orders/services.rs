//! `/v1/admin/config/services`: the order in which the services are called, and where they are.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::orders::{ServiceSetting, ServicesChange};

use super::settings::{self, described};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{Json, Query};
use crate::problem::{Described, Problem};

/// Says the order in which the services are called, and where they are: what is active, and what is staged. Values of URLs' queries
/// are masked for everyone but admins.
#[utoipa::path(get, path = "/v1/admin/config/services", tag = "configuration",
    responses((status = 200, description = "As they stand", body = described::ServicesStanding)))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    query: Query,
    holder: Option<Extension<Holder>>,
) -> Result<Response, Problem> {
    settings::show::<ServiceSetting>(&app, query, holder.as_deref()).await
}

/// Stages a change of the order in which the services are called, and where they are, in place of what was staged before.
#[utoipa::path(put, path = "/v1/admin/config/services", tag = "configuration",
    request_body = ServicesChange,
    responses(
        (status = 200, description = "It waits to be applied", body = described::ServicesStanding),
        (status = 400, description = "The body is not JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The body has mistakes", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn stage(
    State(app): State<App>,
    query: Query,
    Json(change): Json<ServicesChange>,
) -> Result<Response, Problem> {
    settings::stage::<ServiceSetting>(&app, query, change).await
}

/// Lets new orders take the staged services. Orders under way keep theirs.
#[utoipa::path(post, path = "/v1/admin/config/services/apply", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "New orders take them", body = described::ServicesApplied),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn apply(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    settings::apply::<ServiceSetting>(&app, query).await
}

/// Forgets the staged services.
#[utoipa::path(delete, path = "/v1/admin/config/services/staged", tag = "configuration",
    params(("revision" = Option<String>, Query, description = "The revision of what is meant; whatever is staged unless given")),
    responses(
        (status = 200, description = "They are forgotten", body = described::ServicesStanding),
        (status = 409, description = "Nothing is staged, or something else than what is meant", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn discard(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    settings::discard::<ServiceSetting>(&app, query).await
}
