//! A real mail server (aiosmtpd) that ends with the test.

use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const SERVER: &str = include_str!("smtp/server.py");

/// Debian's own first, because its packages are for that one.
const PYTHONS: [&str; 2] = ["/usr/bin/python3", "python3"];

/// The settings of a server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its port; a free one by default.
    pub port: Option<u16>,
    /// Its encryption.
    pub encryption: Encryption,
    /// The required login.
    pub login: Option<(&'static str, &'static str)>,
    /// Addresses that it refuses.
    pub refuses: Vec<&'static str>,
    /// It accepts mails but never responds to the end of a session.
    pub never_says_goodbye: bool,
}

/// The encryption of a server.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// None.
    #[default]
    None,
    /// Required STARTTLS.
    StartTls(Identity),
    /// TLS from the start.
    Tls(Identity),
}

/// Certificate and key files in PEM form.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A received mail.
#[derive(Clone, Debug, Deserialize)]
pub struct Mail {
    /// The envelope's sender.
    pub sender: String,
    /// The envelope's recipients.
    pub recipients: Vec<String>,
    /// Decoded headers in order.
    pub headers: Vec<(String, String)>,
    /// The decoded text.
    pub text: String,
    /// The logged-in user.
    pub user: Option<String>,
    /// Whether it was encrypted.
    pub encrypted: bool,
}

impl Mail {
    /// The value of a header.
    ///
    /// # Panics
    /// When there is none, or more than one.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => value,
            _ => panic!("not exactly one header {name}: {:?}", self.headers),
        }
    }
}

/// A running server.
pub struct SmtpServer {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl SmtpServer {
    /// Starts a server and waits until it listens.
    ///
    /// # Panics
    /// When it cannot be started: a missing server must fail a test, never skip it.
    pub async fn start(setup: &Setup) -> Self {
        let mut command = Command::new(python().await);
        command.args(["-c", SERVER]).args(arguments(setup));
        // It ends with its standard input, so a killed test leaves none behind.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap_or_else(|error| panic!("cannot run aiosmtpd: {error}"));
        let said = process.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let mut said = said.unwrap_or_else(|| panic!("aiosmtpd has no output"));
        let first = said.next_line().await.ok().flatten().unwrap_or_default();
        let port = first.parse().unwrap_or_else(|_| panic!("aiosmtpd did not start: {setup:?}"));
        Self { process, said, port }
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next mail.
    ///
    /// # Panics
    /// When the server has ended.
    pub async fn next_mail(&mut self) -> Mail {
        self.heard().await.unwrap_or_else(|| panic!("the mail server ended"))
    }

    /// Stops the server and returns mails that were not awaited.
    ///
    /// # Panics
    /// When the server does not end.
    pub async fn stop(mut self) -> Vec<Mail> {
        drop(self.process.stdin.take());
        let mut rest = Vec::new();
        while let Some(mail) = self.heard().await {
            rest.push(mail);
        }
        self.process.wait().await.unwrap_or_else(|error| panic!("the mail server does not end: {error}"));
        rest
    }

    async fn heard(&mut self) -> Option<Mail> {
        let line = self.said.next_line().await.unwrap_or_else(|error| panic!("aiosmtpd says: {error}"))?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("aiosmtpd says {line}: {error}")))
    }
}

fn arguments(setup: &Setup) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut give = |name: &str, value: &dyn ToString| arguments.extend([name.to_owned(), value.to_string()]);
    if let Some(port) = setup.port {
        give("--port", &port);
    }
    if let Encryption::StartTls(identity) | Encryption::Tls(identity) = &setup.encryption {
        give("--certificate", &identity.certificate.display());
        give("--key", &identity.key.display());
    }
    match setup.encryption {
        Encryption::None => {}
        Encryption::StartTls(_) => give("--encryption", &"starttls"),
        Encryption::Tls(_) => give("--encryption", &"tls"),
    }
    if let Some((user, password)) = setup.login {
        give("--user", &user);
        give("--password", &password);
    }
    for address in &setup.refuses {
        give("--refuse", address);
    }
    if setup.never_says_goodbye {
        arguments.push("--never-say-goodbye".to_owned());
    }
    arguments
}

/// A Python with aiosmtpd.
async fn python() -> &'static str {
    for python in PYTHONS {
        let found = Command::new(python).args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status().await;
        if found.is_ok_and(|status| status.success()) {
            return python;
        }
    }
    panic!(
        "no Python has aiosmtpd, the mail server of the tests: run `./test`, which installs it (on Debian and Ubuntu \
         it is the package python3-aiosmtpd)"
    )
}
