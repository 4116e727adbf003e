//! Who wants to hear of which events, and how it goes.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::webhooks::{Condition, DEAD_LETTERS_COUNTED, Pause, Subscription};

use super::{cursor, subscription_place};
use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{State as Shown, When, capped, span};
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::Problem;
use crate::routes::delivery_age;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "webhooks/subscriptions.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    next: Option<String>,
    oldest_due: Option<String>,
    is_sending: bool,
}

struct Row {
    id: i64,
    place: String,
    url: String,
    types: String,
    health: Health,
}

/// How it goes, in words.
pub(super) struct Health {
    pub(super) state: Shown,
    pub(super) lately: String,
    pub(super) dead_letters: String,
    pub(super) waiting: Option<When>,
    /// Until when it is paused, and why.
    pub(super) paused: Option<(When, String)>,
}

impl Health {
    pub(super) fn of(
        frame: &Frame,
        subscription: &Subscription,
        condition: Option<&Condition>,
        pause: Option<Pause>,
    ) -> Self {
        let lately = condition.map_or_else(String::new, |it| match (it.lately, it.retrying + it.given_up) {
            (0, _) => "nothing was sent yet".to_owned(),
            (all, 0) => format!("of the last {all} none failed"),
            (all, _) => format!("of the last {all}, {} failing, {} given up", it.retrying, it.given_up),
        });
        let failing = condition.is_some_and(|it| it.retrying + it.given_up > 0);
        Self {
            state: Shown::of_subscription(subscription.disabled.is_some(), failing),
            lately,
            dead_letters: condition
                .map(|it| capped(it.dead_letters.into(), DEAD_LETTERS_COUNTED))
                .unwrap_or_default(),
            waiting: condition.and_then(|it| it.waiting_since).map(|since| frame.when(since)),
            paused: pause.map(|pause| (frame.when(pause.until), pause.reason)),
        }
    }
}

/// Subscriptions, newest first.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let before = cursor(&mut query)?;
    query.finish("cursor")?;
    let found = app.webhooks.parts.subscriptions.list(LIMIT, before).await?;
    let ids: Vec<i64> = found.items.iter().map(|it| it.id).collect();
    let conditions = app.webhooks.parts.deliveries.conditions(&ids).await?;
    let mut pauses = app.webhooks.parts.pauses.of_subscriptions(&ids).await?;
    let oldest_due = delivery_age(&app).await?;
    let frame = Frame::new(&app, visitor, Section::Webhooks, "Webhooks").live("/live");
    let row = |subscription: &Subscription| Row {
        id: subscription.id,
        place: subscription_place(subscription.id),
        url: frame.visitor.shown_url(&subscription.terms.url),
        types: subscription.terms.event_types.join(", "),
        health: Health::of(
            &frame,
            subscription,
            conditions.iter().find(|it| it.subscription_id == subscription.id),
            pauses.remove(&subscription.id),
        ),
    };
    Ok(page(&List {
        rows: found.items.iter().map(row).collect(),
        next: found.next.map(|next| address("/webhooks", &[("cursor", Some(&next.to_string()))])),
        oldest_due: oldest_due.map(|age| span(i64::try_from(age.as_secs()).unwrap_or(i64::MAX))),
        is_sending: app.webhooks.sending.is_some(),
        frame,
    }))
}
