//! `backstitch start`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use backstitch::Timestamp;
use hyper::header::HeaderName;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Attribute, Failure, fresh_key, under_key};
use crate::cli::follow::{Patience, follow};
use crate::cli::text::shown;
use crate::cli::{Ask, Session, unknown_definition};
use backstitch_api::time::{Time, rfc3339};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The saga to start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch start order --input order.json --follow\n  \
    echo '{\"name\":\"ada\"}' | backstitch start greet --input - --key greeting-17\n  \
    backstitch start order --input order.json --deadline 10m --attr tenant=acme --json\n\n\
    Nothing is started twice: without --key the command makes an idempotency key of its own, and asks again under it\n\
    when an answer is lost. With --follow the exit code is 0 if the saga succeeded, and 1 if it was rolled back.")]
pub(crate) struct Args {
    /// Name of the definition.
    definition: String,
    /// Input: a JSON file; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Idempotency key: the same key and input return the same saga.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Attribute for searching; repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    attr: Vec<Attribute>,
    /// Deadline, after which the saga is rolled back: a time such as 2030-01-31T12:00:00Z, or a duration such as 10m.
    #[arg(long, value_name = "TIME")]
    deadline: Option<Deadline>,
    /// Show its events until its end.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    patience: Patience,
}

/// A deadline.
#[derive(Clone, Copy, Debug)]
enum Deadline {
    At(Timestamp),
    In(Duration),
}

impl FromStr for Deadline {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        if let Ok(Time(at)) = written.parse() {
            return Ok(Self::At(at));
        }
        backstitch::kernel::parse_duration(written)
            .map(Self::In)
            .map_err(|_| "write a time, like 2030-01-31T12:00:00Z, or in how long, like 10m".to_owned())
    }
}

impl Deadline {
    fn after(self, now: Timestamp) -> Time {
        rfc3339(match self {
            Self::At(at) => at,
            Self::In(time) => now.plus(time),
        })
    }
}

#[derive(Serialize)]
struct Request<'a> {
    definition: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
}

/// Starts a saga.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let input = args.input.as_deref().map(super::json_in).transpose()?;
    let request = Request {
        definition: &args.definition,
        input: input.as_deref(),
        correlation_id: args.correlation_id.as_deref(),
        deadline: args.deadline.map(|deadline| deadline.after(session.now())),
        attributes: args.attr.into_iter().map(|Attribute(name, value)| (name, value)).collect(),
    };
    let key = args.key.map_or_else(|| fresh_key("start"), Ok)?;
    let ask = Ask::post("/v1/sagas")
        .body("application/json", serde_json::to_vec(&request)?)
        .header(IDEMPOTENCY_KEY, key.clone());
    let answer = match session.ask_until_answered(ask, args.patience.patience).await {
        Ok(answer) => answer,
        Err(error) => {
            return Err(unknown_definition(session, &args.definition, under_key(error, &key)).await);
        }
    };
    let Some(id) = answer.value["id"].as_str() else {
        return Err(session.client.stranger("it started something without an id").into());
    };
    let definition = shown(&super::versioned(&answer.value, "definition", "version"));
    let saga = format!("{} ({definition})", shown(id));
    session.done(&answer, &format!("started saga {saga}"))?;
    if args.follow {
        return follow(session, id, 0, args.patience.patience).await;
    }
    Ok(())
}
