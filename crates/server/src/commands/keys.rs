//! `backstitch keys`: who may ask the server for what. Works on the database, whether or not a server runs on it.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::{Clock, SystemClock};

use super::{Failure, Sources};
use crate::auth::keys::{Kept, New, Standing};
use crate::auth::{Hasher, Role, key, keys, random, server_secret};
use crate::database::Database;
use crate::time::rfc3339;

/// What is done with keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
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
    List {
        /// One JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for good.
    Revoke {
        /// Its number in the list.
        id: i64,
    },
}

/// Does what is asked with keys.
///
/// # Errors
/// When the database cannot be opened, has no secret, or has no such key.
pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.sources.gather(Vec::new())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let database = Database::open(&config.db, &clock).await?;
    let now = clock.now();
    match args.action {
        Action::Create { role, name, expires } => {
            let secret = server_secret(&database, config.secret.as_ref(), now).await?.ok_or(
                "keys on PostgreSQL need a secret: set `secret` or BACKSTITCH_SECRET, to the same value here and for every \
                 server; `openssl rand -base64 32` makes one",
            )?;
            let hasher = Hasher::new(&secret)?;
            let key = key::from_random(random()?);
            let id = create(&database, &hasher, &key, role, name, now, expires).await?;
            eprintln!("key {id} with the role {role}; it is shown only now:");
            println!("{key}");
        }
        Action::List { json: true } => println!("{}", as_json(&keys::list(&database).await?, now)),
        Action::List { json: false } => print!("{}", as_table(&keys::list(&database).await?, now)),
        Action::Revoke { id } => {
            if !keys::revoke(&database, id, now).await? {
                return Err(
                    format!("there is no key {id} that could be revoked: `backstitch keys list`").into()
                );
            }
            println!("key {id} is revoked; servers refuse it within two seconds");
        }
    }
    Ok(())
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

fn as_table(keys: &[Kept], now: Timestamp) -> String {
    use std::fmt::Write;
    let mut table = format!(
        "{:>4}  {:8}  {:7}  {:4}  {:27}  {:27}  NAME\n",
        "ID", "ROLE", "STATE", "END", "CREATED", "EXPIRES"
    );
    for key in keys {
        let expires = key.expires_at.map_or_else(|| "never".to_owned(), |at| rfc3339(at).to_string());
        let (role, state, created) =
            (key.role.as_str(), standing(key, now), rfc3339(key.created_at).to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:>4}  {role:8}  {state:7}  {:4}  {created:27}  {expires:27}  {}",
            key.id, key.last_four, key.name
        );
    }
    table
}

fn as_json(keys: &[Kept], now: Timestamp) -> serde_json::Value {
    let items = keys.iter().map(|key| {
        serde_json::json!({
            "id": key.id,
            "name": key.name,
            "role": key.role.as_str(),
            "state": standing(key, now),
            "last_four": key.last_four,
            "created_at": rfc3339(key.created_at),
            "expires_at": key.expires_at.map(rfc3339),
            "revoked_at": key.revoked_at.map(rfc3339),
        })
    });
    serde_json::json!({ "items": items.collect::<Vec<_>>() })
}
