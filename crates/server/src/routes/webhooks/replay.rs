//! `POST /v1/webhooks/subscriptions/{id}/replay`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::webhooks;
use serde::{Deserialize, Serialize};

use super::dead_letters::within_reach;
use crate::app::App;
use crate::http::{Json, Query, SubscriptionInPath, json};
use crate::problem::{Described, Problem};
use crate::time::Time;

/// Which events are sent once more.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayRequest)]
pub(in crate::routes) struct Range {
    /// Events that came then or later.
    since: Time,
    /// Events that came before.
    until: Time,
    /// What the replay is called: asked for again under the same name, nothing is sent twice. One is made unless given.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100, example = "after-the-outage")]
    replay_id: Option<String>,
}

/// What is sent once more.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Replay)]
pub(in crate::routes) struct Replayed {
    replay_id: String,
    /// How many new deliveries there are.
    deliveries: usize,
}

/// Sends the events of a time range to a subscription once more, those that were never routed to it too: a new delivery for
/// each whose type it names, with the same message id as ever.
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
    Json(Range { since, until, replay_id }): Json<Range>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (since, until) = (within_reach(since), within_reach(until));
    if until <= since {
        return Err(Problem::field("until", "is not after since: name a range that holds something"));
    }
    let made = || app.engine.ids().next(app.clock.now()).0.simple().to_string();
    let replay_id = replay_id.unwrap_or_else(made);
    let replay = webhooks::Replay { id: replay_id.clone(), subscription_id: id, since, until };
    let deliveries = app.webhooks.parts.dead_letters.replay(&replay).await?;
    Ok(json(StatusCode::ACCEPTED, &Replayed { replay_id, deliveries }))
}
