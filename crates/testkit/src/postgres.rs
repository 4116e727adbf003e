//! Throwaway `PostgreSQL` servers on a free loopback port, removed when they are dropped.
//!
//! Most tests need only a database: [`fresh_database`] creates one on the server that `./test` starts for the whole
//! run, without
//! `fsync`. A test that stops, suspends or crashes its server starts its own with [`ThrowawayPostgres::start`], with
//! every
//! durability setting enabled.

mod databases;
mod install;
pub(crate) mod processes;
pub mod replicated;
mod standby;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::throwaway;
use databases::Session;
pub use databases::{database_from, empty_database, fresh_database, migrated_database, shared_url};
use install::{Account, Binaries};
pub use processes::{Signal, send_signal};

/// The environment variable with the address of the test run's shared server.
pub const SHARED_URL_VARIABLE: &str = "BACKSTITCH_TEST_POSTGRES";

/// Long enough for a crash recovery on a slow, busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longer than the five seconds after which `PostgreSQL` itself kills backends.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
const START_ATTEMPTS: u32 = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const PORT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// An error of a throwaway server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `PostgreSQL` is not on this machine.
    #[error(
        "no PostgreSQL server (initdb and postgres) in PATH or /usr/lib/postgresql/*/bin: \
         run `./test`, which installs it, or install the package `postgresql`"
    )]
    NotInstalled,
    /// Root must not run `PostgreSQL`, and there is no other account.
    #[error("PostgreSQL refuses to run as root: add a user `postgres` or `nobody`, or run as another user")]
    NoAccount,
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The error.
        source: io::Error,
    },
    /// `initdb` created no data directory.
    #[error("initdb failed: {output}")]
    Initdb {
        /// Its output.
        output: String,
    },
    /// `pg_basebackup` created no copy for a standby.
    #[error("pg_basebackup failed: {output}")]
    Backup {
        /// Its output.
        output: String,
    },
    /// The port is in use.
    #[error("port {port} is taken")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// The server ended during startup.
    #[error("the server ended while it started: {log}")]
    Exited {
        /// Its log.
        log: String,
    },
    /// Something took too long.
    #[error("gave up waiting for {awaited}")]
    TimedOut {
        /// What was awaited.
        awaited: &'static str,
    },
    /// The call needs a running server.
    #[error("the server is not running")]
    NotRunning,
    /// The call needs a stopped server.
    #[error("the server is running already")]
    StillRunning,
    /// A database could not be created, or a query failed.
    #[error("cannot create a database, or ask the server: {0}")]
    CreateDatabase(#[from] tokio_postgres::Error),
}

impl Error {
    fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// A `PostgreSQL` server for one test. Dropping it, or the death of its parent process, stops the server and removes
/// its
/// directory.
#[derive(Debug)]
pub struct ThrowawayPostgres {
    running: Option<Running>,
    binaries: Binaries,
    account: Option<Account>,
    port: u16,
    speaks_tls: bool,
    durability: Durability,
    directory: TempDir,
}

/// Whether a server survives a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// As in production.
    Synced,
    /// Without syncs, for servers that are never crashed: makes the tests faster.
    Unsynced,
}

#[derive(Debug)]
struct Running {
    server: Child,
    watchdog: Child,
}

impl ThrowawayPostgres {
    /// Creates a data directory, starts a server on it and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// When `PostgreSQL` is not installed, or does not start.
    pub fn start() -> Result<Self, Error> {
        Self::start_as(Durability::Synced)
    }

    /// The same without syncs, for databases that are thrown away after a crash anyway.
    ///
    /// # Errors
    ///
    /// When `PostgreSQL` is not installed, or does not start.
    pub fn start_unsynced() -> Result<Self, Error> {
        Self::start_as(Durability::Unsynced)
    }

    fn start_as(durability: Durability) -> Result<Self, Error> {
        let mut postgres = Self::prepared(durability)?;
        postgres.launch_on(|| throwaway::free_port().map_err(Error::io("find a free port")))?;
        Ok(postgres)
    }

    /// The same with TLS, with this certificate and key in PEM form.
    ///
    /// # Errors
    ///
    /// When `PostgreSQL` is not installed, or does not start.
    pub fn start_with_tls(certificate: &str, key: &str) -> Result<Self, Error> {
        let mut postgres = Self::prepared(Durability::Synced)?;
        for (name, content) in [(CERTIFICATE, certificate), (KEY, key)] {
            let path = postgres.directory().join(name);
            fs::write(&path, content).map_err(Error::io("write the server's certificate"))?;
            // The server refuses a key that other accounts can read.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
                .map_err(Error::io("protect the server's key"))?;
            if let Some(account) = postgres.account {
                chown(&path, Some(account.uid), Some(account.gid))
                    .map_err(Error::io("give the server its key"))?;
            }
        }
        postgres.speaks_tls = true;
        postgres.launch_on(|| throwaway::free_port().map_err(Error::io("find a free port")))?;
        Ok(postgres)
    }

