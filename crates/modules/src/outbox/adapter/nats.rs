//! A stream of NATS `JetStream`. The broker tells a repeated message by its `Nats-Msg-Id`, and says when it has one on disk.

mod answer;
mod link;
mod subjects;
mod window;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::{HeaderMap, HeaderValue, Request};
use async_trait::async_trait;
use backstitch::outbox::TopicPattern;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use bytes::Bytes;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::{Settings, Topic};
use crate::outgoing::header;
use crate::outgoing::nats::{Access, misnamed};
use crate::settings::Secret;
use link::{Link, Target};
use subjects::Subjects;
use window::Watched;

const TOPIC: &str = "X-Backstitch-Topic";
const IN_DOUBT: &str = "X-Backstitch-In-Doubt";

/// A subject that a stream keeps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// The server: `nats://host:4222`, or `tls://…` for one that must speak TLS. Of a cluster several, with commas between.
    pub url: String,
    /// What messages are published to. To what several topics share, the rest of each one's name is added; where nothing is
    /// written, they are subjects themselves.
    #[serde(default)]
    pub subject: Option<String>,
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
    fn mistakes(&self, place: &str, pattern: Option<&TopicPattern>) -> Vec<String> {
        let mut mistakes = self.access().mistakes(place);
        let subjects = Subjects::new(self.subject.as_deref(), pattern);
        mistakes.extend(subjects.err().map(|why| format!("{place}.{why}")));
        mistakes.extend(misnamed("stream", &self.stream).map(|why| format!("{place}.stream: {why}")));
        mistakes
    }

    fn sink(&self, topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String> {
        let subjects = Subjects::new(self.subject.as_deref(), topic.pattern.as_ref())?;
        let access = self.access();
        // A little less than a send may take, so that it can say that nothing was sent.
        let made_within = topic.timeout * 9 / 10;
        let target = Target {
            servers: access.servers()?,
            options: access.options(format!("backstitch {}", topic.name), made_within)?,
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
        Ok(Arc::new(Publisher { link, subjects, stream: self.stream.clone(), timeout: topic.timeout }))
    }
}

impl Nats {
    fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            user: self.user.as_deref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            credentials: self.credentials.as_deref(),
            root_certificate: self.root_certificate.as_deref(),
        }
    }
}

struct Publisher {
    link: Arc<Link>,
    subjects: Subjects,
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
        let subject = self.subjects.of(&message.topic)?;
        let request = self.request(message)?;
        let Ok(life) = timeout_at(deadline, self.link.life()).await else {
            let told = format!("no connection to the broker within {:?}: nothing was sent", self.timeout);
            return Err(Undelivered::new("broker_down", told));
        };
        let life = life?;
        let Ok(answer) = timeout_at(deadline, life.ask(&subject, request)).await else {
            // Whatever is wrong with this connection, the next message need not find it out as well.
            life.give_up();
            let told = format!("the broker did not acknowledge within {:?}: it may have it", self.timeout);
            return Err(Undelivered::new("no_ack", told));
        };
        answer::judge(answer?, &subject, &self.stream)
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
