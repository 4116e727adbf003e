//! A request with a lost response is repeated under the same key, and acts once.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::cli::stage::{Stage, on_both_stores, run_with};

/// Stands before a server, and hangs up on the first few who ask, once the server has answered.
struct Swallower {
    url: String,
    _serving: AbortOnDropHandle<()>,
}

impl Swallower {
    async fn before(server: SocketAddr, swallowed: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut left = swallowed;
            while let Ok((mut client, _)) = listener.accept().await {
                let mut upstream = TcpStream::connect(server).await.unwrap();
                if left == 0 {
                    tokio::spawn(async move { copy_bidirectional(&mut client, &mut upstream).await });
                    continue;
                }
                left -= 1;
                let mut request = vec![0; 64 * 1024];
                let length = client.read(&mut request).await.unwrap();
                upstream.write_all(&request[..length]).await.unwrap();
                upstream.read_exact(&mut [0; 12]).await.unwrap();
            }
        });
        Self { url, _serving: AbortOnDropHandle::new(serving) }
    }
}

#[tokio::test]
async fn start_with_a_lost_response_is_retried_once() {
    on_both_stores(async |stage| {
        let swallower = Swallower::before(stage.program.client.address, 2).await;
        let input = stage.wishing(&[]);
        let arguments = ["start", "order", "--input", &input, "--server", &swallower.url];
        let started = run_with(&arguments, &[], "").await;
        assert!(started.stderr.contains("asking again"), "{started:?}");
        let told = started.good();
        let sagas = stage.run(&["ps", "--json"]).await.json();
        let [saga] = sagas["items"].as_array().unwrap().as_slice() else { panic!("{sagas}") };
        assert!(told.contains(saga["id"].as_str().unwrap()), "{told}");
    })
    .await;
}

#[tokio::test]
async fn event_with_a_lost_response_is_sent_once() {
    let stage = Stage::new().await;
    let swallower = Swallower::before(stage.program.client.address, 1).await;
    let arguments = ["webhooks", "events", "send", "a.b", "--server", &swallower.url, "--json"];
    let sent = run_with(&arguments, &[], "").await.json();
    assert_eq!((&sent["event_id"], &sent["repeated"]), (&1.into(), &true.into()));
}

#[tokio::test]
async fn exhausted_patience_shows_the_key_to_retry() {
    let stage = Stage::new().await;
    let swallower = Swallower::before(stage.program.client.address, usize::MAX).await;
    let arguments = ["start", "order", "--server", &swallower.url, "--patience", "200ms"];
    let told = run_with(&arguments, &[], "").await.failed();
    let (_, key) = told.split_once("--key ").unwrap();
    let key = key.split(':').next().unwrap();
    assert!(key.starts_with("cli-start-"), "{told}");
    let again = stage.run(&["start", "order", "--key", key, "--json"]).await.json();
    let sagas = stage.run(&["ps", "--json"]).await.json();
    assert_eq!(sagas["items"].as_array().unwrap().len(), 1, "{sagas}");
    assert_eq!(sagas["items"][0]["id"], again["id"]);
}
