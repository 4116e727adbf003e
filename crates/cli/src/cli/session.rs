//! Server, API key and output of a command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::{Clock as _, SystemClock};
use zeroize::Zeroizing;

use super::client::{ApiResponse, Ask, Client, Error, Server, USUAL_SERVER};
use super::output::{self, Output};
use super::table::{Column, record, table};
use crate::commands::Failure;

/// The variable with an API key. There is no flag, because the process list would show it.
const KEY: &str = "BACKSTITCH_KEY";
/// The longest key file in bytes; a longer file is something else.
const LONGEST_KEY: u64 = 4096;

/// Server and output options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server and output")]
pub(crate) struct Target {
    /// Address of the server.
    #[arg(long, global = true, value_name = "URL", env = "BACKSTITCH_SERVER", default_value = USUAL_SERVER)]
    server: Server,
    /// File with the API key; otherwise the variable `BACKSTITCH_KEY`.
    #[arg(long, global = true, value_name = "FILE", env = "BACKSTITCH_KEY_FILE")]
    key_file: Option<PathBuf>,
    /// Print the server's JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
}

impl Target {
    pub(crate) fn open(self) -> Result<Session, Failure> {
        let key = key(self.key_file.as_deref())?;
        let client = Client::new(self.server, key.as_deref().map(String::as_str))?;
        Ok(Session { client, output: Output::of_this_process(self.json) })
    }
}

/// The key without the final line break.
fn key(file: Option<&Path>) -> Result<Option<Zeroizing<String>>, Failure> {
    let kept = match file {
        Some(file) => {
            let unreadable = |why: String| format!("the key file {} cannot be read: {why}", file.display());
            let size = std::fs::metadata(file).map_err(|why| unreadable(why.to_string()))?.len();
            if size > LONGEST_KEY {
                return Err(unreadable(format!("it has {size} bytes, and a key has few")).into());
            }
            let text = std::fs::read_to_string(file).map_err(|why| unreadable(why.to_string()))?;
            Some(Zeroizing::new(text))
        }
        None => std::env::var(KEY).ok().map(Zeroizing::new),
    };
    let trimmed = kept.map(|key| Zeroizing::new(key.trim().to_owned()));
    Ok(trimmed.filter(|key| !key.is_empty()))
}

/// The contents of a file; `-` is standard input.
pub(crate) fn in_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.map_err(|why| format!("{} cannot be read: {why}", file.display()).into())
}

/// A server, a key and output options.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) output: Output,
}

impl Session {
    #[expect(clippy::unused_self, reason = "the clock is the session's")]
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<ApiResponse, Error> {
        self.client.ask(ask).await
    }

    /// Repeats an idempotent request until it gets a response or the patience ends. Does not wait for a server that was
    /// never reached.
    pub(crate) async fn ask_until_answered(
        &self,
        ask: Ask,
        patience: Duration,
    ) -> Result<ApiResponse, Error> {
        let began = tokio::time::Instant::now();
        let mut waits = Waits::default();
        let mut in_doubt = false;
        loop {
            let error = match self.ask(ask.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            in_doubt |= error.is_in_doubt();
            let wait = waits.next(error.refusal().and_then(super::problem::Refusal::wait));
            if !in_doubt || !error.may_pass() || began.elapsed() + wait > patience {
                return Err(error);
            }
            self.output.aside(&format!("no answer yet ({}); asking again", error.why()));
            tokio::time::sleep(wait).await;
        }
    }

    /// Shows one object: its members, or its JSON.
    pub(crate) fn show(&self, answer: &ApiResponse, title: &str, lines: &[Column]) -> Result<(), Failure> {
        if self.output.json {
            return Ok(self.output.json(&answer.text)?);
        }
        Ok(output::print(&format!("{title}\n{}", record(&answer.value, lines, self.now())))?)
    }

    /// Shows a part of it under a title, if it is not empty.
    pub(crate) fn show_part(
        &self,
        title: &str,
        items: &serde_json::Value,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() || self.output.json {
            return Ok(());
        }
        let text = table(items, columns, true, self.output, self.now());
        Ok(self.output.line(&format!("\n{title}\n{text}"))?)
    }

    /// Confirms a change; prints the response with `--json`.
    pub(crate) fn done(&self, answer: &ApiResponse, told: &str) -> Result<(), Failure> {
        if self.output.json {
            let text = if answer.text.trim().is_empty() { "null" } else { &answer.text };
            return Ok(self.output.json(text)?);
        }
        Ok(self.output.line(told)?)
    }
}

/// A backoff that doubles up to a few seconds.
#[derive(Debug, Default)]
pub(crate) struct Waits(u32);

impl Waits {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(3);

    /// The next wait, at least as long as the server requests.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let wait = Self::FIRST.saturating_mul(1 << self.0.min(10)).min(Self::LONGEST);
        self.0 += 1;
        wait.max(asked.unwrap_or_default())
    }
}
