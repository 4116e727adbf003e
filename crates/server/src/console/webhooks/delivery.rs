//! One delivery: what was sent, and what came of each attempt.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::webhooks::{Attempt, Error, Event};

use super::delivery_place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::json_text::indented;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, Mood, State as Shown, When, exact_span};
use crate::console::visitor::Visitor;
use crate::http::{DeliveryInPath, Query};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "webhooks/delivery.html")]
struct Page {
    frame: Frame,
    id: i64,
    state: Shown,
    subscription: i64,
    /// Nothing once it is deleted.
    url: Option<String>,
    event: i64,
    kind: Option<String>,
    uid: Option<String>,
    payload: Option<String>,
    webhook_id: Id,
    error: Option<String>,
    created: When,
    changed: When,
    next: Option<When>,
    /// Until when it waits for a paused subscription, and why that is paused.
    paused: Option<(When, String)>,
    requeue_of: Option<(i64, String)>,
    replay_id: Option<String>,
    attempts: Vec<Made>,
    /// Whether it was given up and can be sent after all.
    requeueable: bool,
    requeued_as: Option<(i64, String)>,
}

/// An attempt in words.
struct Made {
    number: u32,
    state: Shown,
    code: Option<u16>,
    took: Option<String>,
    error_code: Option<String>,
    error: Option<String>,
    body: Option<String>,
    started: Option<When>,
    finished: When,
    /// Where it went, and the names of the headers it had.
    sent: Option<(String, String)>,
}

/// Everything about a delivery.
pub(in crate::console) async fn show(
    State(app): State<App>,
    DeliveryInPath(id): DeliveryInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    query.finish("")?;
    let webhooks = &app.webhooks.parts;
    let delivery = webhooks.deliveries.get(id).await?;
    let attempts = webhooks.deliveries.attempts(id).await?;
    let pause = webhooks.pauses.of_deliveries(&[id]).await?.remove(&id);
    let event = webhooks.deliveries.event(delivery.event_id).await?;
    let url = match webhooks.subscriptions.get(delivery.subscription_id).await {
        Ok(subscription) => Some(subscription.terms.url),
        Err(Error::UnknownSubscription(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let letter = match webhooks.dead_letters.get(id).await {
        Ok(letter) => Some(letter),
        Err(Error::UnknownDeadLetter(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut frame = Frame::new(&app, visitor, Section::Webhooks, format!("Delivery {id}")).after(done);
    if !delivery.status.is_terminal() {
        frame = frame.live("/live");
    }
    let (kind, uid, payload) = match event {
        Some(Event { kind, uid, payload, .. }) => (Some(kind), Some(uid), Some(indented(&payload))),
        None => (None, None, None),
    };
    let placed = |id: i64| (id, delivery_place(id));
    let requeued_as = letter.as_ref().and_then(|letter| letter.requeued_as);
    Ok(page(&Page {
        id,
        state: Shown::of_delivery(delivery.status),
        subscription: delivery.subscription_id,
        event: delivery.event_id,
        webhook_id: Id::of(&delivery.webhook_id),
        error: delivery.final_error_code,
        created: frame.when(delivery.created_at),
        changed: frame.when(delivery.updated_at),
        next: (!delivery.status.is_terminal()).then(|| frame.when(delivery.next_attempt_at)),
        paused: pause.map(|pause| (frame.when(pause.until), pause.reason)),
        requeue_of: delivery.requeue_of.map(placed),
        replay_id: delivery.replay_id,
        attempts: attempts.into_iter().map(|attempt| Made::of(&frame, attempt)).collect(),
        requeueable: letter.is_some() && requeued_as.is_none() && url.is_some(),
        requeued_as: requeued_as.map(placed),
        url: url.map(|url| frame.visitor.shown_url(&url)),
        frame,
        kind,
        uid,
        payload,
    }))
}

impl Made {
    fn of(frame: &Frame, attempt: Attempt) -> Self {
        let took = attempt.duration.map(|took| i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
        Self {
            number: attempt.number,
            state: if attempt.arrived {
                Shown::new("arrived", "✓", Mood::Good)
            } else {
                Shown::new("failed", "✕", Mood::Bad)
            },
            code: attempt.response_code,
            took: took.map(exact_span),
            error_code: attempt.error_code,
            error: attempt.error,
            body: attempt.body,
            started: attempt.started_at.map(|at| frame.when(at)),
            finished: frame.when(attempt.finished_at),
            sent: attempt.sent.map(|sent| (frame.visitor.shown_url(&sent.url), sent.headers.join(", "))),
        }
    }
}
