//! A signed-in user who fetches pages.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;
use super::pages::ConsolePage;

/// A minimal browser: one connection and a cookie.
pub(super) struct Visitor {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    cookie: String,
}

/// The result of a fetch.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) took: Duration,
    pub(super) bytes: usize,
}

impl Visitor {
    pub(super) async fn sign_in(address: SocketAddr, key: &str) -> Result<Self, Failure> {
        let mut visitor = Self { address, sender: connect(address).await?, cookie: String::new() };
        let form = form_urlencoded::Serializer::new(String::new()).append_pair("key", key).finish();
        let answer = visitor.ask(Method::POST, "/login", form).await?;
        let cookie = answer.headers().get(SET_COOKIE).ok_or("signing in gave no session")?.to_str()?;
        visitor.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        answer.into_body().collect().await?;
        Ok(visitor)
    }

    /// Fetches a page from the request to its last byte; of a stream, only its head.
    pub(super) async fn fetch(&mut self, page: &ConsolePage) -> Result<Seen, Failure> {
        let began = Instant::now();
        let answer = self.ask(Method::GET, &page.address, String::new()).await?;
        let status = answer.status().as_u16();
        let expected: &[u16] = if page.is_there { &[200, 303] } else { &[404] };
        if !expected.contains(&status) {
            let text = answer.into_body().collect().await?.to_bytes();
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(format!("{} was answered with {status}: {text}", page.address).into());
        }
        if page.is_stream {
            let took = began.elapsed();
            // A stream does not end, and its connection can carry nothing else.
            self.sender = connect(self.address).await?;
            return Ok(Seen { took, bytes: 0 });
        }
        let bytes = answer.into_body().collect().await?.to_bytes().len();
        Ok(Seen { took: began.elapsed(), bytes })
    }

    async fn ask(&mut self, method: Method, path: &str, form: String) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.address.to_string());
        request = request.header(ACCEPT, "text/html");
        if !self.cookie.is_empty() {
            request = request.header(COOKIE, &self.cookie);
        }
        if !form.is_empty() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(Bytes::from(form)))?).await?)
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with its sender, and an error shows in the next call.
    tokio::spawn(connection);
    Ok(sender)
}
