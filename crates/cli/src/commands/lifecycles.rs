//! `backstitch lifecycles`

use std::path::PathBuf;

use backstitch_modules::declaration::Kind;
use serde_json::{Map, Value, json};

use super::Failure;
use super::declared::{self, Document};
use crate::cli::listing::{self, Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{ApiResponse, Ask, Session, segment};
use backstitch_api::path::lifecycle_path;

const PATH: &str = "/v1/lifecycles";

const MACHINES: [Column; 4] = [
    Column::id("MACHINE", "name"),
    Column::text("ACTIVE", "active"),
    Column::text("STAGED", "staged"),
    Column::time("CHANGED", "changed_at"),
];

const MACHINE: [Column; 4] = [
    Column::text("active", "active"),
    Column::text("staged", "staged"),
    Column::time("changed", "changed_at"),
    Column::text("definition", "definition"),
];

const VERSIONS: [Column; 3] = [
    Column::id("VERSION", "version"),
    Column::time("CREATED", "created_at"),
    Column::text("ACTIVE", "in_flight"),
];

const COUNTS: [Column; 2] = [Column::id("STATE", "state"), Column::text("LIFECYCLES", "count")];

const LIFECYCLES: [Column; 6] = [
    Column::id("KEY", "key"),
    Column::made("STATE", standing),
    Column::text("ATTEMPT", "attempt"),
    Column::time("ENTERED", "entered_at"),
    Column::text("ERROR", "last_error"),
    Column::text("CORRELATION", "correlation_id"),
];

const LIFECYCLE: [Column; 15] = [
    Column::id("id", "id"),
    Column::made("state", standing),
    Column::text("version", "version"),
    Column::text("attempt", "attempt"),
    Column::text("may go to", "follows"),
    Column::text("start leads to", "re_entry"),
    Column::text("waits for worker of", "waits_for_worker"),
    Column::text("correlation id", "correlation_id"),
    Column::text("error kind", "error_kind"),
    Column::text("error", "last_error"),
    Column::time("created", "created_at"),
    Column::time("entered", "entered_at"),
    Column::time("stuck at", "stuck_at"),
    Column::time("pause expires", "pause_expires_at"),
    Column::text("input", "input"),
];

const DEAD_LETTERS: [Column; 5] = [
    Column::id("ID", "id"),
    Column::time("WHEN", "at"),
    Column::text("SOURCE", "source"),
    Column::text("REASON", "reason"),
    Column::made("REQUEST", |letter| {
        let body = letter["body"].as_str().or_else(|| letter["body_base64"].as_str());
        body.unwrap_or_default().to_owned()
    }),
];

const LOG: [Column; 5] = [
    Column::id("SEQ", "seq"),
    Column::time("WHEN", "at"),
    Column::text("EVENT", "type"),
    Column::text("STATE", "state"),
    Column::made("WHAT", |event| {
        let of = |member: &str| event[member].as_str().map(str::to_owned);
        let from = of("from").map(|from| format!("from {from}"));
        let retried = event["error"]["message"].as_str().map(str::to_owned);
        let until = of("until").map(|until| format!("times out at {until}"));
        let parts = [from, of("error_kind"), of("message"), retried, until, of("reason"), of("note")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }),
];

fn standing(one: &Value) -> String {
    let shape = match (one["ended"].as_bool(), one["error_kind"].is_string()) {
        (Some(true), true) => "✗",
        (Some(true), false) if one["abandoned"] == true => "✗",
        (Some(true), false) => "✓",
        _ => "●",
    };
    let abandoned = if one["abandoned"] == true { ", abandoned" } else { "" };
    format!("{shape} {}{abandoned}", one["state"].as_str().unwrap_or_default())
}

/// State machines and their instances.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch lifecycles put parcel.yaml --apply\n  \
    backstitch lifecycles start parcel p-17\n  backstitch lifecycles show parcel p-17")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Args)]
struct One {
    /// Name of the machine.
    machine: String,
    /// Key of the instance.
    key: String,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List machines, or the instances of one.
    #[command(
        after_help = "Examples:\n  backstitch lifecycles list\n  backstitch lifecycles list parcel --state held"
    )]
    List {
        /// List the instances of this machine.
        machine: Option<String>,
        /// In this state.
        #[arg(long, requires = "machine")]
        state: Option<String>,
        /// With this correlation id.
        #[arg(long, value_name = "ID", requires = "machine")]
        correlation_id: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a machine, or one instance.
    #[command(
        after_help = "Examples:\n  backstitch lifecycles show parcel\n  backstitch lifecycles show parcel p-17"
    )]
    Show {
        /// Name of the machine.
        machine: String,
        /// Key of the instance.
        key: Option<String>,
    },
    /// Show the events of an instance, oldest first.
    #[command(after_help = "Example:\n  backstitch lifecycles log parcel p-17 --json")]
    Log {
        #[command(flatten)]
        one: One,
        /// Only events after this number.
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// At most this many events; by default all.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Start an instance, or start it again.
    #[command(after_help = "Example:\n  backstitch lifecycles start parcel p-17 --input parcel.json")]
    Start {
        #[command(flatten)]
        one: One,
        /// Correlation id; the first start's counts.
        #[arg(long, value_name = "ID")]
        correlation_id: Option<String>,
        /// Input of the actions: a JSON file; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
    /// Move an instance to another state.
    #[command(after_help = "Example:\n  backstitch lifecycles transition parcel p-17 delivered")]
    Transition {
        #[command(flatten)]
        one: One,
        /// The next state, by an edge of the machine.
        to: String,
        /// Data for the log and later actions: a JSON file; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
    },
    /// Fail an instance with an error.
    #[command(
        after_help = "Example:\n  backstitch lifecycles fail parcel p-17 internal --message 'ada: lost'"
    )]
    Fail {
        #[command(flatten)]
        one: One,
        /// One of the machine's error kinds, or `internal`.
        error_kind: String,
        /// Error message.
        #[arg(long, value_name = "TEXT")]
        message: String,
    },
    /// Abandon an instance in its pause state.
    #[command(
        after_help = "Example:\n  backstitch lifecycles abandon parcel p-17 --note 'the customer left'"
    )]
    Abandon {
        #[command(flatten)]
        one: One,
        /// Reason; the log shows it after the name of the key.
        #[arg(long, value_name = "TEXT")]
        note: String,
    },
    /// List rejected requests, newest first.
    #[command(after_help = "Example:\n  backstitch lifecycles dead-letters --limit 10")]
    DeadLetters(Paging),
    /// Stage a machine as the next version of its name.
    #[command(after_help = "Example:\n  backstitch lifecycles put parcel.yaml --apply")]
    Put {
        /// The machine: JSON if its name ends in .json, otherwise YAML; `-` is standard input.
        file: PathBuf,
        /// Apply it at once.
        #[arg(long)]
        apply: bool,
    },
    /// Apply the staged version to new instances.
    #[command(after_help = "Example:\n  backstitch lifecycles apply parcel")]
    Apply {
        /// Name of the machine.
        machine: String,
        /// The expected version; by default whichever is staged.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Discard the staged version.
    #[command(after_help = "Example:\n  backstitch lifecycles discard parcel --version 3")]
    Discard {
        /// Name of the machine.
        machine: String,
        /// The expected version; by default whichever is staged.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
}

/// Lists, shows and moves instances.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action {
        Action::List { machine: None, paging, .. } => {
            let nothing = "no machine is declared: `backstitch lifecycles put FILE --apply`";
            list(session, Listing { path: PATH, query: Vec::new(), columns: &MACHINES, nothing }, paging)
                .await
        }
        Action::List { machine: Some(machine), state, correlation_id, mut paging } => {
            let mut query = Vec::new();
            query.extend(state.map(|state| ("state", state)));
            query.extend(correlation_id.map(|id| ("correlation_id", id)));
            // Without any of these parameters the response is the machine alone.
            paging.limit = Some(paging.limit.unwrap_or(50));
            let path = format!("{PATH}/{}", segment(&machine));
            let nothing = "no lifecycles";
            list(session, Listing { path: &path, query, columns: &LIFECYCLES, nothing }, paging).await
        }
        Action::Show { machine, key: None } => show_machine(session, &machine).await,
        Action::Show { machine, key: Some(key) } => {
            let answer = session.ask(Ask::get(address(&machine, &key))).await?;
            let title = format!("{} {}", plain(&answer.value["machine"]), plain(&answer.value["key"]));
            session.show(&answer, &title, &LIFECYCLE)
        }
        Action::Log { one, after, limit } => {
            let path = format!("{}/log", address(&one.machine, &one.key));
            listing::log(session, &path, after, limit, &LOG).await
        }
        Action::Start { one, correlation_id, input } => {
            let mut body = Map::new();
            body.extend(correlation_id.map(|id| ("correlation_id".to_owned(), id.into())));
            body.extend(value_in(input)?.map(|input| ("input".to_owned(), input)));
            steer(session, &one, "start", &Value::Object(body)).await
        }
        Action::Transition { one, to, data } => {
            let mut body = Map::new();
            body.insert("to".to_owned(), to.into());
            body.extend(value_in(data)?.map(|data| ("data".to_owned(), data)));
            steer(session, &one, "transition", &Value::Object(body)).await
        }
        Action::Fail { one, error_kind, message } => {
            steer(session, &one, "fail", &json!({ "error_kind": error_kind, "message": message })).await
        }
        Action::Abandon { one, note } => steer(session, &one, "abandon", &json!({ "note": note })).await,
        Action::DeadLetters(paging) => {
            let path = "/v1/lifecycle-dead-letters";
            let nothing = "no dead letters of lifecycles";
            list(session, Listing { path, query: Vec::new(), columns: &DEAD_LETTERS, nothing }, paging).await
        }
        Action::Put { file, apply } => {
            let document = Document::read(&file, Kind::Lifecycle)?;
            declared::put(session, PATH, &document, apply).await
        }
        Action::Apply { machine, version } => declared::apply(session, PATH, &machine, version).await,
        Action::Discard { machine, version } => declared::discard(session, PATH, &machine, version).await,
    }
}

