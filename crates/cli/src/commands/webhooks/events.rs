//! `backstitch webhooks events`

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session};
use crate::commands::{Failure, fresh_key, json_in};

const PATH: &str = "/v1/webhooks/events";
/// How long is asked again where an answer is lost.
const PATIENCE: Duration = Duration::from_secs(60);

const LINES: [Column; 5] = [
    Column::id("id", "id"),
    Column::text("type", "type"),
    Column::id("webhook id", "webhook_id"),
    Column::time("created", "created_at"),
    Column::text("payload", "payload"),
];

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Tell everybody who wants to hear of it. Asking again under the same id tells nobody twice.
    #[command(
        after_help = "Example:\n  backstitch webhooks events send order.created --payload order.json --id order-17-created"
    )]
    Send {
        /// What kind of thing happened.
        #[arg(value_name = "TYPE")]
        kind: String,
        /// What there is to say about it: a file of JSON; `-` is standard input. `null` unless given.
        #[arg(long, value_name = "FILE")]
        payload: Option<PathBuf>,
        /// Your own id for it; one is made unless given.
        #[arg(long)]
        id: Option<String>,
    },
    /// Show an event.
    #[command(after_help = "Example:\n  backstitch webhooks events show 17")]
    Show {
        /// Its number.
        id: i64,
    },
}

#[derive(Serialize)]
struct Request<'a> {
    r#type: &'a str,
    payload: Option<&'a RawValue>,
    id: &'a str,
}

pub(super) async fn run(action: Action, session: &Session) -> Result<(), Failure> {
    match action {
        Action::Send { kind, payload, id } => {
            let payload = payload.as_deref().map(json_in).transpose()?;
            let id = id.map_or_else(|| fresh_key("event"), Ok)?;
            let request = Request { r#type: &kind, payload: payload.as_deref(), id: &id };
            let ask = Ask::post(PATH).body("application/json", serde_json::to_vec(&request)?);
            let answer = session.ask_until_answered(ask, PATIENCE).await?;
            let (event, deliveries) = (plain(&answer.value["event_id"]), plain(&answer.value["deliveries"]));
            let subscriptions = if deliveries == "1" { "subscription" } else { "subscriptions" };
            session.done(&answer, &format!("event {event} goes to {deliveries} {subscriptions}"))
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("{PATH}/{id}"))).await?;
            session.show(&answer, &format!("Event {id}"), &LINES)
        }
    }
}
