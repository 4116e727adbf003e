//! `backstitch webhooks subscriptions` and `backstitch webhooks replay`

use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{ApiResponse, Ask, Session};
use crate::commands::{Attribute, Failure, fresh_key};

const PATH: &str = "/v1/webhooks/subscriptions";

const COLUMNS: [Column; 7] = [
    Column::id("ID", "id"),
    Column::made("STATUS", |one| {
        crate::cli::status::worded(match (&one["enabled"], &one["paused_until"]) {
            (Value::Bool(false), _) => "disabled",
            (_, Value::String(_)) => "paused",
            _ => "enabled",
        })
    }),
    Column::text("URL", "url"),
    Column::text("EVENTS", "event_types"),
    Column::text("WHY DISABLED", "disabled_reason"),
    Column::time("PAUSED UNTIL", "paused_until"),
    Column::text("WHY PAUSED", "paused_reason"),
];

const LINES: [Column; 19] = [
    Column::text("url", "url"),
    Column::text("events", "event_types"),
    Column::text("enabled", "enabled"),
    Column::time("disabled", "disabled_at"),
    Column::text("why disabled", "disabled_reason"),
    Column::time("paused until", "paused_until"),
    Column::text("why paused", "paused_reason"),
    Column::text("headers", "headers"),
    Column::text("attempts in all", "max_retry_limit"),
    Column::text("base delay", "base_delay"),
    Column::text("longest delay", "max_delay"),
    Column::text("by default", "defaults"),
    Column::text("timeout", "timeout"),
    Column::text("requests at once", "max_concurrency"),
    Column::text("requests a second", "rate_limit"),
    Column::time("old secret until", "previous_secret_until"),
    Column::time("created", "created_at"),
    Column::time("updated", "updated_at"),
    Column::text("secret", "secret"),
];

const TRIED: [Column; 7] = [
    Column::text("arrived", "arrived"),
    Column::text("response code", "response_code"),
    Column::text("answer", "body"),
    Column::text("milliseconds", "duration_ms"),
    Column::text("error code", "error_code"),
    Column::text("error", "error"),
    Column::id("webhook id", "webhook_id"),
];

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// List subscriptions, newest first.
    #[command(after_help = "Example:\n  backstitch webhooks subscriptions list --all")]
    List(Paging),
    /// Show a subscription.
    #[command(after_help = "Example:\n  backstitch webhooks subscriptions show 3")]
    Show {
        /// Number of the subscription.
        id: i64,
    },
    /// Create a subscription and show its signing secret once.
    #[command(
        after_help = "Example:\n  backstitch webhooks subscriptions create --url https://shop.example/hooks \
        --events 'order.*' --events site.live"
    )]
    Create(Create),
    /// Change a subscription; other fields stay.
    #[command(after_help = "Examples:\n  backstitch webhooks subscriptions update 3 --disable\n  \
        backstitch webhooks subscriptions update 3 --rate-limit 50 --timeout 5s")]
    Update(Update),
    /// Delete a subscription; its unfinished deliveries become dead letters.
    #[command(after_help = "Example:\n  backstitch webhooks subscriptions delete 3")]
    Delete {
        /// Number of the subscription.
        id: i64,
    },
    /// Rotate the signing secret and show the new one once.
    #[command(after_help = "Example:\n  backstitch webhooks subscriptions rotate-secret 3 --overlap 1h")]
    RotateSecret {
        /// Number of the subscription.
        id: i64,
        /// How long the previous secret stays valid; by default 24h.
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
        /// Rotate although the previous secret is still valid; it becomes invalid.
        #[arg(long)]
        replace: bool,
    },
    /// Send a test webhook now and show the result.
    #[command(after_help = "Example:\n  backstitch webhooks subscriptions test 3 --type order.created")]
    Test {
        /// Number of the subscription.
        id: i64,
        /// Event type of the test.
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
    },
}

/// A new subscription: fields have the names of the API.
#[derive(Debug, clap::Args, Serialize)]
pub(super) struct Create {
    /// Address of the receiver.
    #[arg(long)]
    url: String,
    /// Event type, `order.*` or `*`; repeatable.
    #[arg(long = "events", value_name = "TYPE", required = true)]
    event_types: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    terms: Terms,
}

#[derive(Debug, clap::Args, Serialize)]
pub(super) struct Update {
    /// Number of the subscription.
    #[serde(skip)]
    id: i64,
    /// Address of the receiver.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// All event types from now on: a type, `order.*` or `*`; repeatable.
    #[arg(long = "events", value_name = "TYPE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_types: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    switch: Switch,
    #[command(flatten)]
    #[serde(flatten)]
    terms: Terms,
}

/// Whether deliveries are sent.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
#[serde(into = "Enabled")]
struct Switch {
    /// Enable sending.
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Disable sending; deliveries wait.
    #[arg(long)]
    disable: bool,
}

