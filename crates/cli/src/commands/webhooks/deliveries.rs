//! `backstitch webhooks deliveries`

use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::Column;
use crate::cli::{Ask, Session};
use crate::commands::Failure;

const PATH: &str = "/v1/webhooks/deliveries";

const COLUMNS: [Column; 8] = [
    Column::id("ID", "id"),
    Column::status("STATUS", "status"),
    Column::id("SUBSCRIPTION", "subscription_id"),
    Column::id("EVENT", "event_id"),
    Column::text("ATTEMPTS", "attempt_count"),
    Column::time("UPDATED", "updated_at"),
    Column::text("ERROR CODE", "final_error_code"),
    Column::time("PAUSED UNTIL", "paused_until"),
];

const LINES: [Column; 13] = [
    Column::status("status", "status"),
    Column::id("subscription", "subscription_id"),
    Column::id("event", "event_id"),
    Column::text("attempts", "attempt_count"),
    Column::time("next attempt", "next_attempt_at"),
    Column::text("error code", "final_error_code"),
    Column::time("paused until", "paused_until"),
    Column::text("why paused", "paused_reason"),
    Column::id("webhook id", "webhook_id"),
    Column::id("requeue of", "requeue_of"),
    Column::id("replay", "replay_id"),
    Column::time("created", "created_at"),
    Column::time("updated", "updated_at"),
];

const ATTEMPTS: [Column; 6] = [
    Column::id("NUMBER", "number"),
    Column::status("STATUS", "status"),
    Column::text("CODE", "response_code"),
    Column::text("MS", "duration_ms"),
    Column::text("ERROR", "error"),
    Column::text("ANSWER", "body"),
];

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// List deliveries, newest first.
    #[command(
        after_help = "Example:\n  backstitch webhooks deliveries list --status DeadLettered --subscription 3"
    )]
    List {
        /// With this status: Pending, `InProgress`, `PendingRetry`, Completed or `DeadLettered`.
        #[arg(long)]
        status: Option<String>,
        /// To this subscription.
        #[arg(long, value_name = "ID")]
        subscription: Option<i64>,
        /// Of this event.
        #[arg(long, value_name = "ID")]
        event: Option<i64>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a delivery and its attempts.
    #[command(after_help = "Example:\n  backstitch webhooks deliveries show 17")]
    Show {
        /// Number of the delivery.
        id: i64,
    },
}

pub(super) async fn run(action: Action, session: &Session) -> Result<(), Failure> {
    match action {
        Action::List { status, subscription, event, paging } => {
            let mut query = Vec::new();
            query.extend(status.map(|status| ("status", status)));
            query.extend(subscription.map(|id| ("subscription_id", id.to_string())));
            query.extend(event.map(|id| ("event_id", id.to_string())));
            let nothing = "no deliveries";
            list(session, Listing { path: PATH, query, columns: &COLUMNS, nothing }, paging).await
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("{PATH}/{id}"))).await?;
            session.show(&answer, &format!("Delivery {id}"), &LINES)?;
            session.show_part("Attempts", &answer.value["attempts"], &ATTEMPTS)
        }
    }
}
