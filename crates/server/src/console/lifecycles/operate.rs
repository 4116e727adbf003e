//! What people do about one of them.

use axum::extract::State;
use axum::response::Response;
use backstitch::Payload;
use backstitch_modules::lifecycles::{Failure, Given};
use serde_json::json;

use super::instance::seen;
use super::place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::visitor::Visitor;
use crate::http::LifecycleInPath;
use crate::problem::{Kind, Problem};
use crate::routes::{Begun, begin_lifecycle, told_of_lifecycle as told};

/// Starts it again.
pub(in crate::console) async fn start(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    form: Form,
) -> Result<Response, Problem> {
    as_it_was_seen(&app, &machine, &key, &form).await?;
    match begin_lifecycle(&app, &machine, &key, Given::default()).await? {
        Begun::Moved(_) => Ok(Done::Started.and_back_to(&place(&machine, &key))),
        Begun::Ended(_, why) => Err(Problem::new(Kind::LifecycleEnded, why)),
    }
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
    as_it_was_seen(&app, &machine, &key, &form).await?;
    told(&app, app.lifecycles.parts.transition(&machine, &key, to, Some(data)).await).await?;
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
    as_it_was_seen(&app, &machine, &key, &form).await?;
    told(&app, app.lifecycles.parts.fail(&machine, &key, failure).await).await?;
    Ok(Done::Failed.and_back_to(&place(&machine, &key)))
}

async fn as_it_was_seen(app: &App, machine: &str, key: &str, form: &Form) -> Result<(), Problem> {
    let standing = told(app, app.lifecycles.parts.get(machine, key).await).await?;
    form.was_made_for(&seen(&standing))
}
