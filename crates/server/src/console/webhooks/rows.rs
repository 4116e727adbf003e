//! Deliveries as they stand in a list.

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch_modules::webhooks::Saga;

use crate::app::App;
use crate::console::page::Frame;
use crate::console::parts::{Id, State, When};
use crate::problem::Problem;

/// A list of deliveries.
#[derive(Template)]
#[template(path = "webhooks/rows.html")]
pub(super) struct Rows {
    rows: Vec<Row>,
}

impl HtmlSafe for Rows {}

struct Row {
    id: i64,
    state: State,
    subscription: i64,
    event: i64,
    attempts: u32,
    error: Option<String>,
    created: When,
    next: Option<When>,
    /// Until when it waits for a paused subscription, and why that is paused.
    paused: Option<(When, String)>,
}

impl Rows {
    pub(super) async fn of(app: &App, frame: &Frame, deliveries: Vec<Saga>) -> Result<Self, Problem> {
        let ids: Vec<i64> = deliveries.iter().map(|it| it.id).collect();
        let mut pauses = app.webhooks.parts.pauses.of_deliveries(&ids).await?;
        let row = |it: Saga| Row {
            id: it.id,
            state: State::of_delivery(it.status),
            subscription: it.subscription_id,
            event: it.event_id,
            attempts: it.attempt_count,
            error: it.final_error_code,
            created: frame.when(it.created_at),
            next: (!it.status.is_terminal()).then(|| frame.when(it.next_attempt_at)),
            paused: pauses.remove(&it.id).map(|pause| (frame.when(pause.until), pause.reason)),
        };
        Ok(Self { rows: deliveries.into_iter().map(row).collect() })
    }
}