    fn prepared(durability: Durability) -> Result<Self, Error> {
        let postgres = Self::empty(durability)?;
        postgres.initdb()?;
        Ok(postgres)
    }

    /// A directory for a server, without data.
    fn empty(durability: Durability) -> Result<Self, Error> {
        let binaries = Binaries::find().ok_or(Error::NotInstalled)?;
        let directory = tempfile::Builder::new()
            .prefix("backstitch-postgres-")
            .tempdir()
            .map_err(Error::io("make a temporary directory"))?;
        let account = give_away_if_root(directory.path())?;
        Ok(Self { running: None, binaries, account, port: 0, speaks_tls: false, durability, directory })
    }

    /// The address of a database of this server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates a database with a unique name and returns its address.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or refuses.
    pub async fn create_database(&self) -> Result<String, Error> {
        databases::create(&self.url("postgres"), None).await
    }

    /// The process id of the postmaster, unless it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.server.id())
    }

    /// The directory of the server's data, socket and log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the server as a crash would: without a checkpoint, without closing connections.
    ///
    /// # Errors
    ///
    /// When it is not running, or cannot be stopped.
    pub fn stop_immediate(&mut self) -> Result<(), Error> {
        let Running { mut server, mut watchdog } = self.running.take().ok_or(Error::NotRunning)?;
        let stopped = stop(&mut server);
        // Only now: until the server has ended, the watchdog must be able to end it.
        let released = watchdog.kill().and_then(|()| watchdog.wait());
        stopped?;
        released.map_err(Error::io("end the watchdog"))?;
        Ok(())
    }

    /// Starts a stopped server again on the same data and port.
    ///
    /// # Errors
    ///
    /// When it is running, or does not start.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if self.running.is_some() {
            return Err(Error::StillRunning);
        }
        let port = self.port;
        self.launch_on(|| Ok(port))
    }

    /// Suspends every process of the server, as a stalled machine would, and waits until all are suspended.
    ///
    /// # Errors
    ///
    /// When the server is not running, or cannot be frozen.
    pub fn suspend(&self) -> Result<(), Error> {
        processes::suspend_tree(self.pid().ok_or(Error::NotRunning)?)
    }

    /// Resumes a suspended server.
    ///
    /// # Errors
    ///
    /// When the server is not running, or cannot be woken.
    pub fn resume(&self) -> Result<(), Error> {
        processes::resume_tree(self.pid().ok_or(Error::NotRunning)?)
    }

    fn data_directory(&self) -> PathBuf {
        self.directory().join("data")
    }

    fn initdb(&self) -> Result<(), Error> {
        let output = self
            .command(&self.binaries.initdb)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            // An incomplete data directory is thrown away anyway. The server itself syncs.
            .arg("--no-sync")
            .arg("--pgdata")
            .arg(self.data_directory())
            .output()
            .map_err(Error::io("run initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Initdb { output: String::from_utf8_lossy(&output.stderr).into_owned() })
    }

    /// Another process may take the free port before the server listens on it: then try again.
    fn launch_on(&mut self, port: impl Fn() -> Result<u16, Error>) -> Result<(), Error> {
        for _ in 1..START_ATTEMPTS {
            self.port = port()?;
            match self.launch() {
                Err(Error::PortTaken { .. }) => std::thread::sleep(PORT_RETRY_INTERVAL),
                outcome => return outcome,
            }
        }
        self.port = port()?;
        self.launch()
    }

    fn launch(&mut self) -> Result<(), Error> {
        let log_path = self.directory().join("server.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .map_err(Error::io("open the server's log"))?;
        let logged_before = log.metadata().map_err(Error::io("read the server's log"))?.len();

        let mut server = self.spawn_server(log)?;
        let watchdog = match throwaway::watch_over(&server, self.directory()) {
            Ok(watchdog) => watchdog,
            Err(error) => {
                stop(&mut server)?;
                return Err(Error::io("run the watchdog")(error));
            }
        };
        let pid_file = self.data_directory().join("postmaster.pid");
        let Running { server, .. } = self.running.insert(Running { server, watchdog });
        let ended = poll(START_LIMIT, "the server to accept connections", || {
            let ended = has_ended(server)?;
            let ready = accepts_connections(&pid_file, server.id());
            Ok((ended || ready).then_some(ended))
        })?;
        if !ended {
            return Ok(());
        }
        self.stop_immediate()?;
        let log = fs::read(&log_path).map_err(Error::io("read the server's log"))?;
        let skipped = usize::try_from(logged_before).unwrap_or(usize::MAX);
        let log = String::from_utf8_lossy(log.get(skipped..).unwrap_or_default()).into_owned();
        if log.contains("Address already in use") {
            return Err(Error::PortTaken { port: self.port });
        }
        Err(Error::Exited { log })
    }

    fn spawn_server(&self, log: File) -> Result<Child, Error> {
        let socket_directory = self.directory().display();
        let mut settings = vec![
            format!("port={}", self.port),
            format!("unix_socket_directories={socket_directory}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "max_connections=500".to_owned(),
        ];
        settings.extend(match self.durability {
            // The defaults, made explicit: a crash test needs a server that syncs.
            Durability::Synced => {
                ["fsync=on", "synchronous_commit=on", "full_page_writes=on"].map(str::to_owned)
            }
            Durability::Unsynced => {
                ["fsync=off", "synchronous_commit=on", "full_page_writes=off"].map(str::to_owned)
            }
        });
        if self.speaks_tls {
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={socket_directory}/{CERTIFICATE}"));
            settings.push(format!("ssl_key_file={socket_directory}/{KEY}"));
        }
        let also_log = log.try_clone().map_err(Error::io("open the server's log"))?;
        self.command(&self.binaries.postgres)
            .arg("-D")
            .arg(self.data_directory())
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(also_log)
            // Ctrl-C is for the tests, which stop the server themselves.
            .process_group(0)
            .spawn()
            .map_err(Error::io("run postgres"))
    }

    /// A command as an account that `PostgreSQL` accepts, in a directory that the account may enter.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // `launch` parses messages, so they must be in English.
        command.current_dir(self.directory()).env("LC_ALL", "C");
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }
}

impl Drop for ThrowawayPostgres {
    fn drop(&mut self) {
        if self.running.is_some()
            && let Err(error) = self.stop_immediate()
        {
            eprintln!("a throwaway PostgreSQL did not stop: {error}");
        }
    }
}

/// The user and group of a server that must not run as root, which then own this directory.
pub(crate) fn unprivileged_if_root(directory: &Path) -> Option<(u32, u32)> {
    let account = give_away_if_root(directory).unwrap_or_else(|error| panic!("{error}"));
    account.map(|account| (account.uid, account.gid))
}

/// The owner of a new directory is the current user, found without a system call.
fn give_away_if_root(directory: &Path) -> Result<Option<Account>, Error> {
    let owner = fs::metadata(directory).map_err(Error::io("read the temporary directory"))?.uid();
    if owner != 0 {
        return Ok(None);
    }
    let account = Account::unprivileged()?;
    chown(directory, Some(account.uid), Some(account.gid))
        .map_err(Error::io("give the temporary directory to the server's account"))?;
    Ok(Some(account))
}

/// The last line of the pid file is the server's own status, and unlike a connection it cannot belong to another server
/// on the
/// same port.
fn accepts_connections(pid_file: &Path, pid: u32) -> bool {
    let Ok(content) = fs::read_to_string(pid_file) else {
        return false;
    };
    let mut lines = content.lines().map(str::trim);
    lines.next() == Some(pid.to_string().as_str()) && matches!(lines.nth(6), Some("ready" | "standby"))
}

fn stop(server: &mut Child) -> Result<(), Error> {
    if has_ended(server)? {
        return Ok(());
    }
    send_signal(&[server.id()], Signal::Quit).map_err(Error::io("stop the server"))?;
    // A suspended server would not receive the signal. It may have ended, so errors are ignored.
    processes::resume_tree(server.id()).ok();
    let stopped = poll(STOP_LIMIT, "the server to stop", || Ok(has_ended(server)?.then_some(())));
    if stopped.is_err() {
        server.kill().map_err(Error::io("kill the server"))?;
        server.wait().map_err(Error::io("wait for the killed server"))?;
    }
    Ok(())
}

fn has_ended(server: &mut Child) -> Result<bool, Error> {
    let status = server.try_wait().map_err(Error::io("look after the server"))?;
    Ok(status.is_some())
}

fn poll<T>(
    limit: Duration,
    awaited: &'static str,
    mut check: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = check()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut { awaited });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
