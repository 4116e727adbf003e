//! `backstitch audit`

use super::Failure;
use crate::cli::Session;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::Column;

const COLUMNS: [Column; 8] = [
    Column::id("ID", "id"),
    Column::time("WHEN", "at"),
    Column::made("WHO", |entry| {
        let role = entry["role"].as_str().unwrap_or_default();
        entry["key"].as_str().map_or_else(|| role.to_owned(), |key| format!("{key} ({role})"))
    }),
    Column::text("METHOD", "method"),
    Column::text("PATH", "path"),
    Column::made("ANSWER", |entry| {
        entry["status"].as_i64().map_or_else(|| "?".to_owned(), |it| it.to_string())
    }),
    Column::text("WHAT", "what"),
    Column::text("FROM", "peer"),
];

/// Filters of the audit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  backstitch audit --limit 20")]
pub(crate) struct Args {
    #[command(flatten)]
    paging: Paging,
}

/// Lists requested changes, newest first.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let nothing = "no changes yet";
    let listing = Listing { path: "/v1/audit", query: Vec::new(), columns: &COLUMNS, nothing };
    list(session, listing, args.paging).await
}
