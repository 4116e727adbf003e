//! Where logs and traces go.

use opentelemetry_sdk::trace::SdkTracerProvider;
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
            eprintln!("backstitch: some traces were not sent: {why}");
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
            (Some(module), Some(level)) if !module.is_empty() => targets.with_target(module, level),
            _ => {
                return Err(format!(
                    "log.level `{setting}` cannot be read: `{part}` is neither a level nor module=level; \
                     use a level like info, or info,backstitch=debug"
                ));
            }
        };
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::filter;

    #[test]
    fn levels_apply_to_all_modules_or_to_one() {
        let filter = filter("info, backstitch=debug").unwrap();
        assert!(filter.would_enable("hyper", &Level::INFO));
        assert!(!filter.would_enable("hyper", &Level::DEBUG));
        assert!(filter.would_enable("backstitch::engine", &Level::DEBUG));
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
