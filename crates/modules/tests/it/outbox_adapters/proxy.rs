//! A network that loses acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Stands between a client and a broker.
pub(crate) struct Proxy {
    address: String,
    wire: Arc<Wire>,
}

#[derive(Default)]
struct Wire {
    /// The next answer to a message is lost, and its connection with it.
    loses_next: AtomicBool,
    lost: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn to(url: &str) -> Self {
        let broker = url.trim_start_matches("nats://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let wire = Arc::new(Wire::default());
        let shared = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let broker = TcpStream::connect(&broker).await.unwrap();
                tokio::spawn(carry(client, broker, shared.clone()));
            }
        });
        Self { address, wire }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// The broker gets the next message, and nobody hears so.
    pub(crate) fn lose_the_next_answer(&self) {
        self.wire.loses_next.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) -> usize {
        self.wire.lost.load(Ordering::Relaxed)
    }
}

async fn carry(client: TcpStream, broker: TcpStream, wire: Arc<Wire>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_broker, mut to_broker) = broker.into_split();
    let upwards = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_broker).await });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_broker.read(&mut buffer).await {
        let is_answer = String::from_utf8_lossy(&buffer[..read]).contains("\"seq\":");
        if is_answer && wire.loses_next.swap(false, Ordering::Relaxed) {
            wire.lost.fetch_add(1, Ordering::Relaxed);
            break;
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    upwards.abort();
}
