//! `backstitch serve`

use std::io::Write as _;

use backstitch_server::{Server, telemetry};

use super::{Failure, Signals, Sources};

/// Files and sockets to ask the machine for: more than the default limit of connections.
const DESCRIPTORS: u64 = 65_536;

/// How the server is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Where to accept connections; `127.0.0.1:7420` unless given.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Serves until a signal.
///
/// # Errors
/// When the server does not start, or does not stop in order.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let flags = args.listen.map(|listen| ("listen", listen)).into_iter().collect();
    let config = args.sources.gather(flags)?;
    let _telling = telemetry::tell(&config)?;
    // Where it cannot be raised the machine's own limit holds, and the log says when it is reached.
    let _ = rlimit::increase_nofile_limit(DESCRIPTORS);
    let mut signals = Signals::listen()?;
    let server = Server::bind(config).await?;
    let address = server.address();
    // On standard output, for whoever started it and waits for it.
    say(&format!("listening on http://{address}"));
    if server.is_open() {
        say(&format!(
            "open: there is no API key, so whoever reaches {address} may do everything; close it with `backstitch keys \
             create --role admin --name NAME`"
        ));
        tracing::warn!(%address, "the server is open: there is no API key");
    }
    let (asked, stop) = tokio::sync::oneshot::channel::<()>();
    let mut serving = std::pin::pin!(server.run(async {
        let _ = stop.await;
    }));
    tokio::select! {
        ended = serving.as_mut() => return Ok(ended?),
        () = signals.next() => {
            tracing::info!("shutting down: finishing what is under way; a second signal ends at once");
            let _ = asked.send(());
        }
    }
    tokio::select! {
        ended = serving => Ok(ended?),
        () = signals.next() => Err("ended at once by a second signal: what was under way goes on after the restart".into()),
    }
}

/// Tells whoever started the server, who may have stopped listening: that is no reason to stop serving.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
