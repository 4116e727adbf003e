//! `backstitch keys`: creates, lists and revokes API keys directly in the database, whether or not a server runs on it.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::{Clock, SystemClock};
use backstitch_server::admin::{ApiKeys, Role};
use serde_json::{Value, json};

use super::{Failure, Sources};
use crate::cli::output::{Output, print};
use crate::cli::table::{Column, table};

const COLUMNS: [Column; 7] = [
    Column::id("ID", "id"),
    Column::status("STATE", "state"),
    Column::text("ROLE", "role"),
    Column::text("NAME", "name"),
    Column::text("ENDS IN", "last_four"),
    Column::time("CREATED", "created_at"),
    Column::time("EXPIRES", "expires_at"),
];

/// Operations on keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a key and print it once.
    Create {
        /// Role: viewer, client, worker, operator or admin.
        #[arg(long)]
        role: Role,
        /// Name of the holder.
        #[arg(long)]
        name: String,
        /// Validity, such as 90d; by default unlimited.
        #[arg(long, value_name = "TIME", value_parser = backstitch::kernel::parse_duration)]
        expires: Option<Duration>,
    },
    /// List all keys, revoked ones included.
    List,
    /// Revoke a key permanently.
    Revoke {
        /// Number of the key in the list.
        id: i64,
    },
}

/// Creates, lists or revokes keys.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let config = args.sources.gather(Vec::new())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let keys = ApiKeys::open(&config, clock.clone()).await?;
    let output = Output::of_this_process(args.json);
    match args.action {
        Action::Create { role, name, expires } => {
            let created = keys.create(role, &name, expires).await?;
            let id = created.id;
            output.aside(&format!("key {id} with the role {role}; it is shown only now:"));
            let json = json!({ "id": id, "role": role.as_str(), "key": created.key });
            let shown = if args.json { output.json(&json.to_string()) } else { output.line(&created.key) };
            Ok(shown.map_err(|why| {
                format!(
                    "key {id} was created but could not be printed: {why}\n  revoke it with `backstitch keys revoke {id}`, on \
                     the same database"
                )
            })?)
        }
        Action::List => {
            let listed = keys.list().await?;
            let listed: Vec<Value> = listed.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
            if args.json {
                return Ok(output.json(&json!({ "items": listed }).to_string())?);
            }
            if listed.is_empty() {
                output.aside("no keys: `backstitch keys create --role ROLE --name NAME`");
                return Ok(());
            }
            Ok(print(&format!("{}\n", table(&listed, &COLUMNS, true, output, clock.now())))?)
        }
        Action::Revoke { id } => {
            if !keys.revoke(id).await? {
                return Err(
                    format!("there is no key {id} that could be revoked: `backstitch keys list`").into()
                );
            }
            output.json(&json!({ "id": id, "state": "revoked" }).to_string())?;
            Ok(output.line(&format!("key {id} is revoked; servers refuse it within two seconds"))?)
        }
    }
}
