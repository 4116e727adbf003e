//! What receivers answer, and what that means.

use std::time::Duration;

use backstitch::kernel::delivery::Outcome;

use crate::webhook_sender::stage::{request, send, sender, short};
use backstitch_testkit::service::{Reply, Service};

/// What comes of a webhook that is answered in this way.
async fn answered(
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> backstitch_modules::webhooks::sender::Exchange {
    send(&Service::always(reply).await.url()).await
}

#[tokio::test]
async fn every_2xx_means_that_it_arrived() {
    for status in [200, 201, 202, 204, 299] {
        let exchange = answered(move || Reply::http(status, "")).await;
        assert_eq!((exchange.outcome, exchange.status), (Outcome::Arrived, Some(status)));
    }
}

#[tokio::test]
async fn every_other_status_is_a_failure_with_its_code() {
    for status in [400, 401, 404, 409, 422, 429, 500, 502, 503, 504, 599] {
        let exchange = answered(move || Reply::http(status, "no")).await;
        assert_eq!(exchange.error_code(), Some(format!("http_{status}").as_str()));
        assert_eq!((exchange.status, exchange.body_start.as_str()), (Some(status), "no"));
        assert!(!exchange.gone);
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_says_so() {
    let exchange = answered(|| Reply::http(410, "we moved out")).await;
    assert!(exchange.gone);
    assert_eq!((exchange.error_code(), exchange.body_start.as_str()), (Some("http_410"), "we moved out"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Service::always(|| Reply::http(200, "")).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}\r\n", elsewhere.url());
        let exchange = answered(move || Reply::with_headers(status, &location, "")).await;
        assert_eq!((exchange.error_code(), exchange.status), (Some("redirect"), Some(status)));
        assert!(exchange.error.unwrap().contains("not followed"));
    }
    assert!(elsewhere.heard().is_empty());
}

#[tokio::test]
async fn a_receiver_says_when_to_come_again_in_seconds_or_by_date() {
    for (header, expected) in [
        ("Retry-After: 120", Some(120)),
        ("Retry-After: 0", Some(0)),
        ("Retry-After: Sun, 06 Nov 1994 08:50:00 GMT", Some(30)),
        ("Retry-After: Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
        ("Retry-After: soon", None),
        ("Retry-After: -1", None),
        ("X-Nothing: 1", None),
    ] {
        let exchange = answered(move || Reply::with_headers(503, &format!("{header}\r\n"), "")).await;
        let expected = expected.map(Duration::from_secs);
        let failed = Outcome::Failed { code: "http_503".to_owned(), retry_after: expected };
        assert_eq!((exchange.outcome.clone(), exchange.quiet_for()), (failed, expected), "{header}");
    }
}

#[tokio::test]
async fn of_a_long_answer_the_beginning_is_kept() {
    let long = format!("begin{}", "x".repeat(60_000));
    let exchange = answered(move || Reply::http(500, &long)).await;
    assert!(exchange.body_start.starts_with("beginxxx"));
    assert_eq!(exchange.body_start.len(), 4096);
}

#[tokio::test]
async fn a_giant_answer_is_not_read_to_its_end_and_its_connection_is_closed() {
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let endless = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(64));
    let service = Service::always(move || Reply::Stall(endless.clone().into())).await;
    let sender = sender();
    for _ in 0..2 {
        let exchange = sender.send(request(&service.url())).await;
        assert_eq!((exchange.outcome, exchange.body_start.len()), (Outcome::Arrived, 4096));
    }
    assert_eq!(service.connections(), 2);
}

#[tokio::test]
async fn an_answer_becomes_text_that_every_database_keeps() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na\0\xff\xfe\0b";
    let exchange = answered(|| Reply::Bytes(bytes.to_vec())).await;
    assert_eq!(exchange.body_start, "a\u{fffd}\u{fffd}b");
}

#[tokio::test]
async fn a_packed_answer_is_never_unpacked() {
    let headers = "Content-Encoding: gzip\r\n";
    let exchange = answered(move || Reply::with_headers(200, headers, "\u{1f}not really")).await;
    assert_eq!((exchange.outcome, exchange.body_start.as_str()), (Outcome::Arrived, "(packed as gzip)"));
}

#[tokio::test]
async fn whoever_answered_2xx_has_it_although_the_body_breaks_off_or_does_not_end() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart";
    let exchange = answered(move || Reply::Last(cut.into())).await;
    assert_eq!((exchange.outcome, exchange.body_start.as_str()), (Outcome::Arrived, "part"));
    let service = Service::always(move || Reply::Stall(cut.into())).await;
    let exchange = sender().send(short(&service.url())).await;
    assert_eq!((exchange.outcome, exchange.body_start.as_str()), (Outcome::Arrived, "part"));
}

#[tokio::test]
async fn whoever_said_no_said_no_although_the_body_does_not_end() {
    let cut = "HTTP/1.1 500 No\r\nRetry-After: 9\r\nContent-Length: 100\r\n\r\npart";
    let service = Service::always(move || Reply::Stall(cut.into())).await;
    let exchange = sender().send(short(&service.url())).await;
    assert_eq!((exchange.error_code(), exchange.body_start.as_str()), (Some("http_500"), "part"));
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_read_counts() {
    let service =
        Service::always(|| Reply::Last("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 OK\r\n\r\n".into())).await;
    let exchange = send(&service.url()).await;
    assert_eq!((exchange.outcome, exchange.status), (Outcome::Arrived, Some(202)));
}

#[tokio::test]
async fn a_change_of_protocol_is_no_answer() {
    let exchange = answered(|| {
        Reply::Last("HTTP/1.1 101 Switching\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n".into())
    })
    .await;
    assert_eq!(exchange.error_code(), Some("protocol"), "{exchange:?}");
}
