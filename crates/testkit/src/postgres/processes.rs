//! Signals to processes and their children, by the shell's `kill` (a system call would be unsafe code).

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use super::{Error, poll};

/// A process that waits for a disk reacts only when the disk responds.
const OBEY_LIMIT: Duration = Duration::from_secs(10);

/// The signals that fault tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Terminate.
    Terminate,
    /// Quit; for `PostgreSQL`, an immediate shutdown.
    Quit,
    /// Kill.
    Kill,
    /// Suspend.
    Stop,
    /// Resume after [`Signal::Stop`].
    Continue,
}

/// Sends a signal to each of the processes.
///
/// # Errors
///
/// When one of them could not be signalled. The others got the signal.
pub fn send_signal(pids: &[u32], signal: Signal) -> io::Result<()> {
    let name = match signal {
        Signal::Terminate => "-TERM",
        Signal::Quit => "-QUIT",
        Signal::Kill => "-KILL",
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
    };
    // The shell's own `kill`: small machines have no such program.
    let output = Command::new("sh")
        .args(["-c", r#"kill "$@""#, "kill", name])
        .args(pids.iter().map(u32::to_string))
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Suspends a process and its children. `PostgreSQL`'s children each lead a process group of their own, so a signal to
/// one group
/// does not reach them.
pub(crate) fn suspend_tree(root: u32) -> Result<(), Error> {
    // The parent first: a suspended parent starts no children.
    signal_until(&[root], Signal::Stop, |state| state == STOPPED)?;
    signal_until(&children_of(root)?, Signal::Stop, |state| state == STOPPED)
}

pub(crate) fn resume_tree(root: u32) -> Result<(), Error> {
    signal_until(&children_of(root)?, Signal::Continue, |state| state != STOPPED)?;
    signal_until(&[root], Signal::Continue, |state| state != STOPPED)
}

const STOPPED: char = 'T';

fn signal_until(pids: &[u32], signal: Signal, obeyed: impl Fn(char) -> bool) -> Result<(), Error> {
    if pids.is_empty() {
        return Ok(());
    }
    let sent = send_signal(pids, signal);
    // A child that has ended cannot be signalled, and need not be.
    if let Err(error) = sent
        && pids.iter().all(|pid| stat(*pid).is_some())
    {
        return Err(Error::io("signal the server")(error));
    }
    poll(OBEY_LIMIT, "the server to obey a signal", || {
        let all = pids.iter().filter_map(|pid| stat(*pid)).all(|stat| obeyed(stat.state));
        Ok(all.then_some(()))
    })
}

fn children_of(parent: u32) -> Result<Vec<u32>, Error> {
    let processes = fs::read_dir("/proc").map_err(Error::io("list processes in /proc"))?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent)).collect())
}

struct Stat {
    state: char,
    parent: u32,
}

/// `None` without such a process.
fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may contain any character but the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}
