//! The server in a process of its own, so that it can be killed like any other.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::Failure;

/// How long a server may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// What it says once it does.
const LISTENING: &str = "listening on http://";

/// A server that is killed when this is dropped.
pub(super) struct ServerProcess {
    child: Child,
    address: SocketAddr,
    config_file: PathBuf,
    folder: PathBuf,
    verbose: bool,
}

impl ServerProcess {
    /// Starts this very program as a server and waits until it listens.
    pub(super) async fn start(config: &str, folder: &Path, verbose: bool) -> Result<Self, Failure> {
        let config_file = folder.join("backstitch.toml");
        std::fs::write(&config_file, config)?;
        Self::spawn(config_file, None, folder, verbose).await
    }

    /// `listen` overrides the configured address.
    async fn spawn(
        config_file: PathBuf,
        listen: Option<SocketAddr>,
        folder: &Path,
        verbose: bool,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg("--config").arg(&config_file);
        if let Some(listen) = listen {
            command.arg("--listen").arg(listen.to_string());
        }
        // What this program was started with is no setting of the server.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BACKSTITCH_"))
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        if !verbose {
            command.stderr(log(folder)?);
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("the server has no standard output")?;
        let address = tokio::time::timeout(STARTS_WITHIN, listening(stdout)).await;
        let address = address
            .map_err(|_| format!("the server does not listen after {STARTS_WITHIN:?}"))?
            .map_err(|why| format!("{why}{}", last_words(folder)))?;
        Ok(Self { child, address, config_file, folder: folder.to_owned(), verbose })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends the process with SIGKILL: it learns nothing of it and can do nothing about it.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Sees it off, whatever state it is in.
    pub(super) async fn end(&mut self) {
        // It fails only where there is no process any more.
        let _ = self.child.kill().await;
    }

    /// Starts it again, at the same address and on the same file.
    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        *self = Self::spawn(self.config_file.clone(), Some(self.address), &self.folder, self.verbose).await?;
        Ok(())
    }
}

/// Where the server's log is, beside the database.
pub(super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn log(folder: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log_path(folder))
}

/// The end of the log, where a server that does not start says why.
fn last_words(folder: &Path) -> String {
    let log = std::fs::read_to_string(log_path(folder)).unwrap_or_default();
    log.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default()
}

/// Where it listens. What it says afterwards is read and left: a server must not fail because nobody hears it.
async fn listening(stdout: ChildStdout) -> Result<SocketAddr, Failure> {
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.strip_prefix(LISTENING) {
            let address = address.parse()?;
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address);
        }
    }
    Err("the server ended before it listened".into())
}
