//! `PATCH /v1/webhooks/subscriptions/{id}` and `DELETE /v1/webhooks/subscriptions/{id}`

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use backstitch_modules::webhooks::SubscriptionChange;
use serde::Deserialize;

use super::super::vocabulary::WrittenDuration;
use super::sending;
use super::subscriptions::View;
use crate::app::App;
use crate::http::{Json, Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};

/// A change, for the description: `backstitch_modules::webhooks` reads it, and tells every mistake with its place.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SubscriptionChange, example = json!({ "enabled": true }))]
#[expect(dead_code, reason = "describes what is read elsewhere")]
pub(in crate::routes) struct Written {
    #[schema(value_type = String, required = false, example = "http://127.0.0.1:7431/hooks", min_length = 1)]
    url: Option<String>,
    #[schema(value_type = Vec<String>, required = false, min_items = 1)]
    event_types: Option<Vec<String>>,
    /// In place of all that it had.
    #[schema(value_type = BTreeMap<String, String>, required = false)]
    headers: Option<BTreeMap<String, String>>,
    #[schema(value_type = u32, required = false, minimum = 1, maximum = 1000)]
    max_retry_limit: Option<u32>,
    #[schema(value_type = WrittenDuration, required = false)]
    base_delay: Option<WrittenDuration>,
    #[schema(value_type = WrittenDuration, required = false)]
    max_delay: Option<WrittenDuration>,
    #[schema(value_type = WrittenDuration, required = false)]
    timeout: Option<WrittenDuration>,
    #[schema(value_type = u32, required = false, minimum = 1, maximum = 10_000)]
    max_concurrency: Option<u32>,
    /// `null` takes the limit away.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_limit: Option<u32>,
    /// Whether deliveries are sent. While they are not they wait, and events go on being routed.
    #[schema(value_type = bool, required = false)]
    enabled: Option<bool>,
}

/// Changes a subscription: what is not named stays. Deliveries under way go by the new terms from their next attempt on, and
/// what was held against the endpoint is forgotten.
#[utoipa::path(patch, path = "/v1/webhooks/subscriptions/{id}", tag = "webhooks", request_body = Written,
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 200, description = "The subscription as it stands now", body = View),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "Others change it all the time, or the server has no secret to keep signing secrets with", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It cannot be so: every mistake with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn change(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
    Json(change): Json<SubscriptionChange>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let sending = sending(&app)?;
    let changed = sending.registrar.amend(id, change).await?;
    sending.dispatch.forgive(id);
    Ok(json(StatusCode::OK, &View::of(changed, app.clock.now())))
}

/// Deletes a subscription. What was on its way to it is given up as dead letters with the code `subscription_deleted`.
#[utoipa::path(delete, path = "/v1/webhooks/subscriptions/{id}", tag = "webhooks",
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn delete(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    app.webhooks.parts.subscriptions.delete(id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
