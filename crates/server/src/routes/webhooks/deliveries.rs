//! `GET /v1/webhooks/deliveries`, `GET /v1/webhooks/deliveries/{id}`, and a delivery as every route shows it.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::webhooks::{Attempt, Filter, Pause, Saga, delivery_status, delivery_word};
use serde::Serialize;

use super::super::vocabulary::{AttemptStatus, DeliveryStatus};
use super::page::{Asked, Page, number};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{DeliveryInPath, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// A delivery as it stands.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Delivery)]
pub(in crate::routes) struct View {
    id: i64,
    event_id: i64,
    subscription_id: i64,
    #[schema(value_type = DeliveryStatus)]
    status: &'static str,
    /// Attempts whose results counted.
    attempt_count: u32,
    /// When the next attempt may begin; of one that is over, when the last might have begun.
    next_attempt_at: Time,
    /// Why the last attempt failed; `null` once it has arrived.
    final_error_code: Option<String>,
    /// Until when it waits because its subscription is paused; `null` where it does not wait for that.
    paused_until: Option<Time>,
    /// Why its subscription is paused.
    paused_reason: Option<String>,
    created_at: Time,
    updated_at: Time,
    /// What the receiver tells repeats by.
    webhook_id: String,
    /// The dead letter that it was made from.
    requeue_of: Option<i64>,
    /// The replay that it was made by.
    replay_id: Option<String>,
}

impl View {
    /// A delivery with what it waits for.
    pub(super) async fn read(app: &App, id: i64) -> Result<Self, Problem> {
        let delivery = app.webhooks.parts.deliveries.get(id).await?;
        let pause = app.webhooks.parts.pauses.of_deliveries(&[id]).await?.remove(&id);
        Ok(Self::of(delivery, pause))
    }

    fn of(saga: Saga, pause: Option<Pause>) -> Self {
        Self {
            id: saga.id,
            event_id: saga.event_id,
            subscription_id: saga.subscription_id,
            status: delivery_word(saga.status),
            attempt_count: saga.attempt_count,
            next_attempt_at: rfc3339(saga.next_attempt_at),
            final_error_code: saga.final_error_code,
            paused_until: pause.as_ref().map(|pause| rfc3339(pause.until)),
            paused_reason: pause.map(|pause| pause.reason),
            created_at: rfc3339(saga.created_at),
            updated_at: rfc3339(saga.updated_at),
            webhook_id: saga.webhook_id,
            requeue_of: saga.requeue_of,
            replay_id: saga.replay_id,
        }
    }
}

/// What came of an attempt, or of a job that ended before it was made.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeliveryAttempt)]
pub(in crate::routes) struct AttemptView {
    job_id: i64,
    /// Which attempt, from 1.
    number: u32,
    #[schema(value_type = AttemptStatus)]
    status: &'static str,
    /// Where the request went; `null` where none was made, or nobody knows.
    url: Option<String>,
    /// The names of the headers it had: what they said is not kept.
    request_headers: Vec<String>,
    response_code: Option<u16>,
    /// The start of what the receiver answered.
    body: Option<String>,
    duration_ms: Option<u64>,
    error_code: Option<String>,
    error: Option<String>,
    started_at: Option<Time>,
    finished_at: Time,
}

impl AttemptView {
    fn of(attempt: Attempt, reader: Option<&Holder>) -> Self {
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (url, request_headers) = attempt
            .sent
            .map_or((None, Vec::new()), |sent| (Some(Holder::shown_url(reader, sent.url)), sent.headers));
        Self {
            url,
            request_headers,
            job_id: attempt.job_id,
            number: attempt.number,
            status: if attempt.arrived { "Completed" } else { "Failed" },
            response_code: attempt.response_code,
            body: attempt.body,
            duration_ms: attempt.duration.map(millis),
            error_code: attempt.error_code,
            error: attempt.error,
            started_at: attempt.started_at.map(rfc3339),
            finished_at: rfc3339(attempt.finished_at),
        }
    }
}

/// A delivery with its attempts.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeliveryWithAttempts)]
pub(in crate::routes) struct WithAttempts {
    #[serde(flatten)]
    delivery: View,
    /// What came of its attempts, in their order.
    attempts: Vec<AttemptView>,
}

/// Deliveries, newest first, a page at a time.
#[utoipa::path(get, path = "/v1/webhooks/deliveries", tag = "webhooks",
    params(
        ("status" = Option<DeliveryStatus>, Query, description = "In this status"),
        ("subscription_id" = Option<i64>, Query, description = "To this subscription", minimum = 1),
        ("event_id" = Option<i64>, Query, description = "Of this event", minimum = 1),
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before", minimum = 1),
    ),
    responses((status = 200, description = "A page", body = Page<View>)))]
pub(in crate::routes) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let statuses = "use Pending, InProgress, PendingRetry, Completed or DeadLettered";
    let filter = Filter {
        status: query.read("status", delivery_status, statuses)?,
        subscription_id: number(&mut query, "subscription_id")?,
        event_id: number(&mut query, "event_id")?,
    };
    let Asked { limit, before } = Asked::read(&mut query)?;
    query.finish("status, subscription_id, event_id, limit or cursor")?;
    let page = app.webhooks.parts.deliveries.list(&filter, limit, before).await?;
    let ids: Vec<i64> = page.items.iter().map(|delivery| delivery.id).collect();
    let mut pauses = app.webhooks.parts.pauses.of_deliveries(&ids).await?;
    let view = |delivery: Saga| {
        let pause = pauses.remove(&delivery.id);
        View::of(delivery, pause)
    };
    Ok(json(StatusCode::OK, &Page::of(page, view)))
}

/// A delivery as it stands, with what came of its attempts.
#[utoipa::path(get, path = "/v1/webhooks/deliveries/{id}", tag = "webhooks",
    params(("id" = i64, Path, description = "The delivery", minimum = 1)),
    responses(
        (status = 200, description = "The delivery", body = WithAttempts),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    DeliveryInPath(id): DeliveryInPath,
    query: Query,
    holder: Option<Extension<Holder>>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let delivery = View::read(&app, id).await?;
    let view = |attempt| AttemptView::of(attempt, holder.as_deref());
    let attempts = app.webhooks.parts.deliveries.attempts(id).await?.into_iter().map(view).collect();
    Ok(json(StatusCode::OK, &WithAttempts { delivery, attempts }))
}
