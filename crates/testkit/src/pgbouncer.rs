//! A `PgBouncer` in front of a throwaway server, on a free loopback port, that ends with the test.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::postgres::unprivileged_if_root;
use crate::throwaway;

/// Where `./test` installs it, relative to the test programs.
const INSTALLED: &str = "tools/pgbouncer";
const NAME: &str = "pgbouncer";
/// Debian installs it outside of the users' PATH.
const OUT_OF_PATH: &str = "/usr/sbin/pgbouncer";
/// Long enough for a slow, busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A pooler for one test. Dropping it, or the death of its parent process, ends it.
pub struct PgBouncer {
    pooler: Child,
    watchdog: Child,
    port: u16,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts a pooler in front of the server at this address and waits until it listens. `mode` is its `pool_mode`.
    ///
    /// # Panics
    /// When it cannot be started: a missing pooler must fail a test, never skip it.
    pub async fn start(server: &str, mode: &str) -> Self {
        Self::configured(server, mode, "").await
    }

    /// The same with more settings of its configuration file.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn configured(server: &str, mode: &str, settings: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("backstitch-pgbouncer-").tempdir();
        let directory = directory.unwrap_or_else(|error| panic!("cannot make a directory: {error}"));
        let port = throwaway::free_port().unwrap_or_else(|error| panic!("no free port: {error}"));
        let account = unprivileged_if_root(directory.path());
        let place = server.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let (host, server_port) = place.split_once(':').unwrap_or((place, "5432"));
        let written = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             max_client_conn = 200\n{settings}\n"
        );
        let path = directory.path().join("pgbouncer.ini");
        fs::write(&path, written).unwrap_or_else(|error| panic!("cannot write its settings: {error}"));
        let mut command = command(directory.path());
        command.arg(&path).current_dir(directory.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        if let Some((uid, gid)) = account {
            chown(&path, Some(uid), Some(gid))
                .unwrap_or_else(|error| panic!("cannot give it its settings: {error}"));
            command.uid(uid).gid(gid);
        }
        let pooler =
            command.spawn().unwrap_or_else(|why| panic!("pgbouncer does not run ({why}): run `./test`"));
        let watchdog = throwaway::watch_over(&pooler, directory.path());
        let watchdog = watchdog.unwrap_or_else(|error| panic!("cannot run the watchdog: {error}"));
        let mut bouncer = Self { pooler, watchdog, port, _directory: directory };
        bouncer.until_it_listens().await;
        bouncer
    }

    async fn until_it_listens(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            let ended =
                self.pooler.try_wait().unwrap_or_else(|error| panic!("cannot look after it: {error}"));
            assert!(ended.is_none(), "pgbouncer ended while it started: {ended:?}");
            assert!(Instant::now() < deadline, "pgbouncer does not listen");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The address of a database of the server, through the pooler.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        let database = server.rsplit_once('/').map_or("postgres", |(_, database)| database);
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        for child in [&mut self.pooler, &mut self.watchdog] {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("a throwaway PgBouncer did not end: {error}");
            }
        }
    }
}

/// The program installed by `./test` runs from a copy in this directory, because its account may not enter the
/// installation's
/// directory.
fn command(directory: &Path) -> Command {
    let exe = std::env::current_exe().unwrap_or_default();
    let Some(installed) = exe.ancestors().map(|folder| folder.join(INSTALLED)).find(|folder| folder.is_dir())
    else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(NAME)).find(|it| it.is_file());
        return Command::new(in_path.unwrap_or_else(|| PathBuf::from(OUT_OF_PATH)));
    };
    let copied = fs::read_dir(installed).and_then(|files| {
        for file in files {
            let file = file?;
            fs::copy(file.path(), directory.join(file.file_name()))?;
        }
        Ok(())
    });
    copied.unwrap_or_else(|error| panic!("cannot copy pgbouncer: {error}"));
    let mut command = Command::new(directory.join(NAME));
    // Its libraries are beside it.
    command.env("LD_LIBRARY_PATH", directory);
    command
}
