//! `POST /v1/lifecycles/{machine}/{key}/start`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Payload;
use backstitch_api::path::lifecycle_path;
use backstitch_api::request;
use backstitch_api::validate::Label;
use backstitch_modules::lifecycles::{Error, Given, LifecycleKey, Moved, Refused, Standing};

use super::told;
use super::view::Change;
use crate::app::App;
use crate::http::{JsonOrNothing, LifecycleInPath, Query, json, located};
use crate::problem::{Described, Problem};

request! {
    /// What a start can bring along.
    pub(in crate::routes) struct Request as "StartLifecycle" {
        /// What links traces. The first one of all starts counts.
        correlation_id: Option<Label>,
        /// What actions can read. The newest one counts.
        input: Option<Payload>,
    }
}

/// What came of a start.
pub(crate) enum Begun {
    Moved(Box<Moved>),
    /// It was at its end, and stays there.
    Ended(Box<Standing>, String),
}

/// Begins one, or begins it again.
pub(crate) async fn begin(app: &App, machine: &str, key: &str, given: Given) -> Result<Begun, Problem> {
    match app.lifecycles.parts.start(machine, key, given).await {
        Ok(moved) => Ok(Begun::Moved(Box::new(moved))),
        Err(Error::Refused { why: why @ Refused::Ended { .. }, standing: Some(standing) }) => {
            Ok(Begun::Ended(standing, why.to_string()))
        }
        Err(error) => told(app, Err(error)).await,
    }
}

/// Begins a lifecycle, or begins it again: `attempt` goes up, its state stays unless it is one that waits for this, and the
/// first correlation id stays. It is on disk when this answers.
///
/// One in a terminal state stays as it is: the answer is 200, `changed` is false, and `detail` says so. One that was abandoned is
/// refused with 409.
#[utoipa::path(post, path = "/v1/lifecycles/{machine}/{key}/start", tag = "lifecycles", request_body = Option<Request>,
    params(
        ("machine" = String, Path, description = "The machine", pattern = "^[A-Za-z0-9._-]{1,128}$"),
        ("key" = inline(LifecycleKey), Path, description = "Which one of this machine: anything that can be seen, up to 200 bytes"),
    ),
    responses(
        (status = 202, description = "It has begun, or begun again", body = Change, headers(("Location" = String, description = "The lifecycle"))),
        (status = 200, description = "It is at its end, and nothing has changed", body = Change, headers(("Location" = String, description = "The lifecycle"))),
        (status = 404, description = "There is no such machine", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "No version of the machine is active, or it was abandoned", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn start(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    query: Query,
    JsonOrNothing(Request { correlation_id, input }): JsonOrNothing<Request>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let given = Given { correlation_id: correlation_id.map(|Label(id)| id), input };
    let answer = match begin(&app, &machine, &key, given).await? {
        Begun::Moved(moved) => json(StatusCode::ACCEPTED, &Change::of(&moved)),
        Begun::Ended(standing, why) => json(StatusCode::OK, &Change::none(&standing, &why)),
    };
    Ok(located(&lifecycle_path(&machine, &key), answer))
}
