//! `POST /v1/webhooks/dead-letters/{id}/requeue` and `POST /v1/webhooks/dead-letters/requeue`

use std::borrow::Cow;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_modules::webhooks::Which;
use serde::{Deserialize, Serialize};
use serde_json::json as value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AllOfBuilder, AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::dead_letters::within_reach;
use super::deliveries::View;
use crate::app::App;
use crate::audit::{filtered, said};
use crate::http::{DeadLetterInPath, Json, Query, json, optional_whole, whole};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 1_000;
const MOST: usize = 10_000;

/// Sends a dead letter after all, as a new delivery with the same message id. The old one stays as it is. Asking again gives
/// the same delivery; if that is given up too, it is a dead letter of its own.
#[utoipa::path(post, path = "/v1/webhooks/dead-letters/{id}/requeue", tag = "webhooks",
    params(("id" = i64, Path, description = "The dead letter", minimum = 1)),
    responses(
        (status = 201, description = "The new delivery", body = View),
        (status = 200, description = "The delivery that was made when it was asked for first", body = View),
        (status = 404, description = "There is no such dead letter, or its subscription was deleted", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn one(
    State(app): State<App>,
    DeadLetterInPath(id): DeadLetterInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let requeued = app.webhooks.parts.dead_letters.requeue(id).await?;
    let status = if requeued.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &View::read(&app, requeued.delivery).await?))
}

/// Which dead letters are requeued: those to which everything applies that is named.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RequeuedBy, example = json!({ "final_error_code": "timeout" }))]
pub(in crate::routes) struct Chosen {
    #[serde(default, deserialize_with = "optional_whole")]
    #[schema(minimum = 1)]
    subscription_id: Option<i64>,
    #[serde(default, deserialize_with = "optional_whole")]
    #[schema(minimum = 1)]
    event_id: Option<i64>,
    /// Whose last attempt failed so.
    #[serde(default)]
    final_error_code: Option<String>,
    /// Given up then or later.
    #[serde(default)]
    since: Option<Time>,
    /// Given up before.
    #[serde(default)]
    until: Option<Time>,
    /// All of them, where nothing else is named.
    #[serde(default)]
    all: bool,
    /// At most this many, 1000 unless given.
    #[serde(default = "usual_limit", deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 10_000)]
    limit: usize,
    /// The `next_cursor` of the answer before.
    #[serde(default, deserialize_with = "optional_whole")]
    #[schema(minimum = 1)]
    cursor: Option<i64>,
}

/// The same for the description: at least one thing says which dead letters are meant.
pub(in crate::routes) struct Written;

impl PartialSchema for Written {
    fn schema() -> RefOr<Schema> {
        let names = |name: &str, of: ObjectBuilder| ObjectBuilder::new().property(name, of).required(name);
        let integer = || ObjectBuilder::new().schema_type(Type::Integer);
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let some = AnyOfBuilder::new()
            .item(names("subscription_id", integer()))
            .item(names("event_id", integer()))
            .item(names("final_error_code", text()))
            .item(names("since", text()))
            .item(names("until", text()))
            .item(names("all", ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]))));
        AllOfBuilder::new()
            .item(Chosen::schema())
            .item(some)
            .examples([value!({ "final_error_code": "timeout" })])
            .into()
    }
}

impl ToSchema for Written {
    fn name() -> Cow<'static, str> {
        "RequeueDeadLetters".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Chosen::schemas(schemas);
    }
}

fn usual_limit() -> usize {
    LIMIT
}

impl Chosen {
    /// An empty body that requeues everything would be a mistake that nobody can take back.
    fn which(self) -> Result<Which, Problem> {
        let which = Which {
            subscription_id: self.subscription_id,
            event_id: self.event_id,
            final_error_code: self.final_error_code,
            since: self.since.map(within_reach),
            until: self.until.map(within_reach),
            up_to: None,
            not_requeued: true,
        };
        let names_some = which.subscription_id.is_some()
            || which.event_id.is_some()
            || which.final_error_code.is_some()
            || which.since.is_some()
            || which.until.is_some();
        if names_some || self.all {
            return Ok(which);
        }
        Err(Problem::field(
            "all",
            "nothing says which dead letters are meant: give subscription_id, event_id, final_error_code, since or until, or \
             `all: true` to requeue everything",
        ))
    }
}

/// How many were requeued.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RequeuedDeadLetters)]
pub(in crate::routes) struct Requeued {
    requeued: usize,
    /// Give it as `cursor` to go on; `null` when all were seen.
    next_cursor: Option<i64>,
}

/// Requeues the dead letters that are meant and have not been requeued, oldest first. Those of deleted subscriptions are
/// passed over. One call looks at 10,000 at most.
#[utoipa::path(post, path = "/v1/webhooks/dead-letters/requeue", tag = "webhooks", request_body = Written,
    responses((status = 200, description = "How many were requeued", body = Requeued)))]
pub(in crate::routes) async fn many(
    State(app): State<App>,
    query: Query,
    Json(chosen): Json<Chosen>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let (limit, cursor) = (chosen.limit, chosen.cursor);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::field("limit", format!("is {limit}: use 1 to {MOST}")));
    }
    for (place, number) in
        [("subscription_id", chosen.subscription_id), ("event_id", chosen.event_id), ("cursor", cursor)]
    {
        if number.is_some_and(|number| number < 1) {
            return Err(Problem::field(place, "is no number of anything: use one that the lists have"));
        }
    }
    let which = chosen.which()?;
    let done = app.webhooks.parts.dead_letters.requeue_matching(&which, limit, cursor).await?;
    let what = format!("requeue: {} dead letters{}", done.requeued, told(&which));
    Ok(said(json(StatusCode::OK, &Requeued { requeued: done.requeued, next_cursor: done.next }), what))
}

/// Which were meant, for the audit.
fn told(which: &Which) -> String {
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    let time = |at: Option<Timestamp>| at.map(|at| rfc3339(at).to_string());
    let parts = [
        ("subscription_id", number(which.subscription_id)),
        ("event_id", number(which.event_id)),
        ("final_error_code", which.final_error_code.clone()),
        ("since", time(which.since)),
        ("until", time(which.until)),
    ];
    filtered(parts.into_iter().map(|(name, value)| (name, value.unwrap_or_default())))
}
