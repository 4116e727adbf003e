//! `POST /v1/webhooks/subscriptions`

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_modules::webhooks::signature::Secret;
use backstitch_modules::webhooks::{NewSubscription, Subscription};
use serde::{Deserialize, Serialize};

use super::super::duration::{WrittenDelay, WrittenTimeout};
use super::super::text::{EventPattern, HeaderMap, HttpUrl, SigningSecret};
use super::sending;
use super::subscriptions::View;
use crate::app::App;
use crate::http::{Json, Query, json, located};
use crate::problem::{Described, Problem};

/// A new subscription, for the description: `backstitch_modules::webhooks` reads it, and tells every mistake with its place.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSubscription, example = json!({ "url": "http://127.0.0.1:7431/hooks", "event_types": ["order.*"] }))]
#[expect(dead_code, reason = "describes what is read elsewhere")]
pub(in crate::routes) struct Written {
    /// Where to: http or https, without a user or password. Addresses inside are closed unless the operator opens them.
    #[schema(value_type = HttpUrl, example = "http://127.0.0.1:7431/hooks")]
    url: String,
    /// Which events: types, `order.*` for everything below `order`, or `*` for all, each once.
    #[schema(value_type = HashSet<EventPattern>, min_items = 1, example = json!(["order.*"]))]
    event_types: Vec<String>,
    /// All headers of its own, such as a key of the receiver.
    #[schema(value_type = HeaderMap, required = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Attempts of a delivery in all; `null` follows the setting `webhooks.max_retry_limit`, usually 8.
    #[schema(minimum = 1, maximum = 1000)]
    max_retry_limit: Option<u32>,
    /// The wait after the first failure, which doubles with each further one, 30 days at most; `null` follows the
    /// setting `webhooks.base_delay`, usually 5s.
    base_delay: Option<WrittenDelay>,
    /// The longest wait, 30 days at most; `null` follows the setting `webhooks.max_delay`, usually 1h.
    max_delay: Option<WrittenDelay>,
    /// How long an attempt may take; usually 15s, 1h at most.
    #[schema(value_type = WrittenTimeout, required = false)]
    timeout: Option<WrittenTimeout>,
    /// Requests at once; usually 16.
    #[schema(value_type = u32, required = false, minimum = 1, maximum = 10_000)]
    max_concurrency: Option<u32>,
    /// Requests a second; `null` is without a limit, which is usual.
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_limit: Option<u32>,
    /// Whether deliveries are sent, as usual. While they are not they wait, and events go on being routed.
    #[schema(value_type = bool, required = false)]
    enabled: Option<bool>,
    /// A signing secret that the receiver has already, `whsec_` and base64 of 24 to 64 bytes; one is made unless given.
    #[schema(value_type = SigningSecret, required = false)]
    secret: Option<String>,
}

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
#[utoipa::path(post, path = "/v1/webhooks/subscriptions", tag = "webhooks", request_body = Written,
    responses(
        (status = 201, description = "It is made", body = WithSecret, headers(("Location" = String, description = "The subscription"))),
        (status = 409, description = "The server has no secret to keep signing secrets with", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It cannot be so: every mistake with its place", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn create(
    State(app): State<App>,
    query: Query,
    Json(new): Json<NewSubscription>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (made, secret) = sending(&app)?.registrar.register(new).await?;
    let place = format!("/v1/webhooks/subscriptions/{}", made.id);
    Ok(located(&place, with_secret(StatusCode::CREATED, made, &secret, app.clock.now())))
}
