//! `backstitch outbox`

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Failure, fresh_key, json_in, under_key};
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session};

const PATH: &str = "/v1/outbox";
/// How long is asked again where an answer is lost.
const PATIENCE: Duration = Duration::from_secs(60);

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
pub(crate) struct Args {
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
    /// Publish a message: it is sent at least once, to where the configuration says.
    #[command(
        after_help = "Examples:\n  backstitch outbox publish shipments --key shipment-17 --payload shipment.json\n  \
        echo '{\"parcel\":17}' | backstitch outbox publish shipments --payload -"
    )]
    Publish(Publish),
    /// Send an aborted message again, as a new one; asking twice gives the same one.
    #[command(after_help = "Example:\n  backstitch outbox retry 17")]
    Retry {
        /// Its number.
        id: i64,
    },
}

#[derive(Debug, clap::Args)]
struct Publish {
    /// Where it goes is configuration.
    topic: String,
    /// The idempotency key: the same key and payload again are the same message. One is made unless given.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Messages of the topic with the same one arrive in order.
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// Given up if it is not sent by then, as in 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// What it says: a file of JSON; `-` is standard input. `null` unless given.
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
}

#[derive(Serialize)]
struct Request<'a> {
    topic: &'a str,
    idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<&'a str>,
    payload: Option<&'a RawValue>,
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

/// Lists, shows, publishes or retries messages.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List(args.list)) {
        Action::List(List { status, topic, paging }) => {
            let mut query = Vec::new();
            query.extend(status.map(|status| ("status", status)));
            query.extend(topic.map(|topic| ("topic", topic)));
            let nothing = "no messages";
            list(session, Listing { path: PATH, query, columns: &COLUMNS, nothing }, paging).await
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("{PATH}/{id}"))).await?;
            session.show(&answer, &format!("Message {id}"), &LINES)
        }
        Action::Publish(new) => publish(session, new).await,
        Action::Retry { id } => {
            let answer = session.ask(Ask::post(format!("{PATH}/{id}/retry"))).await?;
            let new = plain(&answer.value["id"]);
            session.done(&answer, &format!("message {id} is sent again as message {new}"))
        }
    }
}

async fn publish(session: &Session, new: Publish) -> Result<(), Failure> {
    let payload = new.payload.as_deref().map(json_in).transpose()?;
    let key = new.key.map_or_else(|| fresh_key("message"), Ok)?;
    let request = Request {
        topic: &new.topic,
        idempotency_key: &key,
        ordering_key: new.ordering_key.as_deref(),
        expires_at: new.expires_at.as_deref(),
        payload: payload.as_deref(),
    };
    let ask = Ask::post(PATH).body("application/json", serde_json::to_vec(&request)?);
    let answer = session.ask_until_answered(ask, PATIENCE).await;
    let answer = answer.map_err(|error| under_key(error, &key))?;
    let of = |member: &str| plain(&answer.value[member]);
    session.done(&answer, &format!("message {} for {} is {}", of("id"), of("topic"), of("status")))
}
