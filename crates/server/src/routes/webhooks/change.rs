//! `PATCH /v1/webhooks/subscriptions/{id}` and `DELETE /v1/webhooks/subscriptions/{id}`

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use backstitch_modules::webhooks::SubscriptionChange;

use super::sending;
use super::subscriptions::View;
use crate::app::App;
use crate::auth::Holder;
use crate::http::{PartialJson, Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};

/// Changes a subscription: what is not named stays. Deliveries under way go by the new terms from their next attempt on, and
/// what was held against the endpoint is forgotten.
#[utoipa::path(patch, path = "/v1/webhooks/subscriptions/{id}", tag = "webhooks", request_body = SubscriptionChange,
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
    holder: Option<Extension<Holder>>,
    PartialJson(change): PartialJson<SubscriptionChange>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let sending = sending(&app)?;
    let changed = sending.registrar.amend(id, change).await?;
    // A change that names nothing ends no pause.
    let pause = app.webhooks.parts.pauses.of_subscriptions(&[id]).await?.remove(&id);
    Ok(json(StatusCode::OK, &View::of(changed, pause, app.clock.now(), holder.as_deref())))
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
