//! A server other than Backstitch: every connection gets the same response.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

type Answer = dyn Fn(&str) -> Vec<u8> + Send + Sync;

/// An answer with this status and body.
pub(crate) fn answer(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Stub {
    /// Says this, and hangs up.
    pub(crate) async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::replying(move |_| answer.clone()).await
    }

    /// Says what follows from a request, and hangs up.
    pub(crate) async fn replying(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer: Arc<Answer> = Arc::new(answer);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(say(stream, answer.clone()));
            }
        });
        Self { address, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Answers every request with this status and body.
    pub(crate) async fn answering(status: &str, content_type: &str, body: &str) -> Self {
        Self::saying(answer(status, content_type, body)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn say(mut stream: TcpStream, answer: Arc<Answer>) {
    let mut request = vec![0; 64 * 1024];
    // A request of these tests arrives in one piece; a client without one has disconnected.
    if let Ok(length) = stream.read(&mut request).await {
        let _ = stream.write_all(&answer(&String::from_utf8_lossy(&request[..length]))).await;
        let _ = stream.shutdown().await;
    }
}
