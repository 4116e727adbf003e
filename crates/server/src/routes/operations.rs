//! What people do to sagas.

use axum::Extension;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::kernel::saga::Rejected;
use backstitch::{Error, Resolution, SagaId, SagaState, Status};
use backstitch_api::request;
use backstitch_api::validate::{Note, Omittable, ReasonNote};
use serde::Serialize;

use super::vocabulary;
use crate::app::App;
use crate::audit::said;
use crate::auth::{Holder, signed};
use crate::http::{Json, JsonOrNothing, Query, SagaAndStep, SagaInPath, json};
use crate::problem::{Described, Problem};

request! {
    /// Why it is done.
    pub(super) struct NoteRequest as "NoteRequest" {
        /// Why; it stays in the log, after the name of the key that asks.
        note: Omittable<Note>,
    }
}

request! {
    /// What was decided about a compensation that could not be finished.
    pub(super) struct ResolveRequest as "ResolveRequest" example { "action": "retry", "note": "the service is up again" } {
        /// `retry`: try it again; `skip`: leave it undone; `done`: it was undone by hand.
        action: vocabulary::Resolution,
        /// What was done, and why; it stays in the log, after the name of the key that asks.
        note: ReasonNote,
    }
}

/// A request that is on disk and will be carried out.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Accepted {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    /// The saga's status: `compensating` once a resolution is accepted, and what it was before for the other requests.
    #[schema(value_type = vocabulary::SagaStatus)]
    status: &'static str,
}

/// Why it is not.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "they describe what problems say")]
enum Refused {
    #[response(status = 404, description = "There is none", content_type = "application/problem+json")]
    Unknown(Described),
    #[response(status = 409, description = "Its state forbids it", content_type = "application/problem+json")]
    Forbidden(Described),
}

/// Who asks, if it is known.
type Asker = Option<Extension<Holder>>;

/// A request to change the course of a saga, which stands as it stood when it came.
pub(super) struct Asked {
    app: App,
    saga: SagaState,
    note: String,
    asker: Asker,
}

impl FromRequest<App> for Asked {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let SagaInPath(id) = SagaInPath::from_request_parts(&mut parts, app).await?;
        let query = Query::from_request_parts(&mut parts, app).await?;
        let asker = parts.extensions.get().cloned().map(Extension);
        let request = Request::from_parts(parts, body);
        let JsonOrNothing(NoteRequest { note }) = JsonOrNothing::from_request(request, app).await?;
        query.finish("")?;
        let note = by(asker.as_ref(), note.0.unwrap_or_default().0);
        Ok(Self { saga: load(app, id).await?, app: app.clone(), note, asker })
    }
}

impl Asked {
    fn rejected(&self, why: Rejected) -> Problem {
        Error::Rejected { saga: self.saga.id, why }.into()
    }

    fn accepted(&self, operation: &'static str) -> Response {
        accepted(self.saga.id, self.saga.status, operation, self.asker.as_ref())
    }
}

/// Asks a saga to roll back. The request is on disk when this answers; a saga that had finished by then stays finished.
#[utoipa::path(post, path = "/v1/sagas/{id}/cancel", tag = "operations", request_body = Option<NoteRequest>,
    params(("id" = String, Path, description = "The saga", format = Uuid)),
    responses((status = 202, description = "It will be rolled back", body = Accepted), Refused))]
pub(super) async fn cancel(asked: Asked) -> Result<Response, Problem> {
    if asked.saga.status == Status::Compensating {
        return Err(asked.rejected(Rejected::RollingBack));
    }
    asked.app.engine.cancel(asked.saga.id, &asked.note).await?;
    Ok(asked.accepted("cancel"))
}

/// Asks a saga to start nothing new until it is resumed. What is in flight finishes; deadlines run on.
#[utoipa::path(post, path = "/v1/sagas/{id}/pause", tag = "operations", request_body = Option<NoteRequest>,
    params(("id" = String, Path, description = "The saga", format = Uuid)),
    responses((status = 202, description = "It will be paused", body = Accepted), Refused))]
pub(super) async fn pause(asked: Asked) -> Result<Response, Problem> {
    if asked.saga.paused {
        return Err(asked.rejected(Rejected::Paused));
    }
    asked.app.engine.pause(asked.saga.id, &asked.note).await?;
    Ok(asked.accepted("pause"))
}

/// Lets a paused saga go on.
#[utoipa::path(post, path = "/v1/sagas/{id}/resume", tag = "operations", request_body = Option<NoteRequest>,
    params(("id" = String, Path, description = "The saga", format = Uuid)),
    responses((status = 202, description = "It will go on", body = Accepted), Refused))]
pub(super) async fn resume(asked: Asked) -> Result<Response, Problem> {
    if !asked.saga.paused && !asked.saga.status.is_terminal() {
        return Err(asked.rejected(Rejected::NotPaused));
    }
    asked.app.engine.resume(asked.saga.id, &asked.note).await?;
    Ok(asked.accepted("resume"))
}

/// Decides about a compensation that could not be finished. The saga then goes on rolling back.
#[utoipa::path(post, path = "/v1/sagas/{id}/steps/{step}/resolve", tag = "operations", request_body = ResolveRequest,
    params(("id" = String, Path, description = "The saga", format = Uuid), ("step" = String, Path, description = "The step that is stuck")),
    responses(
        (status = 202, description = "The rollback goes on", body = Accepted),
        (status = 404, description = "There is no such saga or step", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "Its state forbids it", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The body does not fit", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn resolve(
    State(app): State<App>,
    SagaAndStep(id, step): SagaAndStep,
    query: Query,
    asker: Asker,
    Json(ResolveRequest { action, note }): Json<ResolveRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let action = action.into();
    let note = by(asker.as_ref(), note.0);
    app.engine.resolve(id, &step, action, &note).await?;
    // A resolution is decided in the request itself, and puts the saga back into its rollback.
    let response = accepted(id, Status::Compensating, "resolve", asker.as_ref());
    Ok(said(response, resolution_word(action)))
}

/// What was decided, in a word.
pub(crate) fn resolution_word(action: Resolution) -> &'static str {
    match action {
        Resolution::Retry => "retry",
        Resolution::Skip => "skip",
        Resolution::Done => "done",
    }
}

/// The note with the name of whoever asks before it; as it came where nobody needs a name.
fn by(asker: Option<&Extension<Holder>>, note: String) -> String {
    match asker {
        Some(Extension(holder)) => signed(&holder.name, &note),
        None => note,
    }
}

async fn load(app: &App, id: SagaId) -> Result<SagaState, Problem> {
    Ok(app.engine.load(id).await?.ok_or(Error::NotFound(id))?)
}

fn accepted(
    id: SagaId,
    status: Status,
    operation: &'static str,
    asker: Option<&Extension<Holder>>,
) -> Response {
    let status = status.as_str();
    let key = asker.map_or("none", |Extension(holder)| holder.name.as_str());
    tracing::info!(operation, saga = %id, status, key, "operation accepted");
    json(StatusCode::ACCEPTED, &Accepted { id, status })
}
