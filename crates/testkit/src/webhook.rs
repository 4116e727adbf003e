//! A receiver of webhooks.

use serde_json::Value;
use tokio::io::{self, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its request line.
    pub line: String,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl Request {
    /// The value of a header.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map_or_else(|| panic!("no header {name}: {:?}", self.headers), |(_, value)| value.as_str())
    }
}

/// A server that receives webhooks on a free loopback port.
pub struct Receiver {
    port: u16,
    requests: mpsc::UnboundedReceiver<Request>,
}

impl Receiver {
    /// Responds with these in turn, repeating the last one: `204 No Content`.
    ///
    /// # Panics
    /// When there is no free port, or no response.
    pub async fn answering(answers: &[&str]) -> Self {
        let (listener, port) = listen().await.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        let (heard, requests) = mpsc::unbounded_channel();
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        assert!(!answers.is_empty(), "give something to answer");
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let answer = &answers[number.min(answers.len() - 1)];
                let request = exchange(stream, answer).await;
                let request = request.unwrap_or_else(|error| panic!("this is no webhook: {error}"));
                if heard.send(request).is_err() {
                    return;
                }
            }
        });
        Self { port, requests }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?secret=hush", self.port)
    }

    /// Waits for the next request.
    ///
    /// # Panics
    /// When a request is no webhook.
    pub async fn next(&mut self) -> Request {
        self.requests.recv().await.unwrap_or_else(|| panic!("the receiver ended"))
    }

    /// Whether no unread request has arrived.
    pub fn is_idle(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}

async fn listen() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

async fn exchange(stream: TcpStream, answer: &str) -> io::Result<Request> {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut lines = lines.into_iter();
    let line = lines.next().unwrap_or_default();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    let mut request = Request { line, headers, body: Value::Null };
    let mut body = vec![0; request.header("content-length").parse().map_err(io::Error::other)?];
    stream.read_exact(&mut body).await?;
    request.body = serde_json::from_slice(&body)?;
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    Ok(request)
}
