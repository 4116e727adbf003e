//! `POST /v1/webhooks/subscriptions/{id}/rotate-secret`

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_api::request;
use backstitch_api::validate::{Omittable, Overlap};
use backstitch_modules::webhooks::signature::Secret;

use super::sending;
use super::subscribe::{WithSecret, with_secret};
use crate::app::App;
use crate::http::{JsonOrNothing, Query, SubscriptionInPath};
use crate::problem::{Described, Problem};

const DAY: Duration = Duration::from_secs(24 * 3600);

request! {
    /// How the secret is changed.
    pub(in crate::routes) struct Rotation as "RotateSecret" {
        /// How long the secret before stays valid too; 24h unless given, 30 days at most.
        overlap: Omittable<Overlap>,
        /// A signing secret that the receiver already has, `whsec_` and base64 of 24 to 64 bytes; generated unless given.
        secret: Option<Secret>,
        /// Rotate although the secret before is still valid: it is not any more then.
        replace: Omittable<bool>,
    }
}

/// Gives a subscription another signing secret. For a while every webhook is signed with both, so that the receiver can change
/// over at any time. The answer shows the new one, once.
#[utoipa::path(post, path = "/v1/webhooks/subscriptions/{id}/rotate-secret", tag = "webhooks",
    request_body = Option<Rotation>,
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 200, description = "The subscription with its new secret", body = WithSecret),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The secret before is still good, or the server has no secret to keep signing secrets with", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn rotate(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
    JsonOrNothing(rotation): JsonOrNothing<Rotation>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let Rotation { overlap, secret, replace } = rotation;
    let overlap = overlap.0.map_or(DAY, |overlap| overlap.0);
    // Without an overlap no older secret stays valid either.
    let replace = replace.0.unwrap_or_default() || overlap.is_zero();
    let (rotated, secret) = sending(&app)?.registrar.rotate(id, secret, overlap, replace).await?;
    Ok(with_secret(StatusCode::OK, rotated, &secret, app.clock.now()))
}
