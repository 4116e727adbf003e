//! How a NATS broker is reached: where it is, who asks, and whom it must prove to be.

use std::path::Path;
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};
use backstitch_api::validate::quoted;

use super::{certificates, reason, tls};
use crate::settings::Secret;

/// A broker that does not answer three of these in a row is taken for gone.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// What settings say about a broker, whichever they are.
pub(crate) struct Access<'a> {
    /// The server: `nats://host:4222`, or `tls://…`. Of a cluster several, with commas between.
    pub(crate) url: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a Secret>,
    pub(crate) token: Option<&'a Secret>,
    pub(crate) credentials: Option<&'a Path>,
    pub(crate) root_certificate: Option<&'a Path>,
}

impl Access<'_> {
    /// What is wrong and what to do, each with its place.
    pub(crate) fn mistakes(&self, place: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        for server in self.url.split(',') {
            mistakes.extend(address_of(server).err().map(|why| format!("{place}.url: {why}")));
        }
        if self.user.is_some() != self.password.is_some() {
            mistakes.push(format!("{place}.user and {place}.password go together: set both or neither"));
        }
        let logins = [self.user.is_some(), self.token.is_some(), self.credentials.is_some()];
        if logins.into_iter().filter(|is_set| *is_set).count() > 1 {
            mistakes.push(format!(
                "{place}: user, token and credentials are three ways to log in: choose one of them"
            ));
        }
        mistakes
    }

    /// Where to connect to.
    pub(crate) fn servers(&self) -> Result<Vec<ServerAddr>, String> {
        let servers: Result<Vec<_>, _> = self.url.split(',').map(address_of).collect();
        servers.map_err(|why| format!("url: {why}"))
    }

    /// How to connect, under a name that the broker's operator sees; or the setting that keeps it from that, and why.
    pub(crate) fn options(&self, name: String, made_within: Duration) -> Result<ConnectOptions, String> {
        let options = if let Some(path) = self.credentials {
            let unusable = |why: &dyn std::fmt::Display| {
                format!(
                    "credentials: `{}`: {why}; name a readable file with a JWT and its seed",
                    path.display()
                )
            };
            let text = std::fs::read_to_string(path).map_err(|why| unusable(&why))?;
            ConnectOptions::with_credentials(&text).map_err(|why| unusable(&why))?
        } else if let Some(token) = self.token {
            ConnectOptions::with_token(token.reveal().to_owned())
        } else if let Some((user, password)) = self.user.zip(self.password) {
            ConnectOptions::with_user_and_password(user.to_owned(), password.reveal().to_owned())
        } else {
            ConnectOptions::new()
        };
        let trusted = certificates::in_file(self.root_certificate)?;
        let tls = tls(trusted).map_err(|why| format!("root_certificate: {why}"))?;
        Ok(options
            .name(name)
            .tls_client_config(tls)
            .connection_timeout(made_within)
            .ping_interval(SIGN_OF_LIFE))
    }
}

/// Why no connection was made.
pub(crate) enum Unconnected {
    /// The broker is there, and does not let us in.
    NotAuthorized(String),
    /// It is not there, or not the one that it should be.
    Down(String),
}

impl From<&ConnectError> for Unconnected {
    fn from(error: &ConnectError) -> Self {
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                Self::NotAuthorized(format!("the broker refuses the login ({error}): correct it"))
            }
            kind => Self::Down(format!("no connection to the broker: {kind}: {}", reason(error))),
        }
    }
}

/// What is wrong with the name of a stream or of a consumer, which `what` says.
pub(crate) fn misnamed(what: &str, name: &str) -> Option<String> {
    let is_of_a_name = |char: char| {
        !char.is_whitespace() && !char.is_control() && !matches!(char, '.' | '*' | '>' | '/' | '\\')
    };
    (name.is_empty() || !name.chars().all(is_of_a_name))
        .then(|| format!("`{}` is no {what}'s name: it has no blanks and none of . * > / \\", quoted(name)))
}

/// Whether all tokens of a subject have something to them.
pub(crate) fn has_good_tokens(subject: &str) -> bool {
    subject.split('.').all(|token| {
        !token.is_empty() && !token.contains(|char: char| char.is_whitespace() || char.is_control())
    })
}

/// What is wrong with a subject that is the broker's own.
pub(crate) fn belongs_to_the_broker(subject: &str) -> Option<String> {
    subject
        .starts_with('$')
        .then(|| "subjects that begin with $ belong to the broker: choose another".to_owned())
}

/// A server's address as settings give it.
fn address_of(written: &str) -> Result<ServerAddr, String> {
    let address = written
        .parse::<ServerAddr>()
        .ok()
        .filter(|address| matches!(address.scheme(), "nats" | "tls") && !address.host().is_empty())
        .ok_or_else(|| {
            format!("`{}` is no server: write it like nats://host:4222 or tls://host:4222", shown(written))
        })?;
    if address.username().is_some() || address.password().is_some() {
        return Err("it holds a user or a password: set `user` and `password` instead".to_owned());
    }
    Ok(address)
}

/// What somebody wrote, without what may be a password.
fn shown(written: &str) -> String {
    quoted(written.rsplit_once('@').map_or(written, |(_, host)| host))
}
