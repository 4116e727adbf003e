//! Where logs and traces go.

use std::io::Write as _;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::traces;
use crate::config::{Config, LogFormat};

/// Lines that wait to be written, at most; beyond that they are left out, and nobody waits.
const LINES: usize = 16_384;

/// Writes what is still to be written when it is dropped.
pub struct Telling {
    traces: Option<SdkTracerProvider>,
    _log: WorkerGuard,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(Err(why)) = self.traces.take().map(|traces| traces.shutdown()) {
            // The log is closed already, and so may standard error be.
            let _ = writeln!(std::io::stderr(), "backstitch: some traces were not sent: {why}");
        }
    }
}

/// Sets up logs and traces for the whole process, once.
///
/// # Errors
/// When the level or the collector's address cannot be read.
pub fn tell(config: &Config) -> Result<Telling, String> {
    let filter = filter(&config.log.level)?;
    // A thread of its own writes: nobody waits for a terminal or a pipe.
    let writing = NonBlockingBuilder::default().buffered_lines_limit(LINES);
    let (writer, log) = writing.finish(std::io::stderr());
    let lines = match config.log.format {
        LogFormat::Text => fmt::layer().with_writer(writer).with_ansi(false).boxed(),
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(writer).boxed(),
    };
    let traces = config.telemetry.otlp_endpoint.as_deref().map(traces::provider).transpose()?;
    let exported = traces.as_ref().map(traces::layer);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(exported)
        .try_init()
        .map_err(|why| format!("logs are set up already: {why}"))?;
    Ok(Telling { traces, _log: log })
}

/// Libraries that log values at their lower levels: parameters of statements, headers, mail and its credentials. They are
/// held to this level whatever is asked for.
const DRIVERS: [&str; 6] = ["tokio_postgres", "rusqlite", "async_nats", "lettre", "hyper", "rustls"];
const MOST_OF_DRIVERS: LevelFilter = LevelFilter::INFO;

fn is_of_a_driver(module: &str) -> bool {
    let within = |driver: &&str| {
        module.strip_prefix(*driver).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    DRIVERS.iter().any(within)
}

/// Not with the parser of `Targets`: it takes a misspelt level for a module and would silence the log.
fn filter(setting: &str) -> Result<Targets, String> {
    let mut targets = Targets::new();
    for part in setting.split(',').map(str::trim) {
        let (module, level) =
            part.split_once('=').map_or((None, part), |(module, level)| (Some(module), level));
        // The level's parser takes nothing for `error`.
        let level = level.parse::<LevelFilter>().ok().filter(|_| !level.is_empty());
        targets = match (module, level) {
            (None, Some(level)) => targets.with_default(level),
            (Some(module), Some(level)) if !module.is_empty() => {
                let most = if is_of_a_driver(module) { MOST_OF_DRIVERS } else { LevelFilter::TRACE };
                targets.with_target(module, level.min(most))
            }
            _ => {
                return Err(format!(
                    "log.level `{setting}` cannot be read: `{part}` is neither a level nor module=level; \
                     use a level like info, or info,backstitch=debug"
                ));
            }
        };
    }
    for driver in DRIVERS {
        let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
        let asked = levels.into_iter().find(|level| targets.would_enable(driver, level));
        let asked = asked.map_or(LevelFilter::OFF, LevelFilter::from_level);
        targets = targets.with_target(driver, asked.min(MOST_OF_DRIVERS));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_apply_to_all_modules_or_to_one() {
        let filter = filter("info, backstitch=debug").unwrap();
        assert!(filter.would_enable("hyper", &Level::INFO));
        assert!(!filter.would_enable("hyper", &Level::DEBUG));
        assert!(filter.would_enable("backstitch::engine", &Level::DEBUG));
    }

    #[test]
    fn drivers_never_log_parameters() {
        for setting in ["debug", "trace", "info,tokio_postgres=debug", "tokio_postgres::query=trace"] {
            let filter = filter(setting).unwrap();
            for target in ["tokio_postgres", "tokio_postgres::query", "lettre::transport", "async_nats"] {
                assert!(!filter.would_enable(target, &Level::DEBUG), "{setting}: {target}");
            }
        }
        assert!(filter("debug").unwrap().would_enable("tokio_postgres", &Level::INFO));
        assert!(!filter("error").unwrap().would_enable("tokio_postgres", &Level::INFO));
        assert!(!filter("info,tokio_postgres=error").unwrap().would_enable("tokio_postgres", &Level::WARN));
        assert!(filter("debug").unwrap().would_enable("backstitch::engine", &Level::DEBUG));
    }

    #[test]
    fn unknown_levels_are_refused_with_a_hint() {
        for setting in [
            "",
            "verbose",
            "info,",
            "info,backstitch",
            "info,backstitch=loud",
            "backstitch=",
            "=info",
            "a=b=c",
        ] {
            let why = filter(setting).unwrap_err();
            assert!(why.contains("use a level like info"), "{setting}: {why}");
        }
    }
}
