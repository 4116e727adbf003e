//! `GET /v1/lifecycles/{machine}/{key}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::lifecycles::{Kind, LifecycleKey};
use serde::Serialize;

use super::{View, told};
use crate::app::App;
use crate::http::{LifecycleInPath, Query, json};
use crate::problem::{Described, Problem};
use backstitch_api::time::{Time, rfc3339};

/// A lifecycle with what it was started with and what may follow.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LifecycleInFull)]
pub(in crate::routes) struct InFull<'a> {
    #[serde(flatten)]
    lifecycle: View<'a>,
    /// What actions can read: the newest that a start brought along.
    #[schema(value_type = Value)]
    input: Option<&'a Payload>,
    /// The states that a transition may lead to; none once it has ended.
    follows: Vec<&'a str>,
    /// Where a start goes on; only of one that waits for a start.
    re_entry: Option<&'a str>,
    /// When its pause expires and it is abandoned; `null` where it is in no pause, or in one without a limit.
    pause_expires_at: Option<Time>,
    /// The queue whose workers its action waits for; `null` once a worker has leased it, and where no worker performs it.
    waits_for_worker: Option<&'a str>,
}

/// A lifecycle as it stands.
#[utoipa::path(get, path = "/v1/lifecycles/{machine}/{key}", tag = "lifecycles",
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine"),
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
        follows: machine.follows(state).filter(|_| !standing.ended).collect(),
        re_entry: match machine.kind(state) {
            Some(Kind::Pause(again)) if !standing.ended => Some(again),
            _ => None,
        },
        pause_expires_at: standing.instance.pause_expires_at(&machine).map(rfc3339),
        waits_for_worker: parts.waits_for_worker(&standing, &machine).await?,
    };
    Ok(json(StatusCode::OK, &answer))
}
