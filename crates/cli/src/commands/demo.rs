//! `backstitch demo`

use std::net::{Ipv4Addr, SocketAddr};

use backstitch_demo::{Plan, play};

use super::{Failure, Signals};

/// How the demonstration is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// End after the tour, with exit code 0 only if every scene ended as it should.
    #[arg(long)]
    once: bool,
    /// Where the server accepts connections; a free port of 127.0.0.1 unless given.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Show the server's log too.
    #[arg(long)]
    verbose: bool,
}

/// Shows orders that complete, fail, time out, get stuck and outlive a crash, on a throwaway database.
///
/// # Errors
/// When a scene of a tour that runs once did not end as it should, or the demonstration cannot be run.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let listen = args.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
    let mut signals = Signals::listen()?;
    let plan = Plan { listen, once: args.once, verbose: args.verbose };
    play(plan, async || signals.next().await).await
}
