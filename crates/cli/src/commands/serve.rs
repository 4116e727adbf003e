//! `backstitch serve`

use std::io::Write as _;

use backstitch_server::{Server, telemetry};

use super::{Failure, Signals, Sources};

/// The limit of open files to request: more than the default number of connections.
const DESCRIPTORS: u64 = 65_536;

/// Options of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Listening address; by default `127.0.0.1:7420`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Serves until a signal.
///
/// # Errors
/// When the server does not start, or does not stop gracefully.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let flags = args.listen.map(|listen| ("listen", listen)).into_iter().collect();
    let config = args.sources.gather(flags)?;
    let _telling = telemetry::tell(&config)?;
    // If it cannot be raised, the machine's limit applies, and the log says when it is reached.
    let _ = rlimit::increase_nofile_limit(DESCRIPTORS);
    let mut signals = Signals::listen()?;
    let server = Server::bind(config).await?;
    let address = server.address();
    // On standard output, for the program that started the server.
    say(&format!("listening on http://{address}"));
    if server.is_open() {
        say(&format!(
            "warning: no API keys configured; anyone who can reach {address} has full access; create one with \
             `backstitch keys create --role admin --name NAME`"
        ));
        tracing::warn!(%address, "no API keys configured; anyone who can reach the server has full access");
    }
    let (asked, stop) = tokio::sync::oneshot::channel::<()>();
    let mut serving = std::pin::pin!(server.run(async {
        let _ = stop.await;
    }));
    tokio::select! {
        ended = serving.as_mut() => return Ok(ended?),
        () = signals.next() => {
            tracing::info!("shutting down: finishing active work; a second signal exits at once");
            let _ = asked.send(());
        }
    }
    tokio::select! {
        ended = serving => Ok(ended?),
        () = signals.next() => Err("ended at once by a second signal; active work continues after the restart".into()),
    }
}

/// Prints a line for the program that started the server. A closed pipe does not stop the server.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
