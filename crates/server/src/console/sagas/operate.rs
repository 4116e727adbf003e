//! What people do to one saga. Each form says what its page showed: whatever has moved on since is not touched.

use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, Resolution, SagaId, SagaState};

use super::place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::visitor::Visitor;
use crate::http::{SagaAndStep, SagaInPath};
use crate::problem::Problem;

/// Rolls it back.
pub(in crate::console) async fn cancel(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, id, &form).await?;
    app.engine.cancel(id, &visitor.note(form.text("note"))).await?;
    Ok(Done::Cancelled.and_back_to(&place::of(id)))
}

/// Lets it start nothing new.
pub(in crate::console) async fn pause(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, id, &form).await?;
    app.engine.pause(id, &visitor.note(form.text("note"))).await?;
    Ok(Done::Paused.and_back_to(&place::of(id)))
}

/// Lets it go on.
pub(in crate::console) async fn resume(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, id, &form).await?;
    app.engine.resume(id, &visitor.note(form.text("note"))).await?;
    Ok(Done::Resumed.and_back_to(&place::of(id)))
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
