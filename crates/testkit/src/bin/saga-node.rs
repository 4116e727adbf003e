//! A process for tests to kill: starts sagas at a steady rate and prints which starts are durable.
//!
//! It reads its settings from arguments of the form `name=value` and ends when its standard input is closed.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use backstitch::Engine;
use backstitch_testkit::chaos::load::{self, Request};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saga-node: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Settings {
    address: String,
    folder: PathBuf,
    name: String,
    lease: Duration,
    start_every: Duration,
}

impl Settings {
    fn read() -> Result<Self, Failure> {
        let given: HashMap<String, String> = std::env::args()
            .skip(1)
            .filter_map(|argument| argument.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
            .collect();
        let text = |name: &str| given.get(name).cloned().ok_or_else(|| format!("{name}= is missing"));
        Ok(Self {
            address: text("address")?,
            folder: text("folder")?.into(),
            name: text("name")?,
            lease: Duration::from_millis(text("lease_ms")?.parse()?),
            start_every: Duration::from_micros(text("start_every_us")?.parse()?),
        })
    }
}

async fn run() -> Result<(), Failure> {
    let settings = Settings::read()?;
    let mut terminate = signal(SignalKind::terminate())?;
    end_with_the_parent();
    let store = load::store(&settings.address).await?;
    let engine =
        load::engine_after(store, &settings.folder, &settings.name, settings.lease, report_adoptions).await?;
    say("READY")?;
    tokio::select! {
        outcome = start_sagas(&engine, &settings) => outcome?,
        _ = terminate.recv() => {}
    }
    engine.shutdown().await?;
    Ok(())
}

/// Says when the node has adopted a saga.
fn report_adoptions(engine: &Engine) -> Result<(), Failure> {
    engine.on("saga.adopted", |_| async {
        if let Err(error) = say("ADOPTED") {
            tracing::error!(%error, "standard output is closed");
        }
    })?;
    Ok(())
}

/// Starts sagas at the rate asked for, whether or not earlier ones have been acknowledged.
async fn start_sagas(engine: &Engine, settings: &Settings) -> Result<(), Failure> {
    if settings.start_every.is_zero() {
        return std::future::pending().await;
    }
    let mut beat = tokio::time::interval(settings.start_every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0.. {
        beat.tick().await;
        let engine = engine.clone();
        let request = Request::numbered(&settings.name, n);
        tokio::spawn(async move {
            let told = match request.start(&engine).await {
                Ok(saga) => say(&format!("ACK {} {saga}", request.key)),
                Err(error) => say(&format!("NAK {} {error}", request.key)),
            };
            if let Err(error) = told {
                tracing::error!(%error, "nobody listens");
            }
        });
    }
    Ok(())
}

/// Writes one line and flushes it.
fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{line}\n").as_bytes())?;
    output.flush()
}

/// A killed test closes this process's input, so no process stays behind.
fn end_with_the_parent() {
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        std::process::exit(1);
    });
}
