//! `backstitch orders`

mod settings;

use std::path::PathBuf;

use hyper::header::HeaderName;
use serde_json::Value;

use super::{Failure, fresh_key, json_in, show, under_key};
use crate::cli::follow::{Patience, follow};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session, listing, saga_id, segment, unknown_saga};

const PATH: &str = "/v1/orders";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

const OUTCOME: Column = Column::text("outcome", "outcome");

const LOG: [Column; 5] = [
    Column::id("SEQ", "seq"),
    Column::time("WHEN", "at"),
    Column::text("SERVICE", "service"),
    Column::made("STATUS", meant),
    Column::text("ERROR", "error"),
];

/// A code of the log with its meaning.
fn meant(entry: &Value) -> String {
    let code = entry["status"].as_str().unwrap_or_default();
    let word = match code {
        "U" => "uncommitted",
        "S" => "succeeded",
        "F" => "failed",
        "R" => "rolled back",
        "D" => "done",
        "RF" => "rollback failed",
        _ => "",
    };
    format!("{code:2} {word}")
}

/// Orders and their settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch orders start order.json --follow\n  \
    backstitch orders services show")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Confirm an order.
    #[command(after_help = "Examples:\n  backstitch orders start order.json --key order-17 --follow\n  \
        echo '{\"order_id\":\"o-1\",\"customer_id\":\"c-1\",\"items\":[{\"sku\":\"book\",\"quantity\":1}],\"amount\":\"19.90\"}' \
        | backstitch orders start -")]
    Start(Start),
    /// Show an order and its services.
    #[command(after_help = "Example:\n  backstitch orders show 01923c4e-5b6a-7000-8000-000000000001")]
    Show(One),
    /// Show the log of an order, service by service.
    #[command(after_help = "Example:\n  backstitch orders log 01923c4e-5b6a-7000-8000-000000000001 --json")]
    Log(One),
    /// The order of the services and their addresses.
    #[command(subcommand)]
    Services(settings::Action),
    /// The timeouts of the services.
    #[command(subcommand)]
    Timeouts(settings::Action),
}

#[derive(Debug, clap::Args)]
struct Start {
    /// The order: a JSON file; `-` is standard input.
    file: PathBuf,
    /// Idempotency key: the same key and order return the same transaction.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Show its events until its end.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Debug, clap::Args)]
struct One {
    /// Id of the transaction, or a unique prefix.
    #[arg(value_name = "TX_ID")]
    id: String,
}

/// Confirms and shows orders, and changes their settings.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action {
        Action::Start(args) => start(args, session).await,
        Action::Show(One { id }) => {
            let id = saga_id::whole(session, &id).await?;
            let answer = match session.ask(Ask::get(address(&id))).await {
                Ok(answer) => answer,
                Err(error) => return Err(unknown_saga(session, &id, error).await),
            };
            let lines: Vec<Column> = [OUTCOME].into_iter().chain(show::LINES).collect();
            session.show(&answer, &format!("Order {}", plain(&answer.value["tx_id"])), &lines)?;
            session.show_part("Services", &answer.value["steps"], &show::STEPS)
        }
        Action::Log(One { id }) => {
            let id = saga_id::whole(session, &id).await?;
            match listing::log(session, &format!("{}/log", address(&id)), None, None, &LOG).await {
                Ok(()) => Ok(()),
                Err(why) => Err(unknown_saga(session, &id, why).await),
            }
        }
        Action::Services(action) => settings::run(settings::Kind::Services, action, session).await,
        Action::Timeouts(action) => settings::run(settings::Kind::Timeouts, action, session).await,
    }
}

fn address(id: &str) -> String {
    format!("{PATH}/{}", segment(id))
}

async fn start(args: Start, session: &Session) -> Result<(), Failure> {
    let order = json_in(&args.file)?;
    let key = args.key.map_or_else(|| fresh_key("order"), Ok)?;
    let ask =
        Ask::post(PATH).body("application/json", order.get().to_owned()).header(IDEMPOTENCY_KEY, key.clone());
    let answer = session.ask_until_answered(ask, args.patience.patience).await;
    let answer = answer.map_err(|error| under_key(error, &key))?;
    let Some(id) = answer.value["tx_id"].as_str() else {
        return Err(session.client.stranger("it accepted an order without an id").into());
    };
    session.done(&answer, &format!("confirmed: transaction {}", plain(&answer.value["tx_id"])))?;
    if args.follow {
        return follow(session, id, 0, args.patience.patience).await;
    }
    Ok(())
}
