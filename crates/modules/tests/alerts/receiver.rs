//! Whoever gets a webhook.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap()
    }
}

pub(crate) struct Receiver {
    port: u16,
    requests: mpsc::UnboundedReceiver<Request>,
}

impl Receiver {
    /// Answers with these, one after the other, and with the last one from then on.
    pub(crate) async fn answering(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, requests) = mpsc::unbounded_channel();
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = &answers[number.min(answers.len() - 1)];
                if heard.send(exchange(stream, answer).await).is_err() {
                    return;
                }
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?secret=hush", self.port)
    }

    pub(crate) async fn next(&mut self) -> Request {
        self.requests.recv().await.unwrap()
    }

    /// Whether nothing has come that nobody has waited for.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}

async fn exchange(stream: TcpStream, answer: &str) -> Request {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let line = lines.remove(0);
    let headers: Vec<(String, String)> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut request = Request { line, headers, body: Value::Null };
    let mut body = vec![0; request.header("content-length").parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    request.body = serde_json::from_slice(&body).unwrap();
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    request
}
