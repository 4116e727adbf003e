//! Receivers that cannot be reached, go away half-way, talk nonsense or never answer.

use std::time::Duration;

use backstitch_modules::webhooks::sender::{Request, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::webhook_sender::stage::{code, loopback, request, sender, sender_finding, sender_with, short};
use backstitch_testkit::service::{Reply, Service, babbler, nobody};

/// Somebody who does this with every connection.
async fn anybody<F>(meet: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(meet(stream));
        }
    });
    format!("http://{address}/call")
}

/// Waits for the request.
async fn hear(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0; 4096]).await;
}

#[tokio::test]
async fn nobody_is_there() {
    assert_eq!(code(&nobody().await).await, "connect_failed");
}

#[tokio::test]
async fn a_name_leads_nowhere() {
    let sender = sender_finding(loopback(), &[&[]]);
    let exchange = sender.send(request("http://hooks.example.com/")).await;
    assert_eq!((exchange.error_code(), exchange.status), (Some("dns_failed"), None));
    assert!(exchange.error.unwrap().contains("hooks.example.com"));
    assert_eq!(code("http://nowhere.invalid/").await, "dns_failed");
}

#[tokio::test]
async fn whoever_speaks_no_tls_is_told_apart_from_nobody() {
    assert_eq!(code(&babbler().await).await, "tls_failed");
    assert_eq!(code(&nobody().await.replace("http:", "https:")).await, "connect_failed");
}

#[tokio::test]
async fn whoever_never_answers_is_given_up_in_time() {
    for beginning in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"] {
        let service = Service::always(move || Reply::Stall(beginning.into())).await;
        let exchange = sender().send(short(&service.url())).await;
        assert_eq!((exchange.error_code(), exchange.status), (Some("timeout"), None), "{beginning:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up_in_time() {
    let silent = anybody(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let url = silent.await.replace("http:", "https:");
    assert_eq!(
        sender().send(short(&url)).await.error_code(),
        Some("timeout"),
        "by the whole attempt's deadline"
    );
    let settings = Settings { connect_within: Duration::from_millis(100), ..Settings::default() };
    let exchange = sender_with(loopback(), settings).send(request(&url)).await;
    assert_eq!(exchange.error_code(), Some("timeout"), "by that of making a connection");
    assert!(exchange.error.unwrap().contains("no connection"));
}

#[tokio::test]
async fn an_answer_that_drips_past_the_deadline_is_late() {
    let url = anybody(|mut stream| async move {
        hear(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'x')) {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(sender().send(short(&url)).await.error_code(), Some("timeout"));
}

#[tokio::test]
async fn a_body_that_drips_past_the_deadline_is_kept_as_far_as_it_came() {
    let url = anybody(|mut stream| async move {
        hear(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // The head has to arrive before the deadline, on a busy machine too.
    let patient = Request { timeout: Duration::from_secs(2), ..request(&url) };
    let exchange = sender().send(patient).await;
    assert_eq!((exchange.error_code(), exchange.status), (Some("http_500"), Some(500)));
    assert!(exchange.body_start.starts_with('x') && exchange.body_start.len() < 4096);
}

#[tokio::test]
async fn a_receiver_that_reads_nothing_is_given_up_in_time() {
    let url = anybody(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let payload = vec![b'x'; 64 << 20];
    let exchange = sender().send(Request { payload: payload.into(), ..short(&url) }).await;
    assert_eq!(exchange.error_code(), Some("timeout"));
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_lost() {
    for beginning in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let service = Service::always(move || Reply::Last(beginning.into())).await;
        assert_eq!(code(&service.url()).await, "connection_lost", "{beginning:?}");
    }
    let reset = anybody(|stream| async move {
        // Bytes that nobody read make the end a reset.
        let _ = stream.readable().await;
        drop(stream);
    });
    assert_eq!(code(&reset.await).await, "connection_lost");
}

#[tokio::test]
async fn a_receiver_that_closes_its_half_and_answers_is_heard() {
    let url = anybody(|mut stream| async move {
        hear(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nended by the end").await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let exchange = sender().send(request(&url)).await;
    assert_eq!((exchange.status, exchange.body_start.as_str()), (Some(200), "ended by the end"));
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-A: b\r\n".repeat(10_000));
    let long = format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n", "b".repeat(2_000_000));
    for garbage in [
        "hello\r\n\r\n".to_owned(),
        "\0\0\0".repeat(100),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 2xx OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(),
        many,
        long,
    ] {
        let shown: String = garbage.chars().take(60).collect();
        let service = Service::always(move || Reply::Last(garbage.clone().into())).await;
        let exchange = sender().send(request(&service.url())).await;
        assert_eq!((exchange.error_code(), exchange.status), (Some("protocol"), None), "{shown:?}");
        assert!(exchange.error.unwrap().len() <= 500);
    }
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_costs_nothing() {
    let service =
        Service::always(|| Reply::Last("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into())).await;
    let sender = sender();
    for _ in 0..5 {
        assert_eq!(sender.send(request(&service.url())).await.status, Some(200));
    }
    assert_eq!(service.heard().len(), 5, "each came once");
}
