//! `backstitch alerts`

use super::Failure;
use crate::cli::Session;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::Column;

const COLUMNS: [Column; 6] = [
    Column::id("SAGA", "tx_id"),
    Column::text("KIND", "kind"),
    Column::text("SERVICE", "service"),
    Column::time("OCCURRED", "occurred_at"),
    Column::made("TOLD", |alert| {
        alert["channel"].as_str().map_or_else(|| "nobody yet".to_owned(), |channel| format!("by {channel}"))
    }),
    Column::text("ERROR", "error"),
];

/// Which alerts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  backstitch alerts --limit 10")]
pub struct Args {
    #[command(flatten)]
    paging: Paging,
}

/// Lists what needed a person, newest first.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let nothing = "no alerts: nothing has needed a person";
    let listing = Listing { path: "/v1/admin/alerts", query: Vec::new(), columns: &COLUMNS, nothing };
    list(session, listing, args.paging).await
}
