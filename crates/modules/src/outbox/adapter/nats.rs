//! A stream of NATS `JetStream`. The broker tells a repeated message by its `Nats-Msg-Id`, and says when it has one on disk.

mod answer;
mod link;
mod window;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::{ConnectOptions, HeaderMap, HeaderValue, Request, ServerAddr};
use async_trait::async_trait;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use bytes::Bytes;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::{Settings, Topic};
use crate::outgoing::{self, certificates, header};
use crate::reading::quoted;
use crate::settings::Secret;
use link::{Link, Target};
use window::Watched;

const TOPIC: &str = "X-Backstitch-Topic";
const IN_DOUBT: &str = "X-Backstitch-In-Doubt";
/// A broker that does not answer three of these in a row is taken for gone.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A subject that a stream keeps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// The server: `nats://host:4222`, or `tls://…` for one that must speak TLS. Of a cluster several, with commas between.
    pub url: String,
    /// What messages are published to.
    pub subject: String,
    /// The stream that must acknowledge them.
    pub stream: String,
    /// Whom to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// The user's password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// A token to log in with instead.
    #[serde(default)]
    pub token: Option<Secret>,
    /// A file of credentials (a JWT and its seed) to log in with instead.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// A file with certificates (PEM) that are trusted beside those the machine trusts.
    #[serde(default)]
    pub root_certificate: Option<PathBuf>,
}

impl Settings for Nats {
    fn mistakes(&self, place: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        for server in self.url.split(',') {
            mistakes.extend(address_of(server).err().map(|why| format!("{place}.url: {why}")));
        }
        mistakes.extend(no_subject(&self.subject).map(|why| format!("{place}.subject: {why}")));
        if self.stream.is_empty() || self.stream.contains(|char: char| !is_of_a_name(char)) {
            mistakes.push(format!(
                "{place}.stream: `{}` is no stream's name: it has no blanks and none of . * > / \\",
                quoted(&self.stream)
            ));
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

    fn sink(&self, topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String> {
        let servers: Result<Vec<_>, _> = self.url.split(',').map(address_of).collect();
        let target = Target {
            servers: servers.map_err(|why| format!("url: {why}"))?,
            options: self.options(topic)?,
            subject: self.subject.clone(),
            watched: Arc::new(Watched::new(&self.stream, topic)),
        };
        let link = Arc::new(Link::to(target));
        if let Ok(runtime) = Handle::try_current() {
            let link = link.clone();
            let topic = topic.name.to_owned();
            // So that the operator hears of a broker that is down, or forgets too soon, before the first message does.
            runtime.spawn(async move {
                if let Err(error) = link.life().await {
                    tracing::warn!(%topic, %error, "no broker yet: it is tried again with every message");
                }
            });
        }
        Ok(Arc::new(Publisher {
            link,
            subject: self.subject.clone(),
            stream: self.stream.clone(),
            timeout: topic.timeout,
        }))
    }
}

impl Nats {
    fn options(&self, topic: &Topic<'_>) -> Result<ConnectOptions, String> {
        let options = if let Some(path) = &self.credentials {
            let unusable = |why: &dyn std::fmt::Display| {
                format!(
                    "credentials: `{}`: {why}; name a readable file with a JWT and its seed",
                    path.display()
                )
            };
            let text = std::fs::read_to_string(path).map_err(|why| unusable(&why))?;
            ConnectOptions::with_credentials(&text).map_err(|why| unusable(&why))?
        } else if let Some(token) = &self.token {
            ConnectOptions::with_token(token.reveal().to_owned())
        } else if let Some((user, password)) = self.user.clone().zip(self.password.as_ref()) {
            ConnectOptions::with_user_and_password(user, password.reveal().to_owned())
        } else {
            ConnectOptions::new()
        };
        let trusted = certificates::in_file(self.root_certificate.as_deref())?;
        let tls = outgoing::tls(trusted).map_err(|why| format!("root_certificate: {why}"))?;
        Ok(options
            .name(format!("backstitch {}", topic.name))
            .tls_client_config(tls)
            // A little less than a send may take, so that it can say that nothing was sent.
            .connection_timeout(topic.timeout * 9 / 10)
            .ping_interval(SIGN_OF_LIFE))
    }
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

fn no_subject(written: &str) -> Option<String> {
    let tokens_fit = written.split('.').all(|token| {
        !token.is_empty() && !token.contains(|char: char| char.is_whitespace() || char.is_control())
    });
    if !tokens_fit || written.contains(['*', '>']) {
        let written = quoted(written);
        return Some(format!(
            "`{written}` is no subject to publish to: write it like orders.placed, without * and >"
        ));
    }
    written
        .starts_with('$')
        .then(|| "subjects that begin with $ belong to the broker: choose another".to_owned())
}

fn is_of_a_name(char: char) -> bool {
    !char.is_whitespace() && !char.is_control() && !matches!(char, '.' | '*' | '>' | '/' | '\\')
}

struct Publisher {
    link: Arc<Link>,
    subject: String,
    stream: String,
    timeout: Duration,
}

#[async_trait]
impl Sink for Publisher {
    fn name(&self) -> &'static str {
        "nats"
    }

    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        let deadline = Instant::now() + self.timeout;
        let request = self.request(message)?;
        let Ok(life) = timeout_at(deadline, self.link.life()).await else {
            let told = format!("no connection to the broker within {:?}: nothing was sent", self.timeout);
            return Err(Undelivered::new("broker_down", told));
        };
        let life = life?;
        let Ok(answer) = timeout_at(deadline, life.ask(&self.subject, request)).await else {
            // Whatever is wrong with this connection, the next message need not find it out as well.
            life.give_up();
            let told = format!("the broker did not acknowledge within {:?}: it may have it", self.timeout);
            return Err(Undelivered::new("no_ack", told));
        };
        answer::judge(answer?, &self.subject, &self.stream)
    }
}

impl Publisher {
    fn request(&self, message: &Message) -> Result<Request, Undelivered> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, header(&message.idempotency_key)?);
        headers.insert(NATS_EXPECTED_STREAM, header(&self.stream)?);
        headers.insert(TOPIC, header(&message.topic)?);
        if message.in_doubt {
            headers.insert(IN_DOUBT, header("true")?);
        }
        let payload = Bytes::copy_from_slice(message.payload.as_str().as_bytes());
        // The deadline is the send's own.
        Ok(Request::new().headers(headers).payload(payload).timeout(None))
    }
}

fn header(text: &str) -> Result<HeaderValue, Undelivered> {
    header::escaped(text)
        .parse()
        .map_err(|why| Undelivered::new("bad_key", format!("the key cannot stand in a header: {why}")))
}
