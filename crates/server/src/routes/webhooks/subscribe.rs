//! `POST /v1/webhooks/subscriptions`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_modules::webhooks::signature::Secret;
use backstitch_modules::webhooks::{NewSubscription, Subscription};
use serde::Serialize;

use super::sending;
use super::subscriptions::View;
use crate::app::App;
use crate::http::{PartialJson, Query, json, located};
use crate::problem::{Described, Problem};

/// A subscription with its signing secret.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = SubscriptionWithSecret)]
pub(in crate::routes) struct WithSecret<'a> {
    #[serde(flatten)]
    subscription: View,
    /// What receivers verify signatures with. It is shown this once.
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: &'a str,
}

/// The one answer that shows a secret.
pub(super) fn with_secret(
    status: StatusCode,
    subscription: Subscription,
    secret: &Secret,
    now: Timestamp,
) -> Response {
    // It was just made, or its secret was: either ends a pause.
    let subscription = View::of(subscription, None, now, None);
    json(status, &WithSecret { subscription, secret: &secret.reveal() })
}

/// Makes a subscription. Events that come from now on are routed to it. The answer shows the signing secret, once.
#[utoipa::path(post, path = "/v1/webhooks/subscriptions", tag = "webhooks", request_body = NewSubscription,
    responses(
        (status = 201, description = "It is made", body = WithSecret, headers(("Location" = String, description = "The subscription"))),
        (status = 409, description = "The server has no secret to keep signing secrets with", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It cannot be so: every mistake with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn create(
    State(app): State<App>,
    query: Query,
    PartialJson(new): PartialJson<NewSubscription>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (made, secret) = sending(&app)?.registrar.register(new).await?;
    let place = format!("/v1/webhooks/subscriptions/{}", made.id);
    Ok(located(&place, with_secret(StatusCode::CREATED, made, &secret, app.clock.now())))
}
