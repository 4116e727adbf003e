//! The real binary.

use std::process::{Output, Stdio};
use std::time::Duration;

use backstitch_testkit::postgres::{Signal, send_signal};
use backstitch_testkit::unguarded;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::{Client, within};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_backstitch");
/// The secret of tests on `PostgreSQL`.
pub(crate) const SECRET: &str = "a secret for tests, long enough to be one";

/// The program with these arguments, and nothing of the environment that it could take for its own.
pub(crate) fn command(arguments: &[&str]) -> Command {
    command_within(&[], arguments)
}

/// The same, started by another program in its own place.
pub(crate) fn command_within(around: &[&str], arguments: &[&str]) -> Command {
    let mut words = around.iter().copied().chain([BINARY]).chain(arguments.iter().copied());
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::null()).kill_on_drop(true);
    // What the test was started with is no setting of the program under test.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BACKSTITCH_")) {
        command.env_remove(name);
    }
    if arguments.iter().any(|argument| argument.starts_with("postgres")) {
        command.env("BACKSTITCH_SECRET", SECRET);
    }
    command
}

/// Runs the program to its end.
pub(crate) async fn output_of(arguments: &[&str]) -> Output {
    within(command(arguments).output()).await.unwrap()
}

/// Makes a key and gives it.
pub(crate) async fn create_key(db: &str, role: &str) -> String {
    let made = output_of(&["keys", "create", "--role", role, "--name", "a test", "--db", db]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// Lets the only key of this name expire in a moment, on `SQLite`. A test calls this once it needs the key no longer.
pub(crate) fn expire_key(db: &str, name: &str) {
    let connection = rusqlite::Connection::open(db.strip_prefix("sqlite:").unwrap()).unwrap();
    connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
    let expire =
        format!("update api_keys set expires_at = (unixepoch() + 3) * 1000000 where name = '{name}'");
    assert_eq!(unguarded::on_sqlite(&connection, "api_keys", &expire).unwrap(), 1, "{name}");
}

/// A server in a process of its own.
pub(crate) struct Program {
    pub(crate) client: Client,
    pub(crate) child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    /// `None` where it goes to a file.
    stderr: Option<Lines<BufReader<ChildStderr>>>,
}

impl Program {
    pub(crate) async fn serve(db: &str, variables: &[(&str, &str)]) -> Self {
        Self::logging_to(Stdio::piped(), db, variables).await
    }

    /// The same with its log somewhere else than in [`Program::logs`].
    pub(crate) async fn logging_to(log: impl Into<Stdio>, db: &str, variables: &[(&str, &str)]) -> Self {
        Self::start(command(&["serve", "--db", db, "--listen", "127.0.0.1:0"]), log, variables).await
    }

    /// The same at this address, where another one was before, and without a log. Another process can take the port
    /// meanwhile, so this retries until the port is free again.
    pub(crate) async fn listening_on(listen: &str, db: &str, variables: &[(&str, &str)]) -> Self {
        within(async {
            loop {
                let command = command(&["serve", "--db", db, "--listen", listen]);
                match Self::try_start(command, Stdio::null(), variables).await {
                    Ok(program) => return program,
                    Err(why) => eprintln!("{listen}: {why}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
    }

    /// The same by any command that becomes a server.
    pub(crate) async fn start(command: Command, log: impl Into<Stdio>, variables: &[(&str, &str)]) -> Self {
        Self::try_start(command, log, variables).await.unwrap_or_else(|why| panic!("{why}"))
    }

    /// # Errors
    /// When it ends without listening: what it printed.
    async fn try_start(
        mut command: Command,
        log: impl Into<Stdio>,
        variables: &[(&str, &str)],
    ) -> Result<Self, String> {
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = child.stderr.take().map(|stderr| BufReader::new(stderr).lines());
        let line = within(stdout.next_line()).await.unwrap().unwrap_or_default();
        let Some(address) = line.strip_prefix("listening on http://") else {
            let why = match &mut stderr {
                Some(stderr) => within(stderr.next_line()).await.unwrap(),
                None => None,
            };
            return Err(format!("it does not listen: {line}{why:?}"));
        };
        Ok(Self { client: Client::new(address.parse().unwrap()), child, stdout, stderr })
    }

    pub(crate) async fn next_line(&mut self) -> String {
        within(self.stdout.next_line()).await.unwrap().unwrap_or_default()
    }

    /// Reads the log until a line says this.
    pub(crate) async fn logs(&mut self, words: &str) -> String {
        let stderr = self.stderr.as_mut().unwrap();
        loop {
            let line = within(stderr.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("the log ended without {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(crate) fn terminate(&self) {
        send_signal(&[self.child.id().unwrap()], Signal::Terminate).unwrap();
    }

    /// Waits for its end and gives its exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        within(self.child.wait()).await.unwrap().code()
    }
}
