//! `POST /v1/lifecycles/{machine}/{key}/transition` and `…/fail`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::lifecycles::Failure;
use serde::Deserialize;

use super::told;
use super::view::Change;
use crate::app::App;
use crate::http::{Json, LifecycleInPath, Query, json};
use crate::problem::{Described, Problem};

/// Where it goes.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TransitionLifecycle, example = json!({ "to": "source_resolving" }))]
pub(in crate::routes) struct Transition {
    /// A state that the machine has an edge to.
    to: String,
    /// What comes with it: the actions of later states can read it, under the name of the state it leaves.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    data: Option<Payload>,
}

/// Why it is given up.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailLifecycle, example = json!({ "error_kind": "internal", "message": "ada: given up by hand" }))]
pub(in crate::routes) struct Fail {
    /// One of the machine's `error_kinds`, or `internal`.
    error_kind: String,
    /// What people read.
    #[schema(max_length = 4096)]
    message: String,
}

/// Why nothing has changed.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "they describe what problems say")]
enum Refused {
    #[response(
        status = 404,
        description = "There is no such machine, or nothing of this key",
        content_type = "application/problem+json"
    )]
    Unknown(Described),
    #[response(
        status = 409,
        description = "It is at its end, or nothing leads there",
        content_type = "application/problem+json"
    )]
    Forbidden(Described),
}

/// Goes on to another state. That, its event and its message are on disk together when this answers.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/{key}/transition", tag = "lifecycles", request_body = Transition,
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = String, Path, description = "Which one of this machine", min_length = 1, max_length = 200),
    ),
    responses((status = 200, description = "It has gone there", body = Change), Refused))]
pub(in crate::routes) async fn transition(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
    Json(Transition { to, data }): Json<Transition>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let moved = told(&app, app.lifecycles.parts.transition(&machine, &key, &to, data).await).await?;
    Ok(json(StatusCode::OK, &Change::of(&moved)))
}

/// Gives one up, with what went wrong.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/{key}/fail", tag = "lifecycles", request_body = Fail,
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = String, Path, description = "Which one of this machine", min_length = 1, max_length = 200),
    ),
    responses((status = 200, description = "It has failed", body = Change), Refused))]
pub(in crate::routes) async fn fail(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
    Json(Fail { error_kind, message }): Json<Fail>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let failure = Failure { kind: error_kind, message };
    let moved = told(&app, app.lifecycles.parts.fail(&machine, &key, failure).await).await?;
    Ok(json(StatusCode::OK, &Change::of(&moved)))
}