#[derive(Serialize)]
struct Enabled {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

impl From<Switch> for Enabled {
    fn from(Switch { enable, disable }: Switch) -> Self {
        Self { enabled: (enable || disable).then_some(enable) }
    }
}

#[derive(Debug, clap::Args, Serialize)]
struct Terms {
    /// Additional header; repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_name")]
    headers: Vec<Attribute>,
    /// Total attempts of a delivery; `default` follows the server's setting.
    #[arg(long = "attempts", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retry_limit: Option<OrDefault<u32>>,
    /// Wait after the first failure, such as 5s; `default` follows the server's setting.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    base_delay: Option<OrDefault<String>>,
    /// Longest wait, such as 1h; `default` follows the server's setting.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_delay: Option<OrDefault<String>>,
    /// Time limit of an attempt, such as 15s.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    /// Concurrent requests.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrency: Option<u32>,
    /// Requests per second.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<u32>,
}

fn by_name<S: Serializer>(headers: &[Attribute], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|Attribute(name, value)| (name, value)))
}

/// A value, or `default` for the server's setting.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
struct OrDefault<T>(Option<T>);

impl<T: FromStr> FromStr for OrDefault<T> {
    type Err = T::Err;

    fn from_str(written: &str) -> Result<Self, T::Err> {
        if written == "default" { Ok(Self(None)) } else { written.parse().map(|own| Self(Some(own))) }
    }
}

/// Events to send again.
#[derive(Debug, clap::Args)]
pub(super) struct Replay {
    /// Number of the subscription.
    id: i64,
    /// Events at this time or later, such as 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: String,
    /// Events before this time.
    #[arg(long, value_name = "TIME")]
    until: String,
    /// Name of the replay; generated by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

fn body(request: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(request).map_err(|why| format!("the request cannot be written: {why}").into())
}

pub(super) async fn run(action: Action, session: &Session) -> Result<(), Failure> {
    match action {
        Action::List(paging) => {
            let nothing = "no subscriptions: `backstitch webhooks subscriptions create`";
            list(session, Listing { path: PATH, query: Vec::new(), columns: &COLUMNS, nothing }, paging).await
        }
        Action::Show { id } => show(session, &session.ask(Ask::get(format!("{PATH}/{id}"))).await?),
        Action::Create(create) => {
            show_with_secret(session, &session.ask(Ask::post(PATH).json(&body(&create)?)).await?)
        }
        Action::Update(update) => {
            let ask = Ask::patch(format!("{PATH}/{}", update.id)).json(&body(&update)?);
            show(session, &session.ask(ask).await?)
        }
        Action::Delete { id } => {
            let answer = session.ask(Ask::delete(format!("{PATH}/{id}"))).await?;
            session.done(&answer, &format!("subscription {id} is gone"))
        }
        Action::RotateSecret { id, overlap, replace } => {
            let mut body = json!({ "replace": replace });
            if let Some(overlap) = overlap {
                body["overlap"] = overlap.into();
            }
            let ask = Ask::post(format!("{PATH}/{id}/rotate-secret")).json(&body);
            show_with_secret(session, &session.ask(ask).await?)
        }
        Action::Test { id, kind } => {
            let body = kind.map_or_else(|| json!({}), |kind| json!({ "type": kind }));
            let answer = session.ask(Ask::post(format!("{PATH}/{id}/test")).json(&body)).await?;
            session.show(&answer, &format!("Test of subscription {id}"), &TRIED)?;
            let arrived = answer.value["arrived"] == true;
            if arrived { Ok(()) } else { Err("the webhook has not arrived".into()) }
        }
    }
}

fn show(session: &Session, answer: &ApiResponse) -> Result<(), Failure> {
    session.show(answer, &format!("Subscription {}", plain(&answer.value["id"])), &LINES)
}

fn show_with_secret(session: &Session, answer: &ApiResponse) -> Result<(), Failure> {
    show(session, answer)?;
    session.output.aside("the secret is shown only once: give it to the receiver");
    Ok(())
}

/// Replays page by page until all events of the range were processed.
pub(super) async fn replay(replay: Replay, session: &Session) -> Result<(), Failure> {
    let name = replay.name.map_or_else(|| fresh_key("replay"), Ok)?;
    let mut body = json!({ "since": replay.since, "until": replay.until, "replay_id": name });
    let mut deliveries = 0;
    loop {
        let answer = session.ask(Ask::post(format!("{PATH}/{}/replay", replay.id)).json(&body)).await?;
        deliveries += answer.value["deliveries"].as_u64().unwrap_or(0);
        if session.output.json {
            session.output.json(&answer.text)?;
        }
        match &answer.value["next_cursor"] {
            Value::Null => break,
            next => body["cursor"] = next.clone(),
        }
    }
    let events = if deliveries == 1 { "event is" } else { "events are" };
    Ok(session.output.line(&format!("{deliveries} {events} sent again as replay {name}"))?)
}

#[cfg(test)]
mod tests {
    use backstitch_modules::webhooks::SubscriptionInput;
    use clap::Args as _;

    use super::*;

    /// What the API takes and the flags do not.
    const NO_FLAG: [&str; 1] = ["secret"];

    #[test]
    fn every_field_of_a_subscription_has_a_flag() {
        let flags = Update::augment_args(clap::Command::new("update"));
        let flags: Vec<&str> = flags.get_arguments().map(|flag| flag.get_id().as_str()).collect();
        let named = |field: &str| flags.contains(&field) || field == "enabled" && flags.contains(&"enable");
        let missing =
            SubscriptionInput::FIELDS.iter().filter(|field| !named(field) && !NO_FLAG.contains(field));
        assert_eq!(missing.copied().collect::<Vec<_>>(), [""; 0]);
    }
}
