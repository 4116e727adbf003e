//! The `backstitch` binary.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: use `output`")]

mod arguments;
mod cli;
mod commands;

use std::process::ExitCode;

use backstitch_bench as bench;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{Failure, Remote, check, completions, demo, help, is_closed_pipe, keys, man, migrate, serve};

/// Durable sagas: work that spans several services either finishes or is undone.
#[derive(Parser)]
#[command(name = "backstitch", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a demo on a throwaway database: orders that complete, fail, time out, get stuck and survive a crash.
    Demo(demo::Args),
    /// Validate a saga or a lifecycle and show its plans.
    Check(check::Args),
    /// Run the server.
    Serve(serve::Args),
    /// Migrate the database's schema.
    Migrate(migrate::Args),
    /// Create, list and revoke API keys in the database.
    Keys(keys::Args),
    /// Measure throughput and latency on this machine, compared with a bare loop on the same store.
    Bench(bench::Args),
    #[command(flatten)]
    Remote(Box<Remote>),
    /// Print shell completions.
    Completions(completions::Args),
    /// Print the manual, or write its pages.
    Man(man::Args),
}

impl Command {
    /// The server needs the machine then, and one thread makes enough load.
    fn loads_a_server(&self) -> bool {
        matches!(self, Self::Bench(args) if args.is_over_http())
    }

    async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Demo(args) => demo::run(args).await,
            Self::Check(args) => check::run(&args),
            // Boxed, because its future is large.
            Self::Serve(args) => Box::pin(serve::run(args)).await,
            Self::Migrate(args) => migrate::run(args).await,
            Self::Keys(args) => keys::run(args).await,
            Self::Bench(args) => bench::run(args).await,
            Self::Remote(asked) => asked.run().await,
            Self::Completions(args) => completions::run(&args, Cli::command()),
            Self::Man(args) => man::run(&args, Cli::command()),
        }
    }
}

fn main() -> ExitCode {
    let matches = help::grouped(Cli::command()).get_matches_from(arguments::arguments());
    let Cli { command } = Cli::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    if command.loads_a_server() {
        threads.worker_threads(1);
    }
    let runtime = match threads.enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            bench::print::note(format_args!("backstitch: cannot start: {why}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(command.run());
    // A blocked thread must not prevent the exit.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A closed output pipe is no error.
        Err(why) if is_closed_pipe(&why) => ExitCode::SUCCESS,
        Err(why) => {
            bench::print::note(format_args!("backstitch: {why}"));
            ExitCode::FAILURE
        }
    }
}
