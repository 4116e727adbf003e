//! `GET /v1/lifecycles/{machine}/{key}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::lifecycles::Kind;
use serde::Serialize;

use super::{View, told};
use crate::app::App;
use crate::http::{LifecycleInPath, Query, json};
use crate::problem::{Described, Problem};

/// A lifecycle with what it was started with and what may follow.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LifecycleInFull)]
pub(in crate::routes) struct InFull<'a> {
    #[serde(flatten)]
    lifecycle: View<'a>,
    /// What actions can read: the newest that a start brought along.
    #[schema(value_type = Value)]
    input: Option<&'a Payload>,
    /// The states that a transition may lead to.
    follows: Vec<&'a str>,
    /// Where a start goes on; only of one that waits for a start.
    re_entry: Option<&'a str>,
}

/// A lifecycle as it stands.
#[utoipa::path(get, path = "/v1/lifecycles/{machine}/{key}", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = String, Path, description = "Which one of this machine", min_length = 1, max_length = 200),
    ),
    responses(
        (status = 200, description = "The lifecycle", body = InFull),
        (status = 404, description = "There is no such machine, or nothing of this key", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&machine, &key).await).await?;
    let machine = parts.machines.machine(&machine, standing.version).await?;
    let state = &standing.instance.state;
    let answer = InFull {
        lifecycle: View::from(&standing),
        input: standing.instance.given.input.as_ref(),
        follows: machine.follows(state).collect(),
        re_entry: match machine.kind(state) {
            Some(Kind::Pause(again)) => Some(again),
            _ => None,
        },
    };
    Ok(json(StatusCode::OK, &answer))
}
