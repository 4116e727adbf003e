//! The subcommands of the binary, except `bench`.

mod alerts;
mod audit;
pub(crate) mod check;
pub(crate) mod completions;
mod dead_letters;
mod declared;
mod definitions;
pub(crate) mod demo;
mod doctor;
mod follow;
mod health;
pub(crate) mod help;
pub(crate) mod keys;
mod lifecycles;
mod log;
pub(crate) mod man;
pub(crate) mod migrate;
mod operate;
mod orders;
mod outbox;
mod parked;
mod ps;
mod remote;
mod resolve;
pub(crate) mod serve;
mod show;
mod signals;
mod sites;
mod start;
mod webhooks;

use std::path::Path;
use std::str::FromStr;

use backstitch_modules::randomness::{Randomness as _, SystemRandomness};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::{client, output};

pub(crate) use remote::Remote;
pub(crate) use signals::Signals;

/// A command's error, printed before the program exits.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whether a command ended because its output pipe was closed, for example by `head`.
pub(crate) fn is_closed_pipe(why: &Failure) -> bool {
    matches!(why.downcast_ref(), Some(output::PrintError::ReaderGone))
}

/// The source of settings.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sources {
    /// Configuration file in TOML.
    #[arg(long, global = true, value_name = "FILE", env = "BACKSTITCH_CONFIG")]
    config: Option<std::path::PathBuf>,
    /// `sqlite:PATH` or `postgres://…`; by default `sqlite:backstitch.db`.
    #[arg(long, global = true, value_name = "ADDRESS")]
    db: Option<String>,
    /// The schema of a PostgreSQL database; `backstitch` unless given.
    #[arg(long, global = true, value_name = "NAME")]
    schema: Option<String>,
}

impl Sources {
    /// The settings, overridden by flags.
    fn gather(self, flags: Vec<(&'static str, String)>) -> Result<backstitch_server::Config, Failure> {
        let mut overrides = backstitch_server::config::Overrides::from_environment();
        let schema = self.schema.map(|schema| ("schema", schema));
        overrides.flags = self.db.map(|db| ("db", db)).into_iter().chain(schema).chain(flags).collect();
        for (name, meant) in overrides.unknown_variables() {
            let advice = meant.map_or_else(
                || "docs/configuration.md lists them all".to_owned(),
                |meant| format!("did you mean {meant}?"),
            );
            output::note(format_args!("backstitch: {name} names no setting and is ignored: {advice}"));
        }
        Ok(backstitch_server::Config::gather(self.config.as_deref(), &overrides)?)
    }
}

/// `NAME=VALUE` on the command line.
#[derive(Clone, Debug)]
struct Attribute(String, String);

impl FromStr for Attribute {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        match written.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self(name.to_owned(), value.to_owned())),
            _ => Err("write it like tenant=acme"),
        }
    }
}

/// The JSON of a file, unchanged; `-` is standard input.
fn json_in(file: &Path) -> Result<Box<RawValue>, Failure> {
    let bytes = crate::cli::in_file(file)?;
    serde_json::from_slice(&bytes).map_err(|why| format!("{} is not JSON: {why}", file.display()).into())
}

/// A generated idempotency key.
fn fresh_key(what: &str) -> Result<String, Failure> {
    let mut random = [0; 16];
    SystemRandomness.fill(&mut random)?;
    Ok(format!("cli-{what}-{}", uuid::Uuid::from_bytes(random).simple()))
}

/// The error of a request; if the outcome is unknown, with the key to retry.
fn under_key(error: client::Error, key: &str) -> Failure {
    if error.is_in_doubt() {
        let again = "ask again with the same input and";
        return format!("{error}\n  to be sure, {again} --key {key}: nothing is done twice").into();
    }
    error.into()
}

/// A name with its version, such as `order v3`.
fn versioned(of: &Value, name: &str, version: &str) -> String {
    let name = of[name].as_str().unwrap_or_default();
    of[version].as_u64().map_or_else(|| name.to_owned(), |version| format!("{name} v{version}"))
}

/// A validation error quotes its author's text, which may contain line breaks and control characters.
fn on_one_line(problem: &backstitch::Problem) -> String {
    crate::cli::text::shown(&format!("{}: {}", problem.place, problem.message))
}
