//! Where alerts go.

use std::path::PathBuf;
use std::time::Duration;

use backstitch_modules::alerts;
use serde::{Deserialize, Serialize};

use super::text::{self, Secret};

/// Where alerts go, besides the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alerts {
    /// To the end of this file, one line of JSON each: for development.
    #[serde(with = "text::optional")]
    pub file: Option<String>,
    /// By mail.
    pub email: Email,
    /// As a POST request.
    pub webhook: Webhook,
}

/// Mail through an SMTP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Email {
    /// The server's name or address; without one no mail is sent.
    #[serde(with = "text::optional")]
    pub host: Option<String>,
    /// Its port; 0 stands for the usual one.
    pub port: u16,
    /// How the connection is kept private.
    pub security: Security,
    /// Whom to log in as.
    #[serde(with = "text::optional")]
    pub user: Option<String>,
    /// The user's password.
    #[serde(with = "text::secret")]
    pub password: Option<Secret>,
    /// Whom mails come from.
    #[serde(with = "text::optional")]
    pub from: Option<String>,
    /// Whom they go to.
    pub to: Vec<String>,
    /// How long one mail may take.
    #[serde(with = "text::duration")]
    pub timeout: Duration,
    /// A file with certificates that are trusted beside those the machine trusts.
    #[serde(with = "text::optional")]
    pub root_certificate: Option<String>,
}

/// How a connection to a mail server is kept private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// Where it goes; without it none is sent.
    #[serde(with = "text::secret")]
    pub url: Option<Secret>,
    /// How long one request may take.
    #[serde(with = "text::duration")]
    pub timeout: Duration,
    /// A file with certificates that are trusted beside those the machine trusts.
    #[serde(with = "text::optional")]
    pub root_certificate: Option<String>,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl Default for Email {
    fn default() -> Self {
        Self {
            host: None,
            port: 0,
            security: Security::StartTls,
            user: None,
            password: None,
            from: None,
            to: Vec::new(),
            timeout: TIMEOUT,
            root_certificate: None,
        }
    }
}

impl Default for Webhook {
    fn default() -> Self {
        Self { url: None, timeout: TIMEOUT, root_certificate: None }
    }
}

impl Alerts {
    /// The same as the product takes it.
    #[must_use]
    pub fn channels(&self) -> alerts::Config {
        alerts::Config {
            email: self.email.host.as_ref().map(|host| self.email.channel(host)),
            webhook: self.webhook.url.as_ref().map(|url| alerts::Webhook {
                url: revealed(url),
                timeout: self.webhook.timeout,
                root_certificate: self.webhook.root_certificate.as_ref().map(PathBuf::from),
            }),
            file: self.file.as_ref().map(PathBuf::from),
        }
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = self.channels().check().err().map(|bad| bad.mistakes).unwrap_or_default();
        if self.email.host.is_none() && (self.email.from.is_some() || !self.email.to.is_empty()) {
            mistakes
                .push("alerts.email.host is missing: name the SMTP server that sends the mail".to_owned());
        }
        mistakes
    }
}

impl Email {
    fn channel(&self, host: &str) -> alerts::Email {
        alerts::Email {
            host: host.to_owned(),
            port: Some(self.port).filter(|port| *port != 0),
            security: match self.security {
                Security::StartTls => alerts::Security::StartTls,
                Security::Tls => alerts::Security::Tls,
                Security::None => alerts::Security::None,
            },
            user: self.user.clone(),
            password: self.password.as_ref().map(revealed),
            from: self.from.clone().unwrap_or_default(),
            to: self.to.clone(),
            timeout: self.timeout,
            root_certificate: self.root_certificate.as_ref().map(PathBuf::from),
        }
    }
}

fn revealed(secret: &Secret) -> alerts::Secret {
    alerts::Secret::new(String::from_utf8_lossy(secret.as_bytes()))
}
