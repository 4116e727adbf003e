//! `backstitch outbox`

use super::Failure;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session};

const COLUMNS: [Column; 7] = [
    Column::id("ID", "id"),
    Column::status("STATUS", "status"),
    Column::text("TOPIC", "topic"),
    Column::text("ATTEMPTS", "attempts"),
    Column::time("NEXT", "next_attempt_at"),
    Column::time("UPDATED", "updated_at"),
    Column::text("ERROR", "last_error_msg"),
];

const LINES: [Column; 15] = [
    Column::status("status", "status"),
    Column::text("topic", "topic"),
    Column::text("idempotency key", "idempotency_key"),
    Column::text("ordering key", "ordering_key"),
    Column::text("attempts", "attempts"),
    Column::text("in doubt", "in_doubt"),
    Column::time("next attempt", "next_attempt_at"),
    Column::time("expires", "expires_at"),
    Column::text("error code", "last_error_code"),
    Column::text("error", "last_error_msg"),
    Column::text("retry of", "retry_of"),
    Column::time("created", "created_at"),
    Column::time("updated", "updated_at"),
    Column::text("payload", "payload"),
    Column::text("result", "result"),
];

/// Messages.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  backstitch outbox --status aborted --topic orders\n  backstitch outbox show 17\n  \
    backstitch outbox retry 17"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List messages, newest first.
    #[command(after_help = "Example:\n  backstitch outbox list --status aborted")]
    List(List),
    /// Show a message.
    #[command(after_help = "Example:\n  backstitch outbox show 17")]
    Show {
        /// Its number.
        id: i64,
    },
    /// Send an aborted message again, as a new one; asking twice gives the same one.
    #[command(after_help = "Example:\n  backstitch outbox retry 17")]
    Retry {
        /// Its number.
        id: i64,
    },
}

#[derive(Debug, clap::Args)]
struct List {
    /// In this status: pending, sending, failed, succeeded or aborted.
    #[arg(long)]
    status: Option<String>,
    /// Of this topic.
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists, shows or retries messages.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List(args.list)) {
        Action::List(List { status, topic, paging }) => {
            let mut query = Vec::new();
            query.extend(status.map(|status| ("status", status)));
            query.extend(topic.map(|topic| ("topic", topic)));
            let nothing = "no messages";
            list(session, Listing { path: "/v1/outbox", query, columns: &COLUMNS, nothing }, paging).await
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("/v1/outbox/{id}"))).await?;
            session.show(&answer, &format!("Message {id}"), &LINES)
        }
        Action::Retry { id } => {
            let answer = session.ask(Ask::post(format!("/v1/outbox/{id}/retry"))).await?;
            let new = plain(&answer.value["id"]);
            session.done(&answer, &format!("message {id} is sent again as message {new}"))
        }
    }
}
