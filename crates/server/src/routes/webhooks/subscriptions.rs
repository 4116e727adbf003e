//! `GET /v1/webhooks/subscriptions`, `GET /v1/webhooks/subscriptions/{id}`, and a subscription as every route shows it.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_api::validate::shown_duration;
use backstitch_modules::webhooks::{MASK, Pause, Subscription, Terms};
use serde::Serialize;

use super::page::{Asked, Page};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// A subscription as it stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Subscription)]
pub(in crate::routes) struct View {
    id: i64,
    /// Values in its query are masked for everyone but admins.
    url: String,
    event_types: Vec<String>,
    /// The names of its own headers. Their values are never shown: `***` stands for each.
    headers: BTreeMap<String, &'static str>,
    /// Attempts of a delivery in all.
    max_retry_limit: u32,
    /// The wait after the first failure; it doubles with each further one.
    base_delay: String,
    /// The longest wait.
    max_delay: String,
    /// Which of `max_retry_limit`, `base_delay` and `max_delay` follow the server's settings. `PATCH` with `null` adds a
    /// field to them.
    defaults: Vec<&'static str>,
    /// How long an attempt may take.
    timeout: String,
    /// Requests at once.
    max_concurrency: u32,
    /// Requests a second; `null` without a limit.
    rate_limit: Option<u32>,
    /// Whether its deliveries are sent. While it is disabled they wait.
    enabled: bool,
    disabled_at: Option<Time>,
    disabled_reason: Option<String>,
    /// Until when its deliveries wait because its endpoint failed or sent `Retry-After`; `null` while it is not paused. A
    /// change of the subscription ends the pause.
    paused_until: Option<Time>,
    /// What opened its circuit breaker, or that its endpoint sent `Retry-After`.
    paused_reason: Option<String>,
    /// Until when the secret before the newest one is good too.
    previous_secret_until: Option<Time>,
    created_at: Time,
    updated_at: Time,
}

impl View {
    pub(super) fn of(
        subscription: Subscription,
        pause: Option<Pause>,
        now: Timestamp,
        reader: Option<&Holder>,
    ) -> Self {
        let Subscription { id, terms, headers, secrets, disabled, created_at, updated_at } = subscription;
        let Terms { url, event_types, max_retry_limit, max_concurrency, rate_limit, .. } = terms;
        let [base_delay, max_delay, timeout] =
            [terms.base_delay, terms.max_delay, terms.timeout].map(shown_duration);
        let previous = secrets.previous.map(|(_, until)| until).filter(|until| *until > now);
        Self {
            id,
            url: Holder::shown_url(reader, url),
            event_types,
            headers: headers.names().map(|name| (name.to_owned(), MASK)).collect(),
            max_retry_limit,
            base_delay,
            max_delay,
            defaults: terms.defaulted.fields().collect(),
            timeout,
            max_concurrency,
            rate_limit,
            enabled: disabled.is_none(),
            disabled_at: disabled.as_ref().map(|disabled| rfc3339(disabled.at)),
            disabled_reason: disabled.map(|disabled| disabled.reason),
            paused_until: pause.as_ref().map(|pause| rfc3339(pause.until)),
            paused_reason: pause.map(|pause| pause.reason),
            previous_secret_until: previous.map(rfc3339),
            created_at: rfc3339(created_at),
            updated_at: rfc3339(updated_at),
        }
    }
}

/// Subscriptions, newest first, a page at a time.
#[utoipa::path(get, path = "/v1/webhooks/subscriptions", tag = "webhooks",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before", minimum = 1),
    ),
    responses((status = 200, description = "A page", body = Page<View>)))]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    mut query: Query,
    holder: Option<Extension<Holder>>,
) -> Result<Response, Problem> {
    let Asked { limit, before } = Asked::read(&mut query)?;
    query.finish("limit or cursor")?;
    let page = app.webhooks.parts.subscriptions.list(limit, before).await?;
    let ids: Vec<i64> = page.items.iter().map(|subscription| subscription.id).collect();
    let mut pauses = app.webhooks.parts.pauses.of_subscriptions(&ids).await?;
    let now = app.clock.now();
    let view = |subscription: Subscription| {
        let pause = pauses.remove(&subscription.id);
        View::of(subscription, pause, now, holder.as_deref())
    };
    Ok(json(StatusCode::OK, &Page::of(page, view)))
}

/// A subscription as it stands.
#[utoipa::path(get, path = "/v1/webhooks/subscriptions/{id}", tag = "webhooks",
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 200, description = "The subscription", body = View),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
    holder: Option<Extension<Holder>>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let subscription = app.webhooks.parts.subscriptions.get(id).await?;
    let pause = app.webhooks.parts.pauses.of_subscriptions(&[id]).await?.remove(&id);
    Ok(json(StatusCode::OK, &View::of(subscription, pause, app.clock.now(), holder.as_deref())))
}
