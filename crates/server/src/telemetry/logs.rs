//! Where logs and traces go.

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

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
    let level = &config.log.level;
    let filter = EnvFilter::try_new(level).map_err(|why| {
        format!("log.level `{level}` cannot be read: {why}; use a level like info, or info,backstitch=debug")
    })?;
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
