//! `backstitch ps`

use super::{Attribute, Failure};
use crate::cli::Session;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::Column;

pub(super) const COLUMNS: [Column; 9] = [
    Column::id("ID", "id"),
    Column::status("STATUS", "status"),
    Column::made("DEFINITION", |saga| super::versioned(saga, "definition", "version")),
    Column::made("PAUSED", |saga| if saga["paused"] == true { "yes".to_owned() } else { String::new() }),
    Column::time("UPDATED", "updated_at"),
    Column::text("FAILED STEP", "failed_step"),
    Column::text("STUCK STEP", "stuck_step"),
    Column::text("STUCK BECAUSE", "stuck_error"),
    Column::text("CORRELATION", "correlation_id"),
];

/// Filters of the list.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  backstitch ps\n  backstitch ps --status failed --definition order --attr tenant=acme\n  \
    backstitch ps --all --json"
)]
pub(crate) struct Args {
    /// With this status: pending, running, succeeded, failed, compensating or compensated.
    #[arg(long)]
    status: Option<String>,
    /// Of this definition.
    #[arg(long, value_name = "NAME")]
    definition: Option<String>,
    /// With this correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Failed, with a stuck compensation of this step.
    #[arg(long, value_name = "STEP")]
    stuck_step: Option<String>,
    /// With this attribute; repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    attr: Vec<Attribute>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists sagas, newest first.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let attributes: Vec<(String, String)> =
        args.attr.into_iter().map(|Attribute(name, value)| (format!("attr.{name}"), value)).collect();
    let mut query = Vec::new();
    query.extend(args.status.map(|status| ("status", status)));
    query.extend(args.definition.map(|name| ("definition", name)));
    query.extend(args.correlation_id.map(|id| ("correlation_id", id)));
    query.extend(args.stuck_step.map(|step| ("stuck_step", step)));
    query.extend(attributes.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let listing = Listing {
        path: "/v1/sagas",
        query,
        columns: &COLUMNS,
        nothing: "no sagas: `backstitch start DEFINITION` starts one",
    };
    list(session, listing, args.paging).await
}
