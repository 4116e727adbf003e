//! The `backstitch` binary.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: use `output`")]

mod arguments;
mod cli;
mod commands;

use std::process::ExitCode;

use backstitch_bench as bench;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use commands::{Failure, Remote, check, completions, demo, help, keys, man, migrate, nobody_reads, serve};

/// Durable sagas: work that spans several services either finishes or is undone.
#[derive(Parser)]
#[command(name = "backstitch", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show it all on a throwaway database: orders that complete, fail, time out, get stuck and outlive a crash.
    Demo(demo::Args),
    /// Look whether a saga or a lifecycle makes sense, and what it would do.
    Check(check::Args),
    /// Run the server.
    Serve(serve::Args),
    /// Bring the database's schema up to date.
    Migrate(migrate::Args),
    /// Make, list and revoke API keys, directly in the database.
    Keys(keys::Args),
    /// Load on this machine: how many sagas a second, against the bare store in the same run.
    Bench(bench::Args),
    #[command(flatten)]
    Remote(Box<Remote>),
    /// Print what makes a shell complete the words of this program.
    Completions(completions::Args),
    /// Print the manual, or write its pages.
    Man(man::Args),
}

impl Command {
    /// The machine is the server's then: one thread makes more load than it can bear.
    fn loads_a_server(&self) -> bool {
        matches!(self, Self::Bench(args) if args.is_over_http())
    }

    async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Demo(args) => demo::run(args).await,
            Self::Check(args) => check::run(&args),
            // Everything there is is put together in it.
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
    // What still blocks a thread must not keep the program from ending.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever piped it into another program has seen enough.
        Err(why) if nobody_reads(&why) => ExitCode::SUCCESS,
        Err(why) => {
            bench::print::note(format_args!("backstitch: {why}"));
            ExitCode::FAILURE
        }
    }
}
