//! A server in a process of its own.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::super::target::Target;
use super::Failure;

/// Time limit for a server's start and end.
const WITHIN: Duration = Duration::from_secs(60);

/// A running server and its store.
pub(super) struct Program {
    target: Target,
    node: Node,
}

/// One process.
pub(crate) struct Node {
    child: Child,
    address: SocketAddr,
    /// Kept open, because the server continues to print.
    _talking: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(super) async fn start(store: &str) -> Result<Self, Failure> {
        let target = Target::make(store).await?;
        let node = Node::start(&db(&target)?).await?;
        Ok(Self { target, node })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.node.address
    }

    pub(super) fn peak_mb(&self) -> Option<f64> {
        peak_mb(self.node.child.id()?)
    }

    /// Kills the process.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.node.child.kill().await?)
    }

    /// Starts a new process on the same store.
    pub(super) async fn start_again(&mut self) -> Result<(), Failure> {
        self.node = Node::start(&db(&self.target)?).await?;
        Ok(())
    }

    pub(super) async fn end(self) -> Result<(), Failure> {
        self.node.end().await?;
        self.target.remove().await
    }
}

fn db(target: &Target) -> Result<String, Failure> {
    target.address().ok_or_else(|| "a server needs a store on disk: use sqlite or postgres://…".into())
}

impl Node {
    pub(super) async fn start(db: &str) -> Result<Self, Failure> {
        Self::start_with(db, &[]).await
    }

    /// The same with these settings.
    pub(crate) async fn start_with(db: &str, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--db", db, "--listen", "127.0.0.1:0"])
            // Retries of failing rollbacks are awaited, so they are fast.
            .env("BACKSTITCH_ORDERS_ROLLBACK_DELAY", "100ms")
            .env("BACKSTITCH_LOG_LEVEL", "off")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the server says nothing")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(WITHIN, lines.next_line()).await??.unwrap_or_default();
        let address = line.strip_prefix("listening on http://").ok_or("the server does not listen")?;
        let address = address.trim().parse()?;
        Ok(Self { child, address, _talking: lines })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Terminates the process and waits for its end.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        if let Some(id) = self.child.id() {
            Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
            tokio::time::timeout(WITHIN, self.child.wait()).await??;
        }
        Ok(())
    }
}

/// The peak memory of a process.
fn peak_mb(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