fn address(machine: &str, key: &str) -> String {
    lifecycle_path(&segment(machine), key)
}

fn value_in(file: Option<PathBuf>) -> Result<Option<Value>, Failure> {
    let Some(file) = file else { return Ok(None) };
    Ok(Some(serde_json::from_str(super::json_in(&file)?.get())?))
}

async fn show_machine(session: &Session, machine: &str) -> Result<(), Failure> {
    let answer = session.ask(Ask::get(format!("{PATH}/{}", segment(machine)))).await?;
    session.show(&answer, &format!("Machine {}", plain(&answer.value["name"])), &MACHINE)?;
    session.show_part("Versions", &answer.value["versions"], &VERSIONS)?;
    let counts = answer.value["counts"].as_object().into_iter().flatten();
    let counts = counts.map(|(state, count)| json!({ "state": state, "count": count })).collect();
    session.show_part("States", &Value::Array(counts), &COUNTS)?;
    if let Some(diagram) = answer.value["diagram"].as_str() {
        session.output.line("")?;
        for line in diagram.lines() {
            session.output.line(&crate::cli::text::shown(line))?;
        }
    }
    Ok(())
}

async fn steer(session: &Session, one: &One, how: &str, body: &Value) -> Result<(), Failure> {
    let path = format!("{}/{how}", address(&one.machine, &one.key));
    let answer = session.ask(Ask::post(path).json(body)).await?;
    session.done(&answer, &changed(&answer))
}

fn changed(answer: &ApiResponse) -> String {
    let of = |member: &str| plain(&answer.value[member]);
    let one = format!("{} {}", of("machine"), of("key"));
    if answer.value["changed"] == false {
        return format!("{one} stays in {}: {}", of("state"), of("detail"));
    }
    if answer.value["abandoned"] == true {
        return format!("{one} is abandoned in {}", of("state"));
    }
    match answer.value["from"].as_str() {
        Some(_) => format!("{one} has gone from {} to {}", of("from"), of("state")),
        None => format!("{one} has begun, in {}", of("state")),
    }
}
