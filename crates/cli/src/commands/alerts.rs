//! `backstitch alerts`

use serde_json::json;

use super::Failure;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::Column;
use crate::cli::{Ask, Session};

const PATH: &str = "/v1/admin/alerts";

const COLUMNS: [Column; 8] = [
    Column::id("ID", "id"),
    Column::id("SAGA", "tx_id"),
    Column::text("KIND", "kind"),
    Column::text("SERVICE", "service"),
    Column::time("OCCURRED", "occurred_at"),
    Column::made("TOLD", |alert| {
        alert["channel"].as_str().map_or_else(|| "not yet".to_owned(), |channel| format!("by {channel}"))
    }),
    Column::made("SEEN BY", |alert| {
        alert["acknowledged"]["by"].as_str().map_or_else(|| "not yet".to_owned(), str::to_owned)
    }),
    Column::text("ERROR", "error"),
];

/// List alerts and their notifications.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  backstitch alerts --limit 10\n  backstitch alerts acknowledge 17 --note 'I call the bank'"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List alerts, newest first.
    #[command(after_help = "Example:\n  backstitch alerts list --limit 10")]
    List(Paging),
    /// Acknowledge an alert. Idempotent: the first acknowledgement wins.
    #[command(after_help = "Example:\n  backstitch alerts acknowledge 17 --note 'I call the bank'")]
    Acknowledge {
        /// Number of the alert.
        id: i64,
        /// Note.
        #[arg(long, default_value = "")]
        note: String,
    },
}

/// Lists alerts, or acknowledges one.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List(args.paging)) {
        Action::List(paging) => {
            let nothing = "no alerts: nothing has needed a person";
            list(session, Listing { path: PATH, query: Vec::new(), columns: &COLUMNS, nothing }, paging).await
        }
        Action::Acknowledge { id, note } => {
            let ask = Ask::post(format!("{PATH}/{id}/acknowledge")).json(&json!({ "note": note }));
            let answer = session.ask(ask).await?;
            session.done(&answer, &format!("alert {id} is acknowledged"))
        }
    }
}
