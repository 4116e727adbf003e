//! `GET /v1/parked`, `POST /v1/parked/{id}/retry`, `POST /v1/parked/retry` and `POST /v1/parked/{id}/remove-conflict`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::store::parked::{ParkedFilter, ParkedItem};
use backstitch_api::request;
use backstitch_modules::webhooks::DeadLetter;
use serde::Serialize;

use super::webhooks::dead_letters::within_reach;
use crate::app::App;
use crate::audit::said;
use crate::http::{JsonOrNothing, ParkedInPath, Query, json};
use crate::parked::{self, ParkedId, RemovedLetter};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 50;
const MOST: usize = 500;

/// A page of parked items.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct ParkedPage {
    items: Vec<ParkedView>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// An item that the database rejected. Its batches pass it over until `retry_at`.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ParkedItem)]
pub(super) struct ParkedView {
    /// The area and the item, with a colon between.
    id: String,
    /// The batch that was rejected because of it.
    area: String,
    /// Its number or name in that area.
    item: String,
    /// What the database said.
    reason: String,
    /// How often it was rejected.
    attempts: u32,
    /// When it was rejected last.
    parked_at: Time,
    /// When it is tried again.
    retry_at: Time,
    /// What waits meanwhile.
    effect: &'static str,
    /// What an operator can do.
    action: String,
}

impl From<ParkedItem> for ParkedView {
    fn from(parked: ParkedItem) -> Self {
        Self {
            id: ParkedId::of(&parked).to_string(),
            effect: parked::effect(&parked.area),
            action: parked::remedy(&parked),
            attempts: parked.attempts,
            parked_at: rfc3339(parked.parked_at),
            retry_at: rfc3339(parked.retry_at),
            area: parked.area,
            item: parked.item,
            reason: parked.reason,
        }
    }
}

/// List items that the database rejected, by area and item.
#[utoipa::path(get, path = "/v1/parked", tag = "operations",
    params(
        ("area" = Option<String>, Query, description = "Of this area, as `webhook_results`"),
        ("item" = Option<String>, Query, description = "Of this number or name"),
        ("reason" = Option<String>, Query, description = "Whose reason contains this text, in any case"),
        ("since" = Option<Time>, Query, description = "Rejected then or later"),
        ("retry_before" = Option<Time>, Query, description = "Tried again before this moment"),
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before", pattern = "^[^:]+:[\\s\\S]+$"),
    ),
    responses(
        (status = 200, description = "A page", body = ParkedPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let time = "write a time in RFC 3339, like 2030-01-31T12:00:00Z";
    let read = |text: &str| text.parse().ok().map(within_reach);
    let after = query.read("cursor", ParkedId::parse, "use the next_cursor of the page before")?;
    let filter = ParkedFilter {
        area: query.text("area"),
        item: query.text("item"),
        reason: query.text("reason"),
        since: query.read("since", read, time)?,
        retry_before: query.read("retry_before", read, time)?,
        after: after.map(|ParkedId { area, item }| (area, item)),
    };
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    query.finish("area, item, reason, since, retry_before, limit or cursor")?;
    let (found, next) = page(&app, &filter, limit).await?;
    let items = found.into_iter().map(ParkedView::from).collect();
    Ok(json(StatusCode::OK, &ParkedPage { items, next_cursor: next.map(|next| next.to_string()) }))
}

/// A page, and where the next one begins.
pub(crate) async fn page(
    app: &App,
    filter: &ParkedFilter,
    limit: usize,
) -> Result<(Vec<ParkedItem>, Option<ParkedId>), Problem> {
    // One more, which tells whether there is another page.
    let found = app.engine.store().list_parked(filter, limit + 1).await;
    let mut found = found.map_err(|why| Problem::of_store(&why))?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(ParkedId::of);
    Ok((found, next))
}

/// Try a parked item again now. It is parked no longer, so a repetition is answered with 404. If the database rejects it
/// again, it is parked and listed again.
#[utoipa::path(post, path = "/v1/parked/{id}/retry", tag = "operations",
    params(("id" = String, Path, description = "The item", pattern = "^[^:]+:[\\s\\S]+$", example = "webhook_results:7")),
    responses(
        (status = 202, description = "Its next batch tries it", body = ParkedView),
        (status = 404, description = "It is not parked, or is tried again already", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn retry(
    State(app): State<App>,
    ParkedInPath(id): ParkedInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let retried = parked::retry(&app, &id).await?;
    Ok(json(StatusCode::ACCEPTED, &ParkedView::from(retried)))
}

request! {
    /// Which parked items are tried again: those that meet all conditions, or all of them.
    pub(super) struct RetryRequest as "RetryParked" example { "area": "outbox", "reason": "duplicate key" } {
        /// Those of this area.
        area: Option<String>,
        /// Those whose reason contains this text, in any case.
        reason: Option<String>,
    }
}

/// How many are tried again.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RetriedParked)]
pub(super) struct Retried {
    retried: usize,
}

/// Try all parked items, or those of an area or with a reason, again now.
#[utoipa::path(post, path = "/v1/parked/retry", tag = "operations", request_body = Option<RetryRequest>,
    responses((status = 202, description = "Their next batches try them", body = Retried)))]
pub(super) async fn retry_all(
    State(app): State<App>,
    query: Query,
    JsonOrNothing(RetryRequest { area, reason }): JsonOrNothing<RetryRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (retried, what) = parked::retry_all(&app, area, reason).await?;
    Ok(said(json(StatusCode::ACCEPTED, &Retried { retried }), what))
}

/// What was removed.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RemovedConflict)]
pub(super) struct RemovedConflict {
    /// The table that it was in.
    table: &'static str,
    row: ConflictingLetter,
    /// Whether the item is tried again now. Otherwise it is tried at its `retry_at`, or when it is retried.
    retried: bool,
}

/// The dead letter of a delivery that is not dead-lettered.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = ConflictingDeadLetter)]
pub(super) struct ConflictingLetter {
    /// The delivery.
    saga_id: i64,
    event_id: i64,
    subscription_id: i64,
    attempt_count: u32,
    final_error_code: Option<String>,
    webhook_id: String,
    created_at: Time,
}

impl From<DeadLetter> for ConflictingLetter {
    fn from(letter: DeadLetter) -> Self {
        Self {
            saga_id: letter.saga_id,
            event_id: letter.event_id,
            subscription_id: letter.subscription_id,
            attempt_count: letter.attempt_count,
            final_error_code: letter.final_error_code,
            webhook_id: letter.webhook_id,
            created_at: rfc3339(letter.created_at),
        }
    }
}

/// Remove the row that is in the way of a parked item, then try the item again. Only for `webhook_results` and
/// `webhook_deliveries`: another program has inserted the dead letter of a delivery that is not dead-lettered. The removed row
/// is in the response, the log and the audit, also when the item cannot be retried at once.
#[utoipa::path(post, path = "/v1/parked/{id}/remove-conflict", tag = "operations",
    params(("id" = String, Path, description = "The item", pattern = "^[^:]+:[\\s\\S]+$", example = "webhook_results:7")),
    responses(
        (status = 200, description = "The removed row", body = RemovedConflict),
        (status = 404, description = "It is not parked", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "No row is known that is in its way and may be removed", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn remove_conflict(
    State(app): State<App>,
    ParkedInPath(id): ParkedInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let removed = parked::remove_conflict(&app, &id).await?;
    let what = parked::removed_words(&removed);
    let RemovedLetter { letter, retried } = removed;
    let removed = RemovedConflict { table: "dead_letters", row: letter.into(), retried };
    Ok(said(json(StatusCode::OK, &removed), what))
}
