//! Deliveries as they stand in a list.

use askama::Template;
use askama::filters::HtmlSafe;
use backstitch_modules::webhooks::Saga;

use crate::console::page::Frame;
use crate::console::parts::{Id, State, When};

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
}

impl Rows {
    pub(super) fn of(frame: &Frame, deliveries: Vec<Saga>) -> Self {
        let row = |it: Saga| Row {
            id: it.id,
            state: State::of_delivery(it.status),
            subscription: it.subscription_id,
            event: it.event_id,
            attempts: it.attempt_count,
            error: it.final_error_code,
            created: frame.when(it.created_at),
            next: (!it.status.is_terminal()).then(|| frame.when(it.next_attempt_at)),
        };
        Self { rows: deliveries.into_iter().map(row).collect() }
    }
}
