//! `with-postgres COMMAND [ARGUMENT…]` runs a command beside a throwaway `PostgreSQL`, whose address the
//! command finds in `BACKSTITCH_TEST_POSTGRES`, and exits with the command's code.

use std::env;
use std::error::Error;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use backstitch_testkit::postgres::{SHARED_URL_VARIABLE, Signal, ThrowawayPostgres, send_signal};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of `env` and `timeout` for their own failures.
const OWN_FAILURE: u8 = 125;
/// How long a command may take to exit after a signal.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        eprintln!("with-postgres: {error}");
        ExitCode::from(OWN_FAILURE)
    })
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: with-postgres COMMAND [ARGUMENT…]")?;

    // Installed before the server starts, so no signal can end this process without ending the server.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;

    let server = ThrowawayPostgres::start_unsynced()?;
    let mut child = Command::new(&program)
        .args(arguments)
        .env(SHARED_URL_VARIABLE, server.url("postgres"))
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let signalled = tokio::select! {
        status = child.wait() => return Ok(exit_code(status?)),
        _ = terminate.recv() => SignalKind::terminate(),
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = hangup.recv() => SignalKind::hangup(),
    };
    end(&mut child).await?;
    Ok(signal_code(signalled.as_raw_value()))
}

async fn end(child: &mut Child) -> Result<(), Box<dyn Error>> {
    if let Some(pid) = child.id() {
        // It may have ended by itself: Ctrl-C reaches it directly.
        send_signal(&[pid], Signal::Terminate).ok();
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(OWN_FAILURE)),
        (None, Some(signal)) => signal_code(signal),
        (None, None) => ExitCode::from(OWN_FAILURE),
    }
}

/// The exit code that shells report for a signal.
fn signal_code(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(OWN_FAILURE))
}
