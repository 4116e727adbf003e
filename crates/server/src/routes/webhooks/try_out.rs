//! `POST /v1/webhooks/subscriptions/{id}/test`

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::webhooks::sender::{Exchange, code};
use backstitch_modules::webhooks::signature::WebhookId;
use backstitch_modules::webhooks::{Error, check_type};
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use super::super::text::EventType;
use super::sending;
use crate::app::App;
use crate::http::{JsonOrNothing, Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::rfc3339;

const TYPE: &str = "backstitch.test";
/// Somebody waits for the answer.
const LONGEST: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = TestWebhook)]
pub(in crate::routes) struct Request {
    /// The type that the usual payload names; `backstitch.test` unless given.
    #[serde(rename = "type")]
    #[schema(value_type = Option<EventType>)]
    kind: Option<String>,
    /// Sent instead of the usual `{type, subscription_id, sent_at}`, exactly as it stands.
    #[schema(value_type = Value)]
    payload: Option<Payload>,
}

/// What came of it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = TestedWebhook)]
pub(crate) struct Tried {
    /// Whether the receiver answered 2xx.
    pub(crate) arrived: bool,
    pub(crate) response_code: Option<u16>,
    /// The start of what it answered.
    pub(crate) body: Option<String>,
    pub(crate) duration_ms: u64,
    pub(crate) error_code: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) webhook_id: String,
}

/// Sends a webhook to a subscription now and tells what came of it. It is no delivery: it is sent to a disabled subscription
/// too, nothing of it is kept, and it is not tried again.
#[utoipa::path(post, path = "/v1/webhooks/subscriptions/{id}/test", tag = "webhooks",
    request_body = Option<Request>,
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 200, description = "What came of it", body = Tried),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The server has no secret to keep signing secrets with", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn test(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
    JsonOrNothing(Request { kind, payload }): JsonOrNothing<Request>,
) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(json(StatusCode::OK, &tried(&app, id, kind.as_deref(), payload).await?))
}

/// Sends it, and tells what came of it.
pub(crate) async fn tried(
    app: &App,
    id: i64,
    kind: Option<&str>,
    payload: Option<Payload>,
) -> Result<Tried, Problem> {
    let kind = kind.unwrap_or(TYPE);
    check_type(kind)?;
    let sending = sending(app)?;
    let mut subscription = app.webhooks.parts.subscriptions.get(id).await?;
    subscription.terms.timeout = subscription.terms.timeout.min(LONGEST);
    let now = app.clock.now();
    let payload = match payload {
        Some(payload) => payload.as_str().to_owned(),
        None => value!({ "type": kind, "subscription_id": id, "sent_at": rfc3339(now) }).to_string(),
    };
    let webhook_id = format!("msg_test_{}", app.engine.ids().next(now).0.simple());
    let id = WebhookId::new(&webhook_id).map_err(|why| {
        tracing::error!(%why, webhook_id, "an id was made that is none");
        Problem::internal()
    })?;
    match sending.delivery_worker.try_out(&subscription, id, payload).await {
        Ok(exchange) => Ok(Tried::of(exchange, webhook_id)),
        Err(Error::Secret(why)) => Ok(Tried::unsent(code::NO_SECRET, &why, webhook_id)),
        Err(Error::Invalid { why, .. }) => Ok(Tried::unsent(code::BAD_REQUEST, &why, webhook_id)),
        Err(error) => Err(error.into()),
    }
}

impl Tried {
    fn of(exchange: Exchange, webhook_id: String) -> Self {
        let error_code = exchange.error_code().map(str::to_owned);
        Self {
            arrived: error_code.is_none(),
            response_code: exchange.status,
            body: Some(exchange.body_start).filter(|body| !body.is_empty()),
            duration_ms: u64::try_from(exchange.duration.as_millis()).unwrap_or(u64::MAX),
            error_code,
            error: exchange.error,
            webhook_id,
        }
    }

    /// Nothing could be sent.
    fn unsent(code: &str, why: &dyn std::fmt::Display, webhook_id: String) -> Self {
        Self {
            arrived: false,
            response_code: None,
            body: None,
            duration_ms: 0,
            error_code: Some(code.to_owned()),
            error: Some(why.to_string()),
            webhook_id,
        }
    }
}
