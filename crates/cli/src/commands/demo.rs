//! `backstitch demo`

use std::net::{Ipv4Addr, SocketAddr};

use backstitch_demo::{Plan, play};

use super::{Failure, Signals};

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after the tour; exit code 0 only if every scene ended as expected.
    #[arg(long)]
    once: bool,
    /// Listening address; by default a free port of 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Show the server's log too.
    #[arg(long)]
    verbose: bool,
}

/// Shows orders that complete, fail, time out, get stuck and survive a crash, on a throwaway database.
///
/// # Errors
/// When a scene of a single tour did not end as expected, or the demo cannot run.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let listen = args.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
    let mut signals = Signals::listen()?;
    let plan = Plan { listen, once: args.once, verbose: args.verbose };
    play(plan, async || signals.next().await).await
}
