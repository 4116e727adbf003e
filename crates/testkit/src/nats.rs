//! A real NATS server with `JetStream` that ends with the test, on a free loopback port, with a directory of its own.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tempfile::TempDir;

use crate::postgres::processes;
use crate::throwaway;

/// Debian installs it outside of the users' PATH.
const PROGRAMS: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];
/// Long enough for a slow, busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The server chooses a port.
const ANY_PORT: &str = "-1";

/// A server for one test. Dropping it, or the death of its parent process, ends it and removes its directory.
pub struct NatsServer {
    running: Option<Running>,
    port: u16,
    directory: TempDir,
}

struct Running {
    server: Child,
    watchdog: Child,
}

/// The address that a server reports.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl NatsServer {
    /// Starts a server and waits until it listens.
    ///
    /// # Panics
    /// When it cannot be started: a missing server must fail a test, never skip it.
    pub async fn start() -> Self {
        Self::configured("").await
    }

    /// The same with settings of its configuration file.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn configured(settings: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("backstitch-nats-").tempdir();
        let directory = directory.unwrap_or_else(|error| panic!("cannot make a directory: {error}"));
        let mut server = Self { running: None, port: 0, directory };
        server.configure(settings);
        server.launch(ANY_PORT).await;
        server
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The directory of its streams, settings and log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its process id, unless it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.server.id())
    }

    /// Changes its settings from the next start on.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn configure(&self, settings: &str) {
        let written = fs::write(self.directory().join("nats.conf"), settings);
        written.unwrap_or_else(|error| panic!("cannot write the server's settings: {error}"));
    }

    /// Kills it.
    ///
    /// # Panics
    /// When it is not running, or cannot be ended.
    pub fn kill(&mut self) {
        let running = self.running.take().unwrap_or_else(|| panic!("the server is not running"));
        running.end();
    }

    /// Starts it again on the same streams and port.
    ///
    /// # Panics
    /// When it is running, or does not start.
    pub async fn start_again(&mut self) {
        assert!(self.running.is_none(), "the server is running already");
        self.launch(&self.port.to_string()).await;
    }

    /// Suspends it, as a stalled machine would, and waits until it is suspended.
    ///
    /// # Panics
    /// When it is not running, or cannot be frozen.
    pub fn suspend(&self) {
        processes::suspend_tree(self.running_pid()).unwrap_or_else(|error| panic!("cannot suspend: {error}"));
    }

    /// Resumes a suspended server.
    ///
    /// # Panics
    /// When it is not running, or cannot be woken.
    pub fn resume(&self) {
        processes::resume_tree(self.running_pid()).unwrap_or_else(|error| panic!("cannot resume: {error}"));
    }

    fn running_pid(&self) -> u32 {
        self.pid().unwrap_or_else(|| panic!("the server is not running"))
    }

    async fn launch(&mut self, port: &str) {
        let running = self.spawn(port);
        let said = self.directory().join(format!("nats-server_{}.ports", running.server.id()));
        let Running { server, .. } = self.running.insert(running);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            // The file may be read while it is written.
            let ports = fs::read(&said).ok().and_then(|text| serde_json::from_slice::<Ports>(&text).ok());
            if let Some(ports) = ports {
                let port = ports.nats.first().and_then(|url| url.rsplit_once(':')?.1.parse().ok());
                self.port = port.unwrap_or_else(|| panic!("nats-server listens on {:?}", ports.nats));
                return;
            }
            let ended = server.try_wait().unwrap_or_else(|error| panic!("lost nats-server: {error}"));
            let log = || fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
            assert!(ended.is_none(), "nats-server ended while it started: {}", log());
            assert!(Instant::now() < deadline, "nats-server does not start: {}", log());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn spawn(&self, port: &str) -> Running {
        let directory = self.directory();
        let log = File::options().create(true).append(true).open(directory.join("server.log"));
        let log = log.unwrap_or_else(|error| panic!("cannot open the server's log: {error}"));
        let mut command = Command::new(program());
        command.args(["-a", "127.0.0.1", "-p", port, "-js", "-sd"]).arg(directory);
        command.arg("-c").arg(directory.join("nats.conf")).arg("--ports_file_dir").arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Ctrl-C is for the tests, which stop the server themselves.
        command.process_group(0);
        let mut server = command.spawn().unwrap_or_else(|error| panic!("cannot run nats-server: {error}"));
        match throwaway::watch_over(&server, directory) {
            Ok(watchdog) => Running { server, watchdog },
            Err(error) => {
                server.kill().and_then(|()| server.wait()).ok();
                panic!("cannot run the watchdog: {error}")
            }
        }
    }
}

impl Running {
    fn end(mut self) {
        // This kills a suspended one too.
        let ended = self.server.kill().and_then(|()| self.server.wait());
        // Only now: until the server has ended, the watchdog must be able to end it.
        let released = self.watchdog.kill().and_then(|()| self.watchdog.wait());
        if let Err(error) = ended.and(released) {
            eprintln!("a throwaway NATS server did not stop: {error}");
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }
}

fn program() -> &'static str {
    let is_there = |program: &&&str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    PROGRAMS.iter().find(is_there).unwrap_or_else(|| {
        panic!(
            "no nats-server, the broker of the tests: run `./test`, which installs it (on Debian and Ubuntu it is the \
             package nats-server)"
        )
    })
}
