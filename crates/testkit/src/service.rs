//! An HTTP service with scripted, raw responses.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The reaction to a call.
pub enum Reply {
    /// Sends these bytes and keeps the connection open for the next call.
    Bytes(Vec<u8>),
    /// Sends these bytes and closes the connection.
    Last(Vec<u8>),
    /// Sends these bytes, then nothing, and keeps the connection open.
    Stall(Vec<u8>),
    /// Sends this reply when the gate permits.
    Gated(Arc<Semaphore>, Box<Reply>),
}

impl Reply {
    /// A valid response.
    #[must_use]
    pub fn http(status: u16, body: &str) -> Self {
        Self::with_headers(status, "", body)
    }

    /// A valid response with headers, each ended by CRLF.
    #[must_use]
    pub fn with_headers(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: {length}\r\n\r\n");
        Self::Bytes([head.as_bytes(), body.as_bytes()].concat())
    }
}

/// A received call.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its request line.
    pub line: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    from: SocketAddr,
}

impl Heard {
    /// Its body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A listening service.
pub struct Service {
    address: SocketAddr,
    books: Arc<Books>,
}

#[derive(Default)]
struct Books {
    heard: Mutex<Vec<Heard>>,
    /// Running calls, and their maximum so far.
    busy: Mutex<(usize, usize)>,
}

type Script = Arc<dyn Fn(usize, &Heard) -> Reply + Send + Sync>;

impl Service {
    /// A service that replies by this script; calls count from 1.
    pub async fn scripted(script: impl Fn(usize, &Heard) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let books = Arc::new(Books::default());
        let (script, shared): (Script, _) = (Arc::new(script), books.clone());
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                tokio::spawn(serve(stream, from, script.clone(), shared.clone()));
            }
        });
        Self { address, books }
    }

    /// A service with one reply.
    pub async fn always(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Self {
        Self::scripted(move |_, _| reply()).await
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/call", self.address)
    }

    /// The received calls in order.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.books.heard.lock().unwrap().clone()
    }

    /// The number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.heard().iter().map(|heard| heard.from).collect::<BTreeSet<_>>().len()
    }

    /// The maximum of concurrent calls.
    #[must_use]
    pub fn busiest(&self) -> usize {
        self.books.busy.lock().unwrap().1
    }
}

/// An address without a listener.
pub async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/call", listener.local_addr().unwrap())
}

/// A server that sends data before a request, and no TLS.
pub async fn babbler() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    format!("https://{address}/call")
}

async fn serve(stream: TcpStream, from: SocketAddr, script: Script, books: Arc<Books>) {
    let mut stream = BufReader::new(stream);
    while let Some(heard) = hear(&mut stream, from).await {
        let nth = {
            let mut all = books.heard.lock().unwrap();
            all.push(heard.clone());
            all.len()
        };
        books.begin();
        let goes_on = answer(&mut stream, script(nth, &heard)).await;
        books.end();
        if !goes_on {
            return;
        }
    }
}

impl Books {
    fn begin(&self) {
        let mut busy = self.busy.lock().unwrap();
        busy.0 += 1;
        busy.1 = busy.1.max(busy.0);
    }

    fn end(&self) {
        self.busy.lock().unwrap().0 -= 1;
    }
}

/// Whether the connection can receive another call.
async fn answer(stream: &mut BufReader<TcpStream>, mut reply: Reply) -> bool {
    while let Reply::Gated(gate, then) = reply {
        gate.acquire().await.unwrap().forget();
        reply = *then;
    }
    // The caller may have disconnected.
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).await.is_ok(),
        Reply::Last(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            false
        }
        Reply::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            false
        }
        Reply::Gated(..) => unreachable!("opened above"),
    }
}

async fn hear(stream: &mut BufReader<TcpStream>, from: SocketAddr) -> Option<Heard> {
    let line = line(stream).await?;
    let mut headers = BTreeMap::new();
    loop {
        let line = self::line(stream).await?;
        let Some((name, value)) = line.split_once(": ") else { break };
        let said: &mut String = headers.entry(name.to_lowercase()).or_default();
        // Repeated headers form a list.
        said.push_str(if said.is_empty() { "" } else { ", " });
        said.push_str(value);
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Heard { line, headers, body: String::from_utf8(body).unwrap(), from })
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = Vec::new();
    let read = stream.read_until(b'\n', &mut line).await.ok()?;
    (read > 0).then(|| String::from_utf8(line).unwrap().trim_end().to_owned())
}
