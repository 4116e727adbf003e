//! `GET /v1/webhooks/dead-letters` and `GET /v1/webhooks/dead-letters/{id}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_modules::webhooks::{DeadLetter, Which};
use serde::Serialize;

use super::page::{Asked, Page, number};
use crate::app::App;
use crate::http::{DeadLetterInPath, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// A delivery that was given up.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetter)]
pub(in crate::routes) struct View {
    /// The delivery, by whose number it is known.
    id: i64,
    event_id: i64,
    subscription_id: i64,
    attempt_count: u32,
    /// Why the last attempt failed.
    final_error_code: Option<String>,
    webhook_id: String,
    /// When it was given up.
    created_at: Time,
    /// The delivery that was made from it.
    requeued_as: Option<i64>,
}

impl From<DeadLetter> for View {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: letter.saga_id,
            event_id: letter.event_id,
            subscription_id: letter.subscription_id,
            attempt_count: letter.attempt_count,
            final_error_code: letter.final_error_code,
            webhook_id: letter.webhook_id,
            created_at: rfc3339(letter.created_at),
            requeued_as: letter.requeued_as,
        }
    }
}

/// A time of which there can be something: nothing here is older than 1970, and not every database knows what is.
pub(crate) fn within_reach(Time(at): Time) -> Timestamp {
    at.max(Timestamp::from_micros(0))
}

/// Dead letters, newest first, a page at a time.
#[utoipa::path(get, path = "/v1/webhooks/dead-letters", tag = "webhooks",
    params(
        ("subscription_id" = Option<i64>, Query, description = "Of this subscription", minimum = 1),
        ("event_id" = Option<i64>, Query, description = "Of this event", minimum = 1),
        ("final_error_code" = Option<String>, Query, description = "Whose last attempt failed so"),
        ("since" = Option<Time>, Query, description = "Given up then or later"),
        ("until" = Option<Time>, Query, description = "Given up before"),
        ("requeued" = Option<String>, Query, description = "`false`: only those that have not been requeued", pattern = "^false$"),
        ("limit" = Option<usize>, Query, description = "At most this many, 50 unless given", minimum = 1, maximum = 500),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before", minimum = 1),
    ),
    responses((status = 200, description = "A page", body = Page<View>)))]
pub(in crate::routes) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let time = "write a time in RFC 3339, like 2030-01-31T12:00:00Z";
    let read = |text: &str| text.parse().ok().map(within_reach);
    let which = Which {
        subscription_id: number(&mut query, "subscription_id")?,
        event_id: number(&mut query, "event_id")?,
        final_error_code: query.text("final_error_code"),
        since: query.read("since", read, time)?,
        until: query.read("until", read, time)?,
        up_to: None,
        not_requeued: query
            .read("requeued", only_false, "use false, or leave it out for all of them")?
            .is_some(),
    };
    let Asked { limit, before } = Asked::read(&mut query)?;
    query.finish("subscription_id, event_id, final_error_code, since, until, requeued, limit or cursor")?;
    let page = app.webhooks.parts.dead_letters.list(&which, limit, before).await?;
    Ok(json(StatusCode::OK, &Page::of(page, View::from)))
}

fn only_false(text: &str) -> Option<()> {
    (text == "false").then_some(())
}

/// A dead letter.
#[utoipa::path(get, path = "/v1/webhooks/dead-letters/{id}", tag = "webhooks",
    params(("id" = i64, Path, description = "The dead letter", minimum = 1)),
    responses(
        (status = 200, description = "The dead letter", body = View),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    DeadLetterInPath(id): DeadLetterInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let letter = app.webhooks.parts.dead_letters.get(id).await?;
    Ok(json(StatusCode::OK, &View::from(letter)))
}
