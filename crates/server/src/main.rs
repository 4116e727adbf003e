//! The `backstitch` binary.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durable sagas: work that spans several services either finishes or is undone.
#[derive(Parser)]
#[command(name = "backstitch", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load on this machine: how many sagas a second, against the bare store in the same run.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            eprintln!("backstitch: cannot start: {why}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match command {
            Command::Bench(args) => bench::run(args).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("backstitch: {why}");
            ExitCode::FAILURE
        }
    }
}
