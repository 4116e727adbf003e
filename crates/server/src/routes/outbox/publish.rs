//! `POST /v1/outbox`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::kernel::topic::is_reserved;
use backstitch::outbox::Receiving;
use backstitch::{Error, Payload};
use backstitch_api::request;
use backstitch_api::validate::Label;

use super::message::Item;
use crate::app::App;
use crate::http::{Json, Query, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::Time;

request! {
    /// A message to be sent.
    pub(in crate::routes) struct NewMessage as "NewMessage" {
        /// Where it goes is configuration: `[outbox.topics.TOPIC]`.
        topic: Label,
        /// The same key and payload give the same message.
        idempotency_key: Label,
        /// Messages of the topic with the same one are sent one after the other, in the order they were published.
        ordering_key: Option<Label>,
        /// Any JSON.
        payload: Payload,
        /// Given up if it is not sent by then.
        expires_at: Option<Time>,
    }
}

/// Accepts a message. It is on disk, together with its key, when this answers; it is sent afterwards, at least once.
#[utoipa::path(post, path = "/v1/outbox", tag = "outbox", request_body = NewMessage,
    responses(
        (status = 202, description = "It is on disk", body = Item),
        (status = 200, description = "It was there: what has become of it", body = Item),
        (status = 409, description = "The key belongs to another payload", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "It does not fit, or the topic goes nowhere", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn publish(
    State(app): State<App>,
    query: Query,
    Json(new): Json<NewMessage>,
) -> Result<Response, Problem> {
    query.finish("")?;
    refuse_unknown_topic(&app, &new.topic.0)?;
    let mut publishing = app.engine.publish(&new.topic.0, &new.idempotency_key.0, &new.payload);
    if let Some(Label(key)) = &new.ordering_key {
        publishing = publishing.ordering_key(key);
    }
    if let Some(Time(at)) = new.expires_at {
        publishing = publishing.expires_at(at);
    }
    let (status, id) = match publishing.await? {
        Receiving::Accepted(id) => (StatusCode::ACCEPTED, id),
        Receiving::Replay(id) => (StatusCode::OK, id),
    };
    let kept = app.engine.message(id).await?.ok_or(Error::MessageRemoved)?;
    Ok(json(status, &Item::of(&kept)))
}

/// Nothing would ever send it. Topics of the server's own are not for anybody else to write to.
pub(super) fn refuse_unknown_topic(app: &App, topic: &str) -> Result<(), Problem> {
    if is_reserved(topic) {
        let detail = "topics that begin with `backstitch.` are the server's own: choose another name";
        return Err(Problem::new(Kind::UnknownTopic, detail));
    }
    if app.topics.has(topic) {
        return Ok(());
    }
    let known: Vec<&str> = app.topics.topics().filter(|name| !is_reserved(name)).collect();
    let detail = format!(
        "the topic `{topic}` goes nowhere: use one of {}, or add [outbox.topics.{topic}] to the configuration",
        known.join(", ")
    );
    Err(Problem::new(Kind::UnknownTopic, detail).with("topics", &known))
}
