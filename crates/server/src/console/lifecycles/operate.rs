//! What people do about one of them.

use axum::extract::State;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::lifecycles::{Failure, Wish};
use serde_json::json;

use super::instance::seen;
use super::place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::visitor::Visitor;
use crate::http::LifecycleInPath;
use crate::problem::Problem;
use crate::routes::told_of_lifecycle as told;

/// Starts it again.
pub(in crate::console) async fn start(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    form: Form,
) -> Result<Response, Problem> {
    decide(&app, &machine, &key, &form, Wish::Start).await?;
    Ok(Done::Started.and_back_to(&place(&machine, &key)))
}

/// Moves it on to another state. What later actions read of it is said, or else who moved it and why.
pub(in crate::console) async fn transition(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let to = form.filled("to").ok_or_else(|| Problem::field("to", "is empty: choose a state"))?;
    let data = match form.filled("data") {
        Some(text) => {
            Payload::parse(text).map_err(|why| Problem::field("data", format!("is no JSON: {why}")))?
        }
        None => Payload::encode(&json!({ "by": visitor.name(), "note": form.text("note").trim() }))
            .map_err(|why| Problem::field("note", why.to_string()))?,
    };
    decide(&app, &machine, &key, &form, Wish::Transition { to: to.to_owned(), data }).await?;
    Ok(Done::Moved.and_back_to(&place(&machine, &key)))
}

/// Gives it up.
pub(in crate::console) async fn fail(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let message = form.filled("message").ok_or_else(|| Problem::field("message", "is empty: say why"))?;
    let failure = Failure { kind: form.text("kind").to_owned(), message: visitor.note(message) };
    decide(&app, &machine, &key, &form, Wish::Fail(failure)).await?;
    Ok(Done::Failed.and_back_to(&place(&machine, &key)))
}

/// Ends it in its pause state.
pub(in crate::console) async fn abandon(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let note = form.filled("note").ok_or_else(|| Problem::field("note", "is empty: say why"))?;
    decide(&app, &machine, &key, &form, Wish::Abandon { note: visitor.note(note) }).await?;
    Ok(Done::Abandoned.and_back_to(&place(&machine, &key)))
}

/// Does what somebody has decided, if it is still as their page showed it: also when two send their forms at the same moment.
async fn decide(app: &App, machine: &str, key: &str, form: &Form, wish: Wish) -> Result<(), Problem> {
    let parts = &app.lifecycles.parts;
    let standing = told(app, parts.get(machine, key).await).await?;
    form.was_made_for(&seen(&standing))?;
    let moved = parts.if_still_at(machine, key, standing.instance.seq, wish).await;
    told(app, moved).await.map(|_| ())
}
