//! `backstitch parked`

use serde_json::json;

use super::Failure;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session, segment};

const PATH: &str = "/v1/parked";

const COLUMNS: [Column; 5] = [
    Column::id("ID", "id"),
    Column::text("ATTEMPTS", "attempts"),
    Column::time("PARKED", "parked_at"),
    Column::time("NEXT TRY", "retry_at"),
    Column::text("REASON", "reason"),
];

/// Items that the database rejected.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  backstitch parked --area outbox\n  backstitch parked retry outbox:17\n  \
    backstitch parked remove-conflict webhook_results:17"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List items that the database rejected, by area and item.
    #[command(after_help = "Example:\n  backstitch parked list --reason 'duplicate key'")]
    List(List),
    /// Retry one item now, or all of an area, with a reason, or all. An item that is rejected again is listed again.
    #[command(
        after_help = "Examples:\n  backstitch parked retry outbox:17\n  backstitch parked retry --area outbox\n  \
        backstitch parked retry --reason 'duplicate key'\n  backstitch parked retry --all"
    )]
    Retry {
        /// Id of the item, as in the list.
        #[arg(required_unless_present_any = ["area", "reason", "all"])]
        id: Option<String>,
        /// All of this area.
        #[arg(long, conflicts_with_all = ["id", "all"])]
        area: Option<String>,
        /// All whose reason contains this text.
        #[arg(long, conflicts_with_all = ["id", "all"])]
        reason: Option<String>,
        /// All items.
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
    /// Remove the dead letter that conflicts with a webhook's result or delivery, then retry the item. Only a dead
    /// letter that another program inserted is removed; the audit keeps it.
    #[command(after_help = "Example:\n  backstitch parked remove-conflict webhook_results:17")]
    RemoveConflict {
        /// Id of the item, as in the list.
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct List {
    /// Of this area, such as `outbox` or `webhook_results`.
    #[arg(long)]
    area: Option<String>,
    /// With this number or name in its area.
    #[arg(long)]
    item: Option<String>,
    /// Whose reason contains this text.
    #[arg(long)]
    reason: Option<String>,
    /// Rejected at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// With the next retry before this time.
    #[arg(long, value_name = "TIME")]
    retry_before: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists parked items, or retries them.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List(args.list)) {
        Action::List(List { area, item, reason, since, retry_before, paging }) => {
            let filters = [
                ("area", area),
                ("item", item),
                ("reason", reason),
                ("since", since),
                ("retry_before", retry_before),
            ];
            let query = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let nothing = "nothing is parked";
            list(session, Listing { path: PATH, query, columns: &COLUMNS, nothing }, paging).await
        }
        Action::Retry { id: Some(id), .. } => {
            let answer = session.ask(Ask::post(format!("{PATH}/{}/retry", segment(&id)))).await?;
            session.done(
                &answer,
                &format!("{id} is tried again now; it is listed again if it is rejected again"),
            )
        }
        Action::Retry { id: None, area, reason, .. } => {
            let ask = Ask::post(format!("{PATH}/retry")).json(&json!({ "area": area, "reason": reason }));
            let answer = session.ask(ask).await?;
            session.done(
                &answer,
                &format!("{} parked items are tried again now", plain(&answer.value["retried"])),
            )
        }
        Action::RemoveConflict { id } => {
            let answer = session.ask(Ask::post(format!("{PATH}/{}/remove-conflict", segment(&id)))).await?;
            let delivery = plain(&answer.value["row"]["saga_id"]);
            let next = if answer.value["retried"] == true {
                format!("{id} is tried again now")
            } else {
                format!("{id} could not be retried: run `backstitch parked retry {id}`")
            };
            let done = format!("dead letter of delivery {delivery} is removed; {next}");
            session.done(&answer, &done)
        }
    }
}
