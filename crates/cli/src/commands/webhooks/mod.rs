//! `backstitch webhooks`

mod deliveries;
mod events;
mod subscriptions;

use super::Failure;
use crate::cli::Session;

/// Webhooks: subscriptions, events, deliveries.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    backstitch webhooks subscriptions create --url https://shop.example/hooks --events 'order.*'\n  \
    backstitch webhooks events send order.created --payload order.json\n  \
    backstitch webhooks deliveries list --status DeadLettered")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Subscriptions.
    #[command(subcommand, visible_alias = "subs")]
    Subscriptions(subscriptions::Action),
    /// Events.
    #[command(subcommand)]
    Events(events::Action),
    /// Deliveries and their attempts.
    #[command(subcommand)]
    Deliveries(deliveries::Action),
    /// Send the events of a time range to a subscription again. Idempotent under the same name.
    #[command(after_help = "Example:\n  backstitch webhooks replay 3 --since 2030-01-31T12:00:00Z --until \
        2030-01-31T13:00:00Z --name after-the-outage")]
    Replay(subscriptions::Replay),
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action {
        Action::Subscriptions(action) => subscriptions::run(action, session).await,
        Action::Events(action) => events::run(action, session).await,
        Action::Deliveries(action) => deliveries::run(action, session).await,
        Action::Replay(replay) => subscriptions::replay(replay, session).await,
    }
}
