//! `backstitch keys`: who may ask the server for what. Works on the database, whether or not a server runs on it.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{Failure, Sources};
use crate::auth::keys::{Kept, New, Standing};
use crate::auth::{Hasher, Role, key, keys, random, server_secret};
use crate::cli::output::{Output, print};
use crate::cli::table::{Column, table};
use crate::database::Database;
use crate::time::rfc3339;

const COLUMNS: [Column; 7] = [
    Column::id("ID", "id"),
    Column::status("STATE", "state"),
    Column::text("ROLE", "role"),
    Column::text("NAME", "name"),
    Column::text("ENDS IN", "last_four"),
    Column::time("CREATED", "created_at"),
    Column::time("EXPIRES", "expires_at"),
];

/// What is done with keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
    /// One JSON document instead of text, for programs.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a key and print it, this once.
    Create {
        /// What it is for: viewer, client, worker, operator or admin.
        #[arg(long)]
        role: Role,
        /// Who holds it.
        #[arg(long)]
        name: String,
        /// How long it is good for, as in 90d; for ever unless given.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        expires: Option<Duration>,
    },
    /// List all keys there ever were.
    List,
    /// Revoke a key for good.
    Revoke {
        /// Its number in the list.
        id: i64,
    },
}

/// Does what is asked with keys.
///
/// # Errors
/// When the database cannot be opened, has no secret, or has no such key; when what is to be seen cannot be printed.
pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.sources.gather(Vec::new())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let database = Database::open(&config.db, &clock).await?;
    let now = clock.now();
    let output = Output::of_this_process(args.json);
    match args.action {
        Action::Create { role, name, expires } => {
            let secret = server_secret(&database, config.secret.as_ref(), now).await?.ok_or(
                "keys on PostgreSQL need a secret: set `secret` or BACKSTITCH_SECRET, to the same value here and for every \
                 server; `openssl rand -base64 32` makes one",
            )?;
            let hasher = Hasher::new(&secret)?;
            let key = key::from_random(random()?);
            let id = create(&database, &hasher, &key, role, name, now, expires).await?;
            output.aside(&format!("key {id} with the role {role}; it is shown only now:"));
            let made = json!({ "id": id, "role": role.as_str(), "key": key });
            let shown = if args.json { output.json(&made.to_string()) } else { output.line(&key) };
            Ok(shown.map_err(|why| {
                format!(
                    "key {id} is made, and nobody has seen it: {why}\n  revoke it with `backstitch keys revoke {id}`, on \
                     the same database"
                )
            })?)
        }
        Action::List => {
            let kept: Vec<Value> = keys::list(&database).await?.iter().map(|key| listed(key, now)).collect();
            if args.json {
                return Ok(output.json(&json!({ "items": kept }).to_string())?);
            }
            if kept.is_empty() {
                output.aside("no keys: `backstitch keys create --role ROLE --name NAME`");
                return Ok(());
            }
            Ok(print(&format!("{}\n", table(&kept, &COLUMNS, true, output, now)))?)
        }
        Action::Revoke { id } => {
            if !keys::revoke(&database, id, now).await? {
                return Err(
                    format!("there is no key {id} that could be revoked: `backstitch keys list`").into()
                );
            }
            output.json(&json!({ "id": id, "state": "revoked" }).to_string())?;
            Ok(output.line(&format!("key {id} is revoked; servers refuse it within two seconds"))?)
        }
    }
}

async fn create(
    database: &Database,
    hasher: &Hasher,
    key: &str,
    role: Role,
    name: String,
    now: Timestamp,
    expires: Option<Duration>,
) -> Result<i64, Failure> {
    if name.trim().is_empty() {
        return Err("--name is empty: say who holds the key".into());
    }
    let new = New {
        hash: hasher.api_key(key),
        role,
        name,
        last_four: key::last_four(key).to_owned(),
        created_at: now,
        expires_at: expires.map(|time| now.plus(time)),
    };
    Ok(keys::insert(database, new).await?)
}

fn standing(key: &Kept, now: Timestamp) -> &'static str {
    match key.standing(now) {
        Standing::Good => "good",
        Standing::Expired => "expired",
        Standing::Revoked => "revoked",
    }
}

/// A key as it is shown.
fn listed(key: &Kept, now: Timestamp) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "role": key.role.as_str(),
        "state": standing(key, now),
        "last_four": key.last_four,
        "created_at": rfc3339(key.created_at),
        "expires_at": key.expires_at.map(rfc3339),
        "revoked_at": key.revoked_at.map(rfc3339),
    })
}
