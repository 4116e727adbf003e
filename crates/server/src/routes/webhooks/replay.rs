//! `POST /v1/webhooks/subscriptions/{id}/replay`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_api::{request, text_type};
use backstitch_modules::webhooks::{self, Reached, ReplayId};
use serde::Serialize;

use super::dead_letters::within_reach;
use crate::app::App;
use crate::http::{Json, Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::Time;

request! {
    /// Which events are sent once more.
    pub(in crate::routes) struct Range as "ReplayRequest" {
        /// Events that came then or later.
        since: Time,
        /// Events that came before.
        until: Time,
        /// What the replay is called, a UUID for example: asked for again under the same name, nothing is sent twice.
        replay_id: ReplayId,
        /// The `next_cursor` of the answer before.
        cursor: Option<ReplayCursor>,
    }
}

text_type! {
    /// Where the next call of a replay begins.
    ReplayCursor "^[0-9]{1,16}-[0-9]{1,18}$", 3, 35, "1767225600000000-17", check_cursor;
}

fn check_cursor(cursor: &str) -> Result<(), String> {
    read(cursor).map(drop).ok_or_else(|| "is none: use the next_cursor of the answer before".to_owned())
}

/// What is sent once more.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Replay)]
pub(in crate::routes) struct Replayed {
    replay_id: String,
    /// How many new deliveries there are.
    deliveries: usize,
    /// Give it as `cursor`, with everything else as it was, to go on; `null` when all events were seen.
    next_cursor: Option<String>,
}

fn written(Reached { at, event }: Reached) -> String {
    format!("{}-{event}", at.as_micros())
}

fn read(cursor: &str) -> Option<Reached> {
    let number = |text: &str, digits| {
        let is_number = text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let (at, event) = cursor.split_once('-')?;
    // Sixteen digits reach to the year 2286, and are a time to every database.
    Some(Reached { at: Timestamp::from_micros(number(at, 16)?), event: number(event, 18)? })
}

/// Sends the events of a time range to a subscription once more, those that were never routed to it too: a new delivery for
/// each whose type it names, with the same message id as ever. One call looks at 10,000 events at most.
#[utoipa::path(post, path = "/v1/webhooks/subscriptions/{id}/replay", tag = "webhooks", request_body = Range,
    params(("id" = i64, Path, description = "The subscription", minimum = 1)),
    responses(
        (status = 202, description = "They are on disk, and will be sent", body = Replayed),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn replay(
    State(app): State<App>,
    SubscriptionInPath(id): SubscriptionInPath,
    query: Query,
    Json(Range { since, until, replay_id, cursor }): Json<Range>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (since, until) = (within_reach(since), within_reach(until));
    if until <= since {
        return Err(Problem::field("until", "is not after since: name a range that holds something"));
    }
    let ReplayId(replay_id) = replay_id;
    let after = cursor.and_then(|ReplayCursor(cursor)| read(&cursor));
    let replay = webhooks::Replay { id: replay_id.clone(), subscription_id: id, since, until, after };
    let webhooks::Replayed { deliveries, next } = app.webhooks.parts.dead_letters.replay(&replay).await?;
    Ok(json(StatusCode::ACCEPTED, &Replayed { replay_id, deliveries, next_cursor: next.map(written) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        let reached = Reached { at: Timestamp::from_micros(1_767_225_600_000_000), event: 17 };
        assert_eq!(read(&written(reached)), Some(reached));
        for wrong in ["", "-", "1", "1-", "-1-1", "1--1", "+1-1", "1-1-1", "x-1", "17672256000000000-1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
