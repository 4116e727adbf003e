//! `POST /v1/webhooks/dead-letters/{id}/requeue` and `POST /v1/webhooks/dead-letters/requeue`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Timestamp;
use backstitch_api::request;
use backstitch_api::validate::schema::{Components, of};
use backstitch_api::validate::{Bounded, Input, Node, Omittable, RowNumber};
use backstitch_modules::webhooks::Which;
use serde::Serialize;
use serde_json::json as value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AllOfBuilder, AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::dead_letters::within_reach;
use super::deliveries::View;
use crate::app::App;
use crate::audit::{filtered, said};
use crate::http::{DeadLetterInPath, Json, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 1_000;
const MOST: u64 = 10_000;

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

request! {
    /// Which dead letters are requeued: those that match all given fields.
    pub(in crate::routes) struct Chosen as "RequeuedBy" example { "final_error_code": "timeout" } {
        /// The subscription.
        subscription_id: Option<RowNumber>,
        /// The event.
        event_id: Option<RowNumber>,
        /// The error code of the last attempt.
        final_error_code: Option<String>,
        /// Dead-lettered then or later.
        since: Option<Time>,
        /// Dead-lettered before.
        until: Option<Time>,
        /// All of them, where nothing else is given.
        all: Omittable<bool>,
        /// At most this many, 1000 unless given.
        limit: Omittable<Bounded<usize, 1, MOST>>,
        /// The `next_cursor` of the answer before.
        cursor: Option<RowNumber>,
    }
}

/// The same where something says which dead letters are meant: an empty body that requeues everything could not be undone.
#[derive(Clone, Debug)]
pub(in crate::routes) struct RequeueDeadLetters(Chosen);

impl Input for RequeueDeadLetters {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object(Chosen::FIELDS)?;
        let chosen = Chosen::read_fields(&object)?;
        let given = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
        if !chosen.all.0.unwrap_or_default() && !NARROWING.iter().any(|(name, _)| given(name)) {
            object.wrong(
                "all",
                "nothing says which dead letters are meant: give subscription_id, event_id, final_error_code, since or until, \
                 or `all: true` to requeue everything",
            );
            return None;
        }
        Some(Self(chosen))
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }
}

/// The fields that say which dead letters are meant, with the type that is not `null`.
const NARROWING: [(&str, Type); 5] = [
    ("subscription_id", Type::Integer),
    ("event_id", Type::Integer),
    ("final_error_code", Type::String),
    ("since", Type::String),
    ("until", Type::String),
];

impl PartialSchema for RequeueDeadLetters {
    fn schema() -> RefOr<Schema> {
        let given = |name: &str, of: ObjectBuilder| ObjectBuilder::new().property(name, of).required(name);
        let all = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
        let some =
            NARROWING.into_iter().fold(AnyOfBuilder::new().item(given("all", all)), |some, (name, of)| {
                some.item(given(name, ObjectBuilder::new().schema_type(of)))
            });
        let example = value!({ "final_error_code": "timeout" });
        AllOfBuilder::new().item(<Chosen as PartialSchema>::schema()).item(some).examples([example]).into()
    }
}

impl ToSchema for RequeueDeadLetters {
    fn schemas(components: &mut Components) {
        Chosen::schemas(components);
    }
}

impl Chosen {
    fn which(self) -> Which {
        Which {
            subscription_id: self.subscription_id.map(|number| number.0),
            event_id: self.event_id.map(|number| number.0),
            final_error_code: self.final_error_code,
            since: self.since.map(within_reach),
            until: self.until.map(within_reach),
            up_to: None,
            not_requeued: true,
        }
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
#[utoipa::path(post, path = "/v1/webhooks/dead-letters/requeue", tag = "webhooks", request_body = RequeueDeadLetters,
    responses((status = 200, description = "How many were requeued", body = Requeued)))]
pub(in crate::routes) async fn many(
    State(app): State<App>,
    query: Query,
    Json(RequeueDeadLetters(chosen)): Json<RequeueDeadLetters>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let limit = chosen.limit.0.map_or(LIMIT, |limit| limit.0);
    let cursor = chosen.cursor.map(|cursor| cursor.0);
    let which = chosen.which();
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
