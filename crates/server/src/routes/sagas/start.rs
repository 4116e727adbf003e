//! `POST /v1/sagas`

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use backstitch::{Accepted, Payload, Run, SagaId, SagaState};
use backstitch_api::request;
use backstitch_api::validate::{Attributes, Label, Omittable};
use serde::Serialize;

use super::super::orders::refuse_without_order;
use super::super::vocabulary::SagaStatus;
use super::view::SagaView;
use super::wait;
use crate::app::App;
use crate::auth::{Holder, Leave};
use crate::http::{Json, Query, idempotency_key, json, located};
use crate::problem::{Described, Problem};
use backstitch_api::time::Time;

request! {
    /// What a saga is started with.
    pub(crate) struct StartRequest as "StartRequest" {
        /// The definition's name.
        definition: String,
        /// What every step can read; `null` unless given.
        input: Omittable<Payload>,
        /// Your own id for the work this belongs to; sagas can be listed by it.
        correlation_id: Option<Label>,
        /// Rolled back if not finished by then.
        deadline: Option<Time>,
        /// What it can be searched by.
        attributes: Attributes,
    }
}

/// A saga that is on disk.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Started<'a> {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    /// Where it stands.
    #[schema(value_type = SagaStatus)]
    status: &'static str,
    definition: &'a str,
    version: u32,
    /// Opens this saga and its streams without a key, as `?token=`. It ends with the key that started the saga.
    stream_token: String,
}

/// Starts a saga. It is on disk when this answers, and goes on whatever happens to the server.
///
/// With an `Idempotency-Key` a repeated start is the same start. With `wait` the answer comes when the saga is at its end,
/// as the whole saga with status 200, or with status 202 when the time is up.
#[utoipa::path(post, path = "/v1/sagas", tag = "sagas", request_body = StartRequest,
    params(
        ("wait" = Option<u64>, Query, description = "Seconds to wait for the end", maximum = 60),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same saga", min_length = 1, max_length = 512, pattern = r"^[ -~]*[!-~][ -~]*$"),
    ),
    responses(
        (status = 200, description = "It is at its end already (only with `wait`)", body = SagaView),
        (status = 202, description = "It is on disk", body = Started, headers(("Location" = String, description = "The saga"))),
        (status = 400, description = "The body is not JSON, or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The key belongs to another body, or such a saga begins with an order", body = Described, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Not JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The body does not fit", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn start(
    State(app): State<App>,
    leave: Leave,
    mut query: Query,
    headers: HeaderMap,
    holder: Option<Extension<Holder>>,
    Json(request): Json<StartRequest>,
) -> Result<Response, Problem> {
    let holder = holder.as_deref();
    let wait = wait::asked(&mut query)?;
    query.finish("wait")?;
    let run = begin(&app, request, idempotency_key(&headers)?).await?;
    let id = run.id();
    let place = format!("/v1/sagas/{id}");
    if wait.is_none()
        && let Some(accepted) = run.accepted()
    {
        return Ok(located(&place, json(StatusCode::ACCEPTED, &just_started(&app, id, accepted, holder))));
    }
    let state = wait::at_end(&app, &leave, run, wait).await?;
    if wait.is_some() && state.status.is_terminal() {
        return Ok(located(&place, json(StatusCode::OK, &SagaView::of(&state))));
    }
    Ok(located(&place, json(StatusCode::ACCEPTED, &started(&app, &state, holder))))
}

async fn begin(app: &App, request: StartRequest, key: Option<&str>) -> Result<Run, Problem> {
    refuse_without_order(&request.definition)?;
    let mut start = app.engine.start(&request.definition, &request.input.0.unwrap_or_default());
    if let Some(key) = key {
        start = start.key(key);
    }
    if let Some(Label(id)) = request.correlation_id {
        start = start.correlation_id(id);
    }
    if let Some(Time(deadline)) = request.deadline {
        start = start.deadline(deadline);
    }
    for (name, value) in request.attributes.0 {
        start = start.attribute(name, value);
    }
    Ok(start.await?)
}

fn just_started<'a>(app: &App, id: SagaId, accepted: &'a Accepted, holder: Option<&Holder>) -> Started<'a> {
    Started {
        id,
        status: accepted.status.as_str(),
        definition: &accepted.definition,
        version: accepted.version,
        stream_token: app.gate.stream_token(id, holder),
    }
}

fn started<'a>(app: &App, state: &'a SagaState, holder: Option<&Holder>) -> Started<'a> {
    Started {
        id: state.id,
        status: state.status.as_str(),
        definition: &state.definition,
        version: state.version,
        stream_token: app.gate.stream_token(state.id, holder),
    }
}
