//! What people do to one saga. Each form says what its page showed: whatever has moved on since is not touched.

use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, Insight, Resolution, SagaId};

use super::place;
use super::seen::Seen;
use crate::app::App;
use crate::audit::said;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::visitor::Visitor;
use crate::http::{SagaAndStep, SagaInPath};
use crate::problem::{Kind, Problem};
use crate::routes::resolution_word;

/// Rolls it back.
pub(in crate::console) async fn cancel(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    form.was_made_for(&now(&app, id).await?.1.status)?;
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
    form.was_made_for(&now(&app, id).await?.1.course)?;
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
    form.was_made_for(&now(&app, id).await?.1.course)?;
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
    let (insight, seen) = now(&app, id).await?;
    form.was_made_for(&seen.rollback)?;
    match app.engine.resolve_as_seen(id, insight.seq, &step, action, &visitor.note(note)).await {
        Err(raced @ Error::Raced(_)) => Err(Problem::new(Kind::StaleForm, raced.to_string())),
        decided => {
            Ok(decided.map(|()| said(Done::Resolved.and_back_to(&place::of(id)), resolution_word(action)))?)
        }
    }
}

pub(super) fn resolution(text: &str) -> Option<Resolution> {
    match text {
        "retry" => Some(Resolution::Retry),
        "skip" => Some(Resolution::Skip),
        "done" => Some(Resolution::Done),
        _ => None,
    }
}

/// The saga, and what forms for it must have seen.
async fn now(app: &App, id: SagaId) -> Result<(Insight, Seen), Problem> {
    let insight = app.engine.insight(id).await?.ok_or(Error::NotFound(id))?;
    let seen = Seen::of(app, &insight).await?;
    Ok((insight, seen))
}
