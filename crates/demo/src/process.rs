//! The server in a process of its own, so it can be killed.

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
/// The server's line when it listens.
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
    /// Starts this program as a server and waits until it listens.
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
        // Settings of this program are not the server's.
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

    /// Kills the process with SIGKILL.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Ends the process in any state.
    pub(super) async fn end(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.child.kill().await;
    }

    /// Restarts it at the same address and file.
    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        *self = Self::spawn(self.config_file.clone(), Some(self.address), &self.folder, self.verbose).await?;
        Ok(())
    }
}

/// The path of the server's log, beside the database.
pub(super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn log(folder: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(log_path(folder))
}

/// The end of the log, with the reason if the server does not start.
fn last_words(folder: &Path) -> String {
    let log = std::fs::read_to_string(log_path(folder)).unwrap_or_default();
    log.lines().next_back().map(|line| format!(": {line}")).unwrap_or_default()
}

/// Waits for the address. Further output is read and discarded, so that a full pipe does not block the server.
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
