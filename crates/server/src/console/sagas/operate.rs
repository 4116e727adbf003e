//! What people do to one saga. Each form says what its page showed: whatever has moved on since is not touched.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use backstitch::{Error, Resolution, SagaId, SagaState};

use super::place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::visitor::Visitor;
use crate::http::{SagaAndStep, SagaInPath};
use crate::problem::Problem;

/// A wish about a saga that stands as its page showed it.
pub(in crate::console) struct Asked {
    app: App,
    id: SagaId,
    note: String,
}

impl FromRequestParts<App> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let SagaInPath(id) = SagaInPath::from_request_parts(parts, app).await?;
        let Ok(visitor) = Visitor::from_request_parts(parts, app).await;
        let Ok(form) = Form::from_request_parts(parts, app).await;
        as_it_was_seen(app, id, &form).await?;
        Ok(Self { app: app.clone(), id, note: visitor.note(form.text("note")) })
    }
}

impl Asked {
    fn is(self, done: Done) -> Response {
        done.and_back_to(&place::of(self.id))
    }
}

/// Rolls it back.
pub(in crate::console) async fn cancel(asked: Asked) -> Result<Response, Problem> {
    asked.app.engine.cancel(asked.id, &asked.note).await?;
    Ok(asked.is(Done::Cancelled))
}

/// Lets it start nothing new.
pub(in crate::console) async fn pause(asked: Asked) -> Result<Response, Problem> {
    asked.app.engine.pause(asked.id, &asked.note).await?;
    Ok(asked.is(Done::Paused))
}

/// Lets it go on.
pub(in crate::console) async fn resume(asked: Asked) -> Result<Response, Problem> {
    asked.app.engine.resume(asked.id, &asked.note).await?;
    Ok(asked.is(Done::Resumed))
}

/// Decides about a compensation that could not be finished.
pub(in crate::console) async fn resolve(
    State(app): State<App>,
    SagaAndStep(id, step): SagaAndStep,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let action = form.read("action", resolution, "use retry, skip or done")?;
    let note =
        form.filled("note").ok_or_else(|| Problem::field("note", "is empty: say what was done, and why"))?;
    as_it_was_seen(&app, id, &form).await?;
    app.engine.resolve(id, &step, action, &visitor.note(note)).await?;
    Ok(Done::Resolved.and_back_to(&place::of(id)))
}

pub(super) fn resolution(text: &str) -> Option<Resolution> {
    match text {
        "retry" => Some(Resolution::Retry),
        "skip" => Some(Resolution::Skip),
        "done" => Some(Resolution::Done),
        _ => None,
    }
}

/// What a form says that its page showed.
pub(super) fn seen(saga: &SagaState) -> String {
    let paused = if saga.paused { ", paused" } else { "" };
    format!("{}{paused}", saga.status.as_str())
}

async fn as_it_was_seen(app: &App, id: SagaId, form: &Form) -> Result<(), Problem> {
    let saga = app.engine.load(id).await?.ok_or(Error::NotFound(id))?;
    form.was_made_for(&seen(&saga))
}
