//! Runs the load in a process of its own, so that the measured memory is the engine's, without the rest of earlier
//! runs.

use std::process::Stdio;

use tokio::process::Command;

use super::load::{Measured, Until, measure};
use super::target::Target;
use super::{Args, Failure, Variant};

/// The name of the store in memory.
const IN_MEMORY: &str = "memory";

/// The arguments of that process.
#[derive(clap::Args)]
pub(super) struct LoadProcessArgs {
    /// Run the load alone, on the store at this address.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub(super) load: Option<String>,
    /// Also delete ended sagas.
    #[arg(long, requires = "load", hide = true)]
    removing: bool,
}

/// Work besides running sagas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// Deletes ended sagas.
    Removal,
}

/// Runs the load in another process of this program, and returns its result.
pub(super) async fn measured(
    target: &Target,
    variant: Variant,
    concurrency: usize,
    until: Until,
    beside: Beside,
) -> Result<Measured, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "--load", target.address().as_deref().unwrap_or(IN_MEMORY)]);
    command.args(["--variant", variant.name(), "--concurrency", &concurrency.to_string()]);
    match until {
        Until::After(time) => command.args(["--seconds", &time.as_secs().to_string()]),
        Until::Sagas(sagas) => command.args(["--sagas", &sagas.to_string()]),
    };
    if beside == Beside::Removal {
        command.arg("--removing");
    }
    // It prints its errors itself.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
    if !output.status.success() {
        return Err(format!("the load ended with {}: see above", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs in that process: runs the load on the store at this address and prints the result.
pub(super) async fn run(args: &Args, address: &str) -> Result<(), Failure> {
    let (&[variant], &[concurrency]) = (args.variant.as_slice(), args.concurrency.as_slice()) else {
        return Err("a load is of one variant and one concurrency".into());
    };
    let address = Some(address).filter(|address| *address != IN_MEMORY);
    let beside = if args.apart.removing { Beside::Removal } else { Beside::Nothing };
    let measured = measure(address, variant, concurrency, Until::of(args), beside).await?;
    crate::print::line(format_args!("{}", serde_json::to_string(&measured)?))?;
    Ok(())
}
