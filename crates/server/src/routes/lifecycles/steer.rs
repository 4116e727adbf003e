//! `POST /v1/lifecycles/{machine}/{key}/transition`, `…/fail` and `…/abandon`

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_api::request;
use backstitch_api::validate::ReasonNote;
use backstitch_modules::lifecycles::{Failure, FailureMessage, LifecycleKey};

use super::told;
use super::view::Change;
use crate::app::App;
use crate::auth::{Holder, signed};
use crate::http::{Json, LifecycleInPath, Query, json};
use crate::problem::{Described, Problem};

request! {
    /// Where it goes.
    pub(in crate::routes) struct Transition as "TransitionLifecycle" example { "to": "source_resolving" } {
        /// A state that the machine has an edge to.
        to: String,
        /// What comes with it: the actions of later states can read it, under the name of the state it leaves.
        data: Option<Payload>,
    }
}

request! {
    /// Why it fails.
    pub(in crate::routes) struct Fail as "FailLifecycle" example { "error_kind": "internal", "message": "ada: failed by hand" } {
        /// One of the machine's `error_kinds`, or `internal`.
        error_kind: String,
        /// What people read.
        message: FailureMessage,
    }
}

request! {
    /// Why it is abandoned.
    pub(in crate::routes) struct Abandon as "AbandonLifecycle" example { "note": "the owner left" } {
        /// Why; it stays in the log, after the name of the key that asks.
        note: ReasonNote,
    }
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
        description = "It is at its end, its state forbids it, or nothing leads there",
        content_type = "application/problem+json"
    )]
    Forbidden(Described),
}

/// Goes on to another state. That, its event and its message are on disk together when this answers.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/{key}/transition", tag = "lifecycles", request_body = Transition,
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
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
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
    ),
    responses((status = 200, description = "It has failed", body = Change), Refused))]
pub(in crate::routes) async fn fail(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
    Json(Fail { error_kind, message }): Json<Fail>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let failure = Failure { kind: error_kind, message: message.0 };
    let moved = told(&app, app.lifecycles.parts.fail(&machine, &key, failure).await).await?;
    Ok(json(StatusCode::OK, &Change::of(&moved)))
}

/// Ends a lifecycle in the pause state it is in, with no transition. Of a start and an abandonment at the same moment one wins,
/// and the other is refused with 409.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/{key}/abandon", tag = "lifecycles", request_body = Abandon,
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
    ),
    responses((status = 200, description = "It is abandoned", body = Change), Refused))]
pub(in crate::routes) async fn abandon(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
    holder: Option<Extension<Holder>>,
    Json(Abandon { note }): Json<Abandon>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let note = holder.map_or_else(|| note.0.clone(), |Extension(holder)| signed(&holder.name, &note.0));
    let moved = told(&app, app.lifecycles.parts.abandon(&machine, &key, &note).await).await?;
    Ok(json(StatusCode::OK, &Change::of(&moved)))
}
