//! Webhooks: who wants to hear of which events, the events, what became of their deliveries, and what was given up.

pub(super) mod change;
pub(super) mod dead_letters;
pub(super) mod deliveries;
pub(super) mod events;
mod page;
mod problems;
pub(super) mod replay;
pub(super) mod requeue;
pub(super) mod rotate;
pub(super) mod subscribe;
pub(super) mod subscriptions;
pub(super) mod try_out;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::webhooks::Sending;

/// What knows signing secrets, where there is something to keep them with.
fn sending(app: &App) -> Result<&Sending, Problem> {
    app.webhooks.sending.as_ref().ok_or_else(|| {
        Problem::new(
            Kind::WebhooksNotConfigured,
            "the server has no `secret`, and signing secrets are encrypted with it: set `secret` or BACKSTITCH_SECRET on \
             every node, and restart",
        )
    })
}
