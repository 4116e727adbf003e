//! What can be set about alerts, as it stands under `[alerts]` in the server's configuration.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use serde::Deserialize;
use url::Url;

use crate::settings::{Secret, default_timeout, duration, late};

/// Each gets a mail of its own.
const MOST_RECIPIENTS: usize = 50;

/// Where alerts go. Whatever is set here, they also go to the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// By mail.
    pub email: Option<Email>,
    /// As a POST request.
    pub webhook: Option<Webhook>,
    /// To the end of this file, one line of JSON each: for development.
    pub file: Option<PathBuf>,
}

/// Mail through an SMTP server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// The server's name or address.
    pub host: String,
    /// 587 for STARTTLS, 465 for TLS and 25 for neither, unless told.
    #[serde(default)]
    pub port: Option<u16>,
    /// How the connection is kept private.
    #[serde(default)]
    pub security: Security,
    /// Whom to log in as; without one nobody logs in.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// Whom mails come from: `name@host` or `Name <name@host>`.
    pub from: String,
    /// Whom they go to.
    pub to: Vec<String>,
    /// How long one mail may take.
    #[serde(default = "default_timeout", deserialize_with = "duration")]
    pub timeout: Duration,
    /// A file with certificates (PEM) that are trusted beside those the machine trusts.
    #[serde(default)]
    pub root_certificate: Option<PathBuf>,
}

/// How a connection to a mail server is kept private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// It begins in the clear, and nothing is said before it is encrypted.
    #[default]
    StartTls,
    /// It is encrypted from the beginning.
    Tls,
    /// Not at all: only for a server on the same machine.
    None,
}

/// A POST request with the alert as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where it goes. Often whoever knows it may write there, so it is kept secret.
    pub url: Secret,
    /// How long one request may take.
    #[serde(default = "default_timeout", deserialize_with = "duration")]
    pub timeout: Duration,
    /// A file with certificates (PEM) that are trusted beside those the machine trusts.
    #[serde(default)]
    pub root_certificate: Option<PathBuf>,
}

/// Settings of alerts that cannot work, all of them at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of alerts cannot work: {}", mistakes.join("; "))]
pub struct BadConfig {
    /// What is wrong and what to do, each with its place.
    pub mistakes: Vec<String>,
}

impl Config {
    /// Looks for mistakes, without trying any channel.
    ///
    /// # Errors
    /// Every mistake there is.
    pub fn check(&self) -> Result<(), BadConfig> {
        let email = self.email.iter().flat_map(Email::mistakes);
        let webhook = self.webhook.iter().flat_map(Webhook::mistakes);
        let no_file = self.file.as_ref().filter(|path| path.as_os_str().is_empty());
        let file = no_file.map(|_| "alerts.file is empty: name a file, or leave the line out".to_owned());
        let mistakes: Vec<String> = email.chain(webhook).chain(file).collect();
        if mistakes.is_empty() { Ok(()) } else { Err(BadConfig { mistakes }) }
    }
}

impl Email {
    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(match self.security {
            Security::StartTls => 587,
            Security::Tls => 465,
            Security::None => 25,
        })
    }

    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.host.is_empty() || self.host.contains(|c: char| c.is_whitespace() || c == '/' || c == '@') {
            mistakes.push(format!(
                "alerts.email.host: `{}` is no host: write its name or address alone",
                self.host
            ));
        }
        if self.port == Some(0) {
            mistakes.push("alerts.email.port must be 1 to 65535".to_owned());
        }
        if self.security == Security::None && !is_loopback(&self.host) {
            mistakes.push(format!(
                "alerts.email.security = \"none\" is for a server on this machine, and `{}` is none: use \
                 \"starttls\" or \"tls\"",
                self.host
            ));
        }
        if self.user.is_some() != self.password.is_some() {
            mistakes.push(
                "alerts.email.user and alerts.email.password go together: set both or neither".to_owned(),
            );
        }
        mistakes.extend(mailbox("alerts.email.from", &self.from).err());
        if self.to.is_empty() || self.to.len() > MOST_RECIPIENTS {
            mistakes.push(format!(
                "alerts.email.to must name 1 to {MOST_RECIPIENTS} recipients, and names {}: for more, use a list",
                self.to.len()
            ));
        }
        let mut seen = HashSet::new();
        for to in &self.to {
            match mailbox("alerts.email.to", to) {
                Err(mistake) => mistakes.push(mistake),
                Ok(mailbox) if !seen.insert(mailbox.email.to_string()) => {
                    mistakes
                        .push(format!("alerts.email.to: `{}` is there twice: name it once", mailbox.email));
                }
                Ok(_) => {}
            }
        }
        mistakes.extend(late("alerts.email.timeout", self.timeout));
        mistakes
    }
}

