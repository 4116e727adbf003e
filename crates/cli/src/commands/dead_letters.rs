//! `backstitch dead-letters`

use serde_json::{Map, Value};

use super::Failure;
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session};

const PATH: &str = "/v1/webhooks/dead-letters";

const COLUMNS: [Column; 7] = [
    Column::id("ID", "id"),
    Column::id("SUBSCRIPTION", "subscription_id"),
    Column::id("EVENT", "event_id"),
    Column::text("ERROR CODE", "final_error_code"),
    Column::text("ATTEMPTS", "attempt_count"),
    Column::time("GIVEN UP", "created_at"),
    Column::text("REQUEUED AS", "requeued_as"),
];

const LINES: [Column; 7] = [
    Column::id("subscription", "subscription_id"),
    Column::id("event", "event_id"),
    Column::text("error code", "final_error_code"),
    Column::text("attempts", "attempt_count"),
    Column::id("webhook id", "webhook_id"),
    Column::time("given up", "created_at"),
    Column::id("requeued as", "requeued_as"),
];

/// Dead letters of webhooks.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  backstitch dead-letters --not-requeued\n  backstitch dead-letters requeue 17\n  \
    backstitch dead-letters requeue --subscription 3 --error-code timeout"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List dead letters, newest first.
    #[command(
        after_help = "Example:\n  backstitch dead-letters list --error-code timeout --since 2030-01-31T00:00:00Z"
    )]
    List(List),
    /// Show a dead letter.
    #[command(after_help = "Example:\n  backstitch dead-letters show 17")]
    Show {
        /// Number of the dead letter.
        id: i64,
    },
    /// Requeue dead letters: one by its number, or all that match. Idempotent.
    #[command(after_help = "Examples:\n  backstitch dead-letters requeue 17\n  \
        backstitch dead-letters requeue --subscription 3 --error-code timeout\n  backstitch dead-letters requeue --all")]
    Requeue(Requeue),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    which: Which,
    /// Only those that have not been requeued.
    #[arg(long)]
    not_requeued: bool,
    #[command(flatten)]
    paging: Paging,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Of this subscription.
    #[arg(long, value_name = "ID")]
    subscription: Option<i64>,
    /// Of this event.
    #[arg(long, value_name = "ID")]
    event: Option<i64>,
    /// With this final error code.
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Dead-lettered at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Dead-lettered before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true, args = ["id", "all", "subscription", "event", "error_code", "since", "until"])]
struct Requeue {
    /// Number of one dead letter.
    #[arg(conflicts_with_all = ["Which", "all"])]
    id: Option<i64>,
    #[command(flatten)]
    which: Which,
    /// All dead letters.
    #[arg(long)]
    all: bool,
}

impl Which {
    /// The filters by their API names.
    fn named(self) -> Vec<(&'static str, Value)> {
        let Self { subscription, event, error_code, since, until } = self;
        let all = [
            ("subscription_id", subscription.map(Value::from)),
            ("event_id", event.map(Value::from)),
            ("final_error_code", error_code.map(Value::from)),
            ("since", since.map(Value::from)),
            ("until", until.map(Value::from)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Lists, shows or requeues dead letters.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List(args.list)) {
        Action::List(List { which, not_requeued, paging }) => {
            let as_text = |(name, value): (&'static str, Value)| (name, plain(&value));
            let mut query: Vec<_> = which.named().into_iter().map(as_text).collect();
            query.extend(not_requeued.then(|| ("requeued", "false".to_owned())));
            let nothing = "no dead letters";
            list(session, Listing { path: PATH, query, columns: &COLUMNS, nothing }, paging).await
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("{PATH}/{id}"))).await?;
            session.show(&answer, &format!("Dead letter {id}"), &LINES)
        }
        Action::Requeue(Requeue { id: Some(id), .. }) => {
            let answer = session.ask(Ask::post(format!("{PATH}/{id}/requeue"))).await?;
            let new = plain(&answer.value["id"]);
            session.done(&answer, &format!("dead letter {id} is requeued as delivery {new}"))
        }
        Action::Requeue(Requeue { id: None, which, all }) => requeue(session, which, all).await,
    }
}

/// Requeues page by page until all matches were processed.
async fn requeue(session: &Session, which: Which, all: bool) -> Result<(), Failure> {
    let mut body: Map<String, Value> =
        which.named().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if all {
        body.insert("all".to_owned(), true.into());
    }
    let mut requeued = 0;
    loop {
        let ask = Ask::post(format!("{PATH}/requeue")).json(&Value::Object(body.clone()));
        let answer = session.ask(ask).await?;
        requeued += answer.value["requeued"].as_u64().unwrap_or(0);
        if session.output.json {
            session.output.json(&answer.text)?;
        }
        match &answer.value["next_cursor"] {
            Value::Null => break,
            next => body.insert("cursor".to_owned(), next.clone()),
        };
    }
    let letters = if requeued == 1 { "dead letter is" } else { "dead letters are" };
    Ok(session.output.line(&format!("{requeued} {letters} requeued"))?)
}
