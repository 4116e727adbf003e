//! The HTTP client of the command line.

use std::error::Error as _;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::problem::Refusal;
use super::text::shown;

/// The default server.
pub(crate) const USUAL_SERVER: &str = "http://127.0.0.1:7420";
/// Time limit for connecting.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a response: longer than any wait that is requested from the server.
const ANSWERED_WITHIN: Duration = Duration::from_secs(90);
/// The largest response: a page of the largest payloads fits.
const LARGEST_ANSWER: usize = 256 * 1024 * 1024;
/// The longest quotation of an unexpected response.
const QUOTED: usize = 200;
/// Characters that are not encoded in a path.
const IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a part of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, IN_A_PATH).to_string()
}

/// The address of a server: `http://HOST:PORT`, with an optional path prefix of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server(String);

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let example = "write it like http://127.0.0.1:7420";
        let written = written.trim();
        let scheme = if written.contains("://") { "" } else { "http://" };
        let with_scheme = format!("{scheme}{written}");
        let uri: Uri = with_scheme.parse().map_err(|why| format!("it is no address ({why}): {example}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(format!("it is neither http nor https: {example}"));
        }
        match uri.authority() {
            None => Err(format!("it names no host: {example}")),
            Some(authority) if authority.as_str().contains('@') => {
                Err("it holds a user or a password: give an API key by --key-file instead".to_owned())
            }
            Some(_) if uri.query().is_some() => Err(format!("it has a query: {example}")),
            Some(_) => Ok(Self(with_scheme.trim_end_matches('/').to_owned())),
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: Vec<(HeaderName, String)>,
    body: Option<(&'static str, Bytes)>,
}

impl Ask {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: None }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds query parameters.
    pub(crate) fn query<K: AsRef<str>, V: AsRef<str>>(mut self, query: &[(K, V)]) -> Self {
        if !query.is_empty() {
            let written = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            self.path = format!("{}?{written}", self.path);
        }
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.body = Some((content_type, body.into()));
        self
    }
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    /// The body.
    pub(crate) text: String,
    /// The parsed body; `null` if it is empty.
    pub(crate) value: Value,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "no server answers at {server}: {why}\n  start one with `backstitch serve`, or say where it is with --server or \
         BACKSTITCH_SERVER"
    )]
    Unreachable { server: Server, why: String },
    #[error("the connection to {server} broke off: {why}; what was asked for may have been done or not")]
    Lost { server: Server, why: String },
    #[error(
        "{server} has not answered within {ANSWERED_WITHIN:?}; what was asked for may have been done or not"
    )]
    Late { server: Server },
    #[error(
        "what answers at {server} is not a Backstitch server: {said}\n  check --server and BACKSTITCH_SERVER"
    )]
    Stranger { server: Server, said: String },
    #[error("what stands before {server} cannot reach it now: {said}")]
    Gateway { server: Server, said: String },
    #[error("{0} cannot be put into a request: it has a character that no header may have")]
    BadHeader(&'static str),
    #[error("certificates cannot be loaded: {0}")]
    Certificates(std::io::Error),
    #[error("{0}")]
    Refused(Box<Refusal>),
}

impl Error {
    /// Whether a retry may help: a restarting server or its proxy responds like this.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Late { .. } | Self::Gateway { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 429 | 500..),
            Self::Stranger { .. } | Self::BadHeader(_) | Self::Certificates(_) => false,
        }
    }

    /// Whether the request may have been carried out.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Late { .. } | Self::Gateway { .. } => true,
            Self::Refused(refusal) => refusal.status >= 500,
            Self::Unreachable { .. } | Self::Stranger { .. } | Self::BadHeader(_) | Self::Certificates(_) => {
                false
            }
        }
    }

    /// The reason in a few words.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Unreachable { why, .. } | Self::Lost { why, .. } => why.clone(),
            Self::Late { .. } => "no answer in time".to_owned(),
            Self::Stranger { said, .. } | Self::Gateway { said, .. } => said.clone(),
            Self::Refused(refusal) => refusal.detail.clone(),
            Self::BadHeader(_) | Self::Certificates(_) => self.to_string(),
        }
    }

    /// The server's problem, if there is one.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// Sends requests to one server with one key.
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) server: Server,
    key: Option<HeaderValue>,
}

