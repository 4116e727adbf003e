//! A cheap client: one connection per user, without a pool.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, lookup_host};

use super::Failure;

/// The server's address and key.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    key: Option<String>,
}

/// One user's connection.
pub(super) struct Connection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
}

/// A response.
pub(crate) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The response, if it is successful.
    pub(crate) fn good(self) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        Err(format!("the server answered {}: {}", self.status, String::from_utf8_lossy(&self.body)).into())
    }
}

/// Resolves `http://HOST:PORT`.
pub(super) async fn address(url: &str) -> Result<SocketAddr, Failure> {
    let place = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let place = if place.contains(':') { place.to_owned() } else { format!("{place}:80") };
    let found = lookup_host(&place).await.map_err(|why| format!("`{url}` leads nowhere: {why}"))?;
    found.into_iter().next().ok_or_else(|| format!("`{url}` leads nowhere").into())
}

impl Client {
    pub(crate) fn new(address: SocketAddr, key: Option<String>) -> Self {
        Self { address, key }
    }

    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.address).await.map_err(|why| {
            format!("no server answers at {}: {why}; start one, or leave the address out", self.address)
        })?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with its sender, and an error shows in the next call.
        tokio::spawn(connection);
        Ok(Connection { client: self.clone(), sender })
    }

    /// One call on a new connection.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpResponse, Failure> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        self.connect().await?.call(method, path, body.unwrap_or_default()).await
    }
}

impl Connection {
    /// The head of a response; the body is read later.
    pub(super) async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        if let Some(key) = &self.client.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<HttpResponse, Failure> {
        let response = self.open(method, path, body).await?;
        let status = response.status().as_u16();
        Ok(HttpResponse { status, body: response.into_body().collect().await?.to_bytes() })
    }
}
