//! A proxy that breaks connections on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const PASS: usize = 0;
/// The next request reaches the server; its response is lost.
pub(crate) const SWALLOW_ANSWER: usize = 1;
/// The next request does not reach the server.
pub(crate) const SWALLOW_REQUEST: usize = 2;
/// From the next request on the connection silently drops everything in both directions.
pub(crate) const FALL_SILENT: usize = 3;
/// As if the client was suspended before its next COMMIT: the connection stays open and idle.
pub(crate) const STAND_STILL_BEFORE_COMMIT: usize = 4;

const COMMIT: &[u8] = b"COMMIT";

/// A proxy between a store and its database.
pub(crate) struct Network {
    pub(crate) address: String,
    fault: Arc<AtomicUsize>,
    faults: Arc<AtomicUsize>,
}

impl Network {
    pub(crate) async fn to(address: &str) -> Self {
        let place = address.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let fault = Arc::new(AtomicUsize::new(PASS));
        let faults = Arc::new(AtomicUsize::new(0));
        let network = Self {
            address: address.replace(&place, &own),
            fault: Arc::clone(&fault),
            faults: Arc::clone(&faults),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&place).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&fault), Arc::clone(&faults)));
            }
        });
        network
    }

    pub(crate) fn break_once(&self, fault: usize) {
        self.fault.store(fault, Ordering::SeqCst);
    }

    pub(crate) fn broken(&self) -> usize {
        self.faults.load(Ordering::SeqCst)
    }
}

/// Copies bytes both ways until the fault; then closes both ends.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    fault: Arc<AtomicUsize>,
    faults: Arc<AtomicUsize>,
) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                let commits = asked[..count].windows(COMMIT.len()).any(|words| words == COMMIT);
                if fault.load(Ordering::SeqCst) == STAND_STILL_BEFORE_COMMIT && !commits {
                    server.write_all(&asked[..count]).await.unwrap();
                    continue;
                }
                match fault.swap(PASS, Ordering::SeqCst) {
                    STAND_STILL_BEFORE_COMMIT => {
                        faults.fetch_add(1, Ordering::SeqCst);
                        return std::future::pending().await;
                    }
                    SWALLOW_REQUEST => {
                        faults.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    FALL_SILENT => {
                        faults.fetch_add(1, Ordering::SeqCst);
                        while let Ok(1..) = client.read(&mut asked).await {}
                        return;
                    }
                    SWALLOW_ANSWER => {
                        server.write_all(&asked[..count]).await.unwrap();
                        // The server responds after its commit. If a lock delays it, the client is disconnected first,
                        // and the server continues.
                        let _ = tokio::time::timeout(Duration::from_millis(300), server.read(&mut answered)).await;
                        drop(client);
                        faults.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_secs(5)).await;
                        return;
                    }
                    _ => server.write_all(&asked[..count]).await.unwrap(),
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