impl Client {
    pub(crate) fn new(server: Server, key: Option<&str>) -> Result<Self, Error> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECTED_WITHIN));
        let builder = hyper_rustls::HttpsConnectorBuilder::new();
        let builder = if server.0.starts_with("https:") {
            let ring = rustls::crypto::ring::default_provider();
            builder.with_provider_and_native_roots(ring).map_err(Error::Certificates)?
        } else {
            // Without certificates on the machine, no server is trusted, and plain HTTP still works.
            builder.with_tls_config(
                without_certificates().map_err(|why| Error::Certificates(std::io::Error::other(why)))?,
            )
        };
        let https = builder.https_or_http().enable_http1().wrap_connector(connector);
        let http = legacy::Client::builder(TokioExecutor::new()).build(https);
        let key = key.map(|key| {
            let mut header = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| Error::BadHeader("the API key"))?;
            header.set_sensitive(true);
            Ok(header)
        });
        Ok(Self { http, server, key: key.transpose()? })
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a request and reads the response.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<ApiResponse, Error> {
        let answered = tokio::time::timeout(ANSWERED_WITHIN, async {
            let response = self.open(ask).await?;
            self.whole(response).await
        });
        answered.await.unwrap_or_else(|_| Err(Error::Late { server: self.server.clone() }))
    }

    /// Sends a request and returns the response's head; the body is read later.
    pub(crate) async fn open(&self, ask: Ask) -> Result<Response<Incoming>, Error> {
        let mut request = hyper::Request::builder()
            .method(ask.method)
            .uri(format!("{}{}", self.server, ask.path))
            .header(USER_AGENT, concat!("backstitch-cli/", env!("CARGO_PKG_VERSION")));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let body = ask.body.map(|(content_type, body)| {
            request = std::mem::take(&mut request).header(CONTENT_TYPE, content_type);
            body
        });
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|_| Error::BadHeader("what was given"))?;
        let sent = tokio::time::timeout(ANSWERED_WITHIN, self.http.request(request));
        let response = match sent.await {
            Err(_) => return Err(Error::Late { server: self.server.clone() }),
            Ok(Err(why)) => return Err(self.unanswered(&why)),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    fn unanswered(&self, why: &legacy::Error) -> Error {
        let server = self.server.clone();
        let causes = std::iter::successors(why.source(), |&cause| cause.source());
        let told = causes.last().map_or_else(|| why.to_string(), ToString::to_string);
        let told = shown(&told);
        if why.is_connect() {
            return Error::Unreachable { server, why: told };
        }
        let parse = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
        };
        if std::iter::successors(why.source(), |&cause| cause.source()).any(parse) {
            return Error::Stranger { server, said: "it does not speak HTTP".to_owned() };
        }
        Error::Lost { server, why: told }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<ApiResponse, Error> {
        let status = response.status();
        let text = self.text(response).await?;
        if text.trim().is_empty() {
            return Ok(ApiResponse { text, value: Value::Null });
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(ApiResponse { text, value }),
            Err(_) => Err(self.stranger(&format!("it answered {status} with {}", quoted(&text)))),
        }
    }

    async fn text(&self, response: Response<Incoming>) -> Result<String, Error> {
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body =
            body.map_err(|why| Error::Lost { server: self.server.clone(), why: shown(&why.to_string()) })?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    async fn refused(&self, response: Response<Incoming>) -> Error {
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let read = tokio::time::timeout(ANSWERED_WITHIN, self.text(response)).await;
        let text = match read {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return error,
            Err(_) => return Error::Late { server: self.server.clone() },
        };
        if let Some(mut refusal) = Refusal::read(status.as_u16(), &text, &self.server, self.has_key()) {
            refusal.wait = wait;
            return Error::Refused(Box::new(refusal));
        }
        let said = format!("it answered {status} with {}", quoted(&text));
        // A proxy responds like this while its server restarts.
        let is_gateway = matches!(status.as_u16(), 502..=504);
        if is_gateway { Error::Gateway { server: self.server.clone(), said } } else { self.stranger(&said) }
    }

    /// An error for a response that no Backstitch server sends.
    pub(crate) fn stranger(&self, said: &str) -> Error {
        Error::Stranger { server: self.server.clone(), said: said.to_owned() }
    }
}

fn quoted(text: &str) -> String {
    if text.trim().is_empty() {
        return "nothing".to_owned();
    }
    let start: String = text.trim().chars().take(QUOTED).collect();
    let rest = if start.len() < text.trim().len() { "…" } else { "" };
    format!("`{}{rest}`", shown(&start))
}

fn without_certificates() -> Result<rustls::ClientConfig, rustls::Error> {
    let ring = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_with_or_without_its_scheme() {
        for (written, read) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("127.0.0.1:7420/", "http://127.0.0.1:7420"),
            ("localhost", "http://localhost"),
            ("https://sagas.example/backstitch/", "https://sagas.example/backstitch"),
            ("[::1]:7420", "http://[::1]:7420"),
        ] {
            assert_eq!(written.parse::<Server>().unwrap().to_string(), read);
        }
    }

    #[test]
    fn invalid_server_address_is_refused_with_an_example() {
        for written in ["", "http://", "ftp://host", "http://host/?a=b", "a b"] {
            let why = written.parse::<Server>().unwrap_err();
            assert!(why.contains("http://127.0.0.1:7420"), "{written}: {why}");
        }
        assert!("http://ada:pw@host".parse::<Server>().unwrap_err().contains("--key-file"));
    }

    #[test]
    fn a_part_of_a_path_cannot_become_another_path() {
        assert_eq!(segment("a/b?c#d e%ü"), "a%2Fb%3Fc%23d%20e%25%C3%BC");
        assert_eq!(segment("order-1.2_x~"), "order-1.2_x~");
    }
}
