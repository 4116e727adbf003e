//! A POST request to an address that the operator chose. It may be a private one.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::Payload;
use backstitch::clock::Clock;
use backstitch::outbox::TopicPattern;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{Settings, Topic};
use crate::outgoing::reach::Anywhere;
use crate::outgoing::{self, Address, Body, Client, Connections, certificates, header, reason, retry_after};
use crate::readable;
use crate::settings::Secret;

/// The longest answer that is kept, in bytes.
const ANSWER: usize = 64 * 1024;
/// Connections that nobody uses and that are kept all the same.
const KEPT: usize = 64;
/// Headers that a request has besides those of the settings, the host among them.
const HEADERS: usize = 8;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TOPIC: HeaderName = HeaderName::from_static("x-backstitch-topic");
const IN_DOUBT: HeaderName = HeaderName::from_static("x-backstitch-in-doubt");

/// A POST request with the payload as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Where it goes.
    pub url: String,
    /// Headers that every request has.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// A file with certificates (PEM) that are trusted beside those the machine trusts.
    #[serde(default)]
    pub root_certificate: Option<PathBuf>,
}

impl Settings for Http {
    fn mistakes(&self, place: &str, _pattern: Option<&TopicPattern>) -> Vec<String> {
        let url = Address::read(&self.url).err().unwrap_or_default();
        let url = url.into_iter().map(|why| format!("{place}.url {why}"));
        let headers = self.headers().err().unwrap_or_default();
        url.chain(headers.into_iter().map(|why| format!("{place}.{why}"))).collect()
    }

    fn sink(&self, topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String> {
        let address = Address::read(&self.url).map_err(|wrong| format!("url {}", wrong.join("; ")))?;
        let headers = self.headers().map_err(|wrong| wrong.join("; "))?;
        let trusted = certificates::in_file(self.root_certificate.as_deref())?;
        // A little less than a send may take, so that it can say that nothing was sent.
        let made_within = topic.timeout * 9 / 10;
        let connections =
            Connections { made_within, kept_per_host: KEPT, trusted, reach: Arc::new(Anywhere) };
        let client = connections.client().map_err(|why| format!("root_certificate: {why}"))?;
        let clock = topic.clock.clone();
        Ok(Arc::new(Post { client, uri: address.uri, headers, timeout: topic.timeout, clock }))
    }
}

impl Http {
    /// The headers of the settings; or all that is wrong with them, each with its name.
    fn headers(&self) -> Result<HeaderMap, Vec<String>> {
        let mut headers = HeaderMap::new();
        let mut wrong = Vec::new();
        for (written, value) in &self.headers {
            let name = header::name(written);
            let header = name.and_then(|name| Ok((name, header::value(value.reveal())?)));
            let why = match header {
                Ok((name, _)) if headers.contains_key(&name) => header::TWICE,
                Ok((name, value)) => {
                    headers.insert(name, value);
                    continue;
                }
                Err(why) => why,
            };
            wrong.push(format!("headers.{} {why}", backstitch_api::validate::quoted(written)));
        }
        if wrong.is_empty() { Ok(headers) } else { Err(wrong) }
    }
}

struct Post {
    client: Client,
    uri: Uri,
    headers: HeaderMap,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Sink for Post {
    fn name(&self) -> &'static str {
        "http"
    }

    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        let deadline = Instant::now() + self.timeout;
        let request = self.request(message)?;
        let response = match timeout_at(deadline, self.client.request(request)).await {
            Ok(answered) => answered.map_err(|error| unanswered(&error))?,
            Err(_) => {
                return Err(Undelivered::new("timeout", format!("no answer within {:?}", self.timeout)));
            }
        };
        let status = response.status().as_u16();
        let retry_after = retry_after::read(response.headers(), || self.clock.now());
        // The status says it all: a body that does not end changes nothing.
        let body = timeout_at(deadline, Body::read(response, ANSWER)).await.unwrap_or_else(|_| Body::late());
        judge(status, &body).map_err(|error| error.with_retry_after(retry_after))
    }
}

impl Post {
    fn request(&self, message: &Message) -> Result<Request<Full<Bytes>>, Undelivered> {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + HEADERS);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(USER_AGENT, outgoing::USER_AGENT);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, header(&message.idempotency_key)?);
        headers.insert(TOPIC, header(&message.topic)?);
        if message.in_doubt {
            headers.insert(IN_DOUBT, HeaderValue::from_static("true"));
        }
        let mut request = Request::new(Full::from(message.payload.as_str().to_owned()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn header(text: &str) -> Result<HeaderValue, Undelivered> {
    HeaderValue::try_from(header::escaped(text))
        .map_err(|why| Undelivered::new("bad_key", format!("the key cannot stand in a header: {why}")))
}

/// A success is one whatever its body is like: only an answer that can be read is kept.
fn judge(status: u16, body: &Body) -> Result<Receipt, Undelivered> {
    let told = body.said(status);
    match status {
        200..300 => Ok(Receipt { answer: answer(body) }),
        300..400 => {
            let told = format!("{told}; redirects are not followed: give the address it leads to");
            Err(Undelivered::new("redirect", told))
        }
        _ => Err(Undelivered::new(format!("http_{status}"), told)),
    }
}

fn answer(body: &Body) -> Option<Payload> {
    let Body::Whole(bytes) = body else { return None };
    // Whoever lists messages must be able to read all of them.
    readable::check(bytes).ok()?;
    Payload::parse(std::str::from_utf8(bytes).ok()?).ok()
}

fn unanswered(error: &legacy::Error) -> Undelivered {
    let why = reason(error);
    if error.is_connect() {
        return if is_refusal(error) {
            Undelivered::new("connection_refused", format!("nobody listens there: {why}"))
        } else {
            Undelivered::new("cannot_connect", format!("cannot connect: {why}"))
        };
    }
    let speaks_no_http = causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse));
    if speaks_no_http {
        return Undelivered::new("bad_answer", format!("the answer is no HTTP: {why}"));
    }
    Undelivered::new("connection_lost", format!("the connection was lost before the answer came: {why}"))
}

fn is_refusal(error: &legacy::Error) -> bool {
    let refused = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
    causes(error).any(|cause| cause.downcast_ref().is_some_and(refused))
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}
