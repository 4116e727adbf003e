//! One message, and how one that was given up is sent again.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::store::outbox::{Kept, Retried, Status};

use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::json_text::indented;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, State as Shown};
use crate::console::visitor::Visitor;
use crate::http::{MessageInPath, Query};
use crate::problem::{Kind, Problem};
use crate::routes::message_not_found;

#[derive(Template)]
#[template(path = "outbox/message.html")]
struct Page {
    frame: Frame,
    kept: Kept,
    state: Shown,
    key: Id,
    payload: String,
    result: Option<String>,
    error: Option<(String, String)>,
}

impl Page {
    fn is_aborted(&self) -> bool {
        self.kept.status == Status::Aborted
    }
}

/// Everything about a message.
pub(in crate::console) async fn show(
    State(app): State<App>,
    MessageInPath(id): MessageInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    query.finish("")?;
    let kept = app.engine.message(id).await?.ok_or_else(|| message_not_found(id))?;
    let mut frame = Frame::new(&app, visitor, Section::Outbox, format!("Message {id}")).after(done);
    if !kept.status.is_settled() {
        frame = frame.live("/live");
    }
    Ok(page(&Page {
        state: Shown::of_message(kept.status),
        key: Id::of(&kept.message.idempotency_key),
        payload: indented(kept.message.payload.as_str()),
        result: kept.result.as_ref().map(|result| indented(result.as_str())),
        error: kept.last_error.as_ref().map(|error| (error.code.clone(), error.message.clone())),
        frame,
        kept,
    }))
}

/// Sends it again, as a new one under the same key.
pub(in crate::console) async fn retry(
    State(app): State<App>,
    MessageInPath(id): MessageInPath,
    form: Form,
) -> Result<Response, Problem> {
    let kept = app.engine.message(id).await?.ok_or_else(|| message_not_found(id))?;
    form.was_made_for(kept.status.as_str())?;
    match app.engine.retry_message(id).await? {
        Retried::Accepted(new) | Retried::Replay(new) => {
            Ok(Done::Retried.and_back_to(&format!("/outbox/{new}")))
        }
        Retried::Unknown => Err(message_not_found(id)),
        Retried::NotAborted(status) => {
            let detail = format!("message {id} is {}: only an aborted one is sent again", status.as_str());
            Err(Problem::new(Kind::MessageNotAborted, detail))
        }
    }
}