impl Webhook {
    fn mistakes(&self) -> Vec<String> {
        let url = Url::parse(self.url.reveal()).map_err(|why| why.to_string()).and_then(|url| {
            if !matches!(url.scheme(), "http" | "https") {
                return Err("it begins with neither http:// nor https://".to_owned());
            }
            if !url.username().is_empty() || url.password().is_some() {
                return Err("a name or password before the host is not sent".to_owned());
            }
            Ok(())
        });
        let url = url.err().map(|why| format!("alerts.webhook.url: {why}; write it like https://host/path"));
        url.into_iter().chain(late("alerts.webhook.timeout", self.timeout)).collect()
    }
}

/// A mail address of the setting at this place.
pub(super) fn mailbox(place: &str, text: &str) -> Result<Mailbox, String> {
    let no_address = |why: &dyn fmt::Display| {
        format!("{place}: `{text}` is no mail address ({why}): write name@host or Name <name@host>")
    };
    if text.contains(char::is_control) {
        return Err(no_address(&"it holds a control character"));
    }
    text.parse().map_err(|why: lettre::address::AddressError| no_address(&why))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULT_TIMEOUT;

    fn mistakes(toml: &str) -> Vec<String> {
        let config: Config = toml::from_str(toml).unwrap();
        config.check().err().map(|bad| bad.mistakes).unwrap_or_default()
    }

    #[test]
    fn everything_can_be_left_out_or_set() {
        assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
        let config: Config = toml::from_str(
            r#"
            file = "alerts.jsonl"
            [email]
            host = "smtp.example.com"
            security = "tls"
            user = "backstitch"
            password = "hush"
            from = "Backstitch <backstitch@example.com>"
            to = ["ops@example.com"]
            timeout = "5s"
            [webhook]
            url = "https://chat.example.com/hooks/hush"
            "#,
        )
        .unwrap();
        config.check().unwrap();
        let email = config.email.as_ref().unwrap();
        assert_eq!((email.port(), email.timeout), (465, Duration::from_secs(5)));
        assert_eq!(config.webhook.as_ref().unwrap().timeout, DEFAULT_TIMEOUT);
        assert!(!format!("{config:?}").contains("hush"), "secrets are not shown");
    }

    #[test]
    fn a_setting_that_does_not_exist_is_refused() {
        let unknown =
            toml::from_str::<Config>("[email]\nhost = 'a'\nfrom = 'a@b'\nto = []\ntls = true").unwrap_err();
        assert!(unknown.to_string().contains("unknown field `tls`"), "{unknown}");
    }

    #[test]
    fn all_mistakes_are_told_at_once_each_with_its_place() {
        let found = mistakes(
            r#"
            file = ""
            [email]
            host = "smtp://a"
            port = 0
            security = "none"
            user = "me"
            from = "nobody"
            to = ["ops@example.com", "two@\nexample.com"]
            timeout = "1h"
            [webhook]
            url = "ftp://example.com"
            timeout = "1ms"
            "#,
        );
        let places = ["host", "port", "security", "user", "from", "to:", "timeout"]
            .map(|it| format!("alerts.email.{it}"));
        let others = ["alerts.webhook.url", "alerts.webhook.timeout", "alerts.file"].map(str::to_owned);
        let expected: Vec<String> = places.into_iter().chain(others).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (mistake, place) in found.iter().zip(&expected) {
            assert!(mistake.starts_with(place), "{mistake} is not about {place}");
        }
    }

    #[test]
    fn only_a_server_on_this_machine_is_talked_to_in_the_clear() {
        let email = |host: &str| {
            format!(
                "[email]\nhost = '{host}'\nsecurity = 'none'\nfrom = 'a@example.com'\nto = ['b@example.com']"
            )
        };
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "::1"] {
            assert!(mistakes(&email(host)).is_empty(), "{host}");
        }
        for host in ["smtp.example.com", "10.0.0.1", "localhost.example.com", "::2"] {
            assert_eq!(mistakes(&email(host)).len(), 1, "{host}");
        }
    }

    #[test]
    fn an_address_of_a_webhook_is_not_shown_by_its_mistake() {
        let found = mistakes("[webhook]\nurl = 'https://user:hush@example.com/hush'");
        assert!(found.len() == 1 && !found[0].contains("hush"), "{found:?}");
    }
}
