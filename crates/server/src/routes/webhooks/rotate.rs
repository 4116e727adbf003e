//! `POST /v1/webhooks/subscriptions/{id}/rotate-secret`

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::webhooks::signature::Secret;
use backstitch_modules::written_duration;
use serde::{Deserialize, Deserializer};

use super::super::duration::Overlap;
use super::super::text::SigningSecret;
use super::sending;
use super::subscribe::{WithSecret, with_secret};
use crate::app::App;
use crate::http::{JsonOrNothing, Query, SubscriptionInPath};
use crate::problem::{Described, Problem};

const DAY: Duration = Duration::from_secs(24 * 3600);
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// How the secret is changed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = RotateSecret)]
pub(in crate::routes) struct Rotation {
    /// How long the secret before stays good too; 24h unless given, 30 days at most.
    #[serde(deserialize_with = "duration")]
    #[schema(value_type = Overlap, required = false)]
    overlap: Duration,
    /// A signing secret that the receiver has already, `whsec_` and base64 of 24 to 64 bytes; one is made unless given.
    #[schema(value_type = Option<SigningSecret>)]
    secret: Option<String>,
    /// Go on although the secret before is still good: it is not any more then.
    replace: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { overlap: DAY, secret: None, replace: false }
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    written_duration(&serde_json::Value::deserialize(from)?).map_err(serde::de::Error::custom)
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
    if rotation.overlap > LONGEST {
        return Err(Problem::field("overlap", "is longer than 30 days: use 0s to 30days"));
    }
    // Whoever wants no overlap wants no older secret to be good either.
    let replace = rotation.replace || rotation.overlap.is_zero();
    let given = rotation.secret.as_deref().map(Secret::parse).transpose();
    let given = given.map_err(|why| Problem::field("secret", why.to_string()))?;
    let (rotated, secret) = sending(&app)?.registrar.rotate(id, given, rotation.overlap, replace).await?;
    Ok(with_secret(StatusCode::OK, rotated, &secret, app.clock.now()))
}
