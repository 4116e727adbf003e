//! HTTP receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::sink::Receipt;
use backstitch_modules::outbox::{Http, Secret};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::outbox_adapters::stage::{PATIENT, SHORT, answer, code, http, message, message_of, sink, sink_of};
use backstitch_testkit::service::{Reply, Service, babbler, nobody};

#[tokio::test]
async fn a_message_is_posted_with_its_key_its_topic_and_the_operators_headers() {
    let service = Service::always(|| Reply::http(200, r#"{"id": 7}"#)).await;
    let headers = [("Authorization".to_owned(), Secret::new("Bearer hush"))].into();
    let sink = sink(Http { headers, ..http(&service.url()) }, PATIENT);
    assert_eq!(sink.name(), "http");
    let first = message("order-7", r#"{"sku":"pen","note":"naïve\u0000"}"#);
    let receipt = sink.send(&first).await.unwrap();
    assert_eq!(answer(&receipt)["id"], 7);
    let again = backstitch::sink::Message { in_doubt: true, ..first };
    sink.send(&again).await.unwrap();

    let heard = service.heard();
    assert_eq!((heard.len(), service.connections()), (2, 1), "connections are kept");
    assert_eq!(heard[0].line, "POST /call HTTP/1.1");
    assert_eq!(heard[0].body, r#"{"sku":"pen","note":"naïve\u0000"}"#);
    for (name, value) in [
        ("idempotency-key", "order-7"),
        ("x-backstitch-topic", "orders"),
        ("content-type", "application/json"),
        ("authorization", "Bearer hush"),
    ] {
        assert_eq!(heard[0].headers[name], value);
    }
    assert!(!heard[0].headers.contains_key("x-backstitch-in-doubt"));
    assert_eq!(heard[1].headers["x-backstitch-in-doubt"], "true");
}

#[tokio::test]
async fn topics_of_a_pattern_are_posted_to_one_address_and_a_header_tells_them_apart() {
    let service = Service::always(|| Reply::http(204, "")).await;
    let sink = sink_of("sites.provisioning.*", http(&service.url()), PATIENT);
    let topics = ["sites.provisioning.live", "sites.provisioning.failed"];
    for topic in topics {
        sink.send(&message_of(topic, "k", "1")).await.unwrap();
    }
    let heard = service.heard();
    assert!(heard.iter().all(|heard| heard.line == "POST /call HTTP/1.1"));
    let told: Vec<&str> = heard.iter().map(|heard| heard.headers["x-backstitch-topic"].as_str()).collect();
    assert_eq!(told, topics);
}

#[tokio::test]
async fn a_key_that_no_header_can_hold_is_encoded_and_stays_itself() {
    let service = Service::always(|| Reply::http(204, "")).await;
    let sink = sink(http(&service.url()), PATIENT);
    let keys = ["a b", "a%20b", "a\r\nX-Other: 1", "schlüssel", "a:b/c"];
    for key in keys {
        assert_eq!(sink.send(&message(key, "1")).await.unwrap(), Receipt::default());
    }
    let heard: Vec<String> =
        service.heard().iter().map(|heard| heard.headers["idempotency-key"].clone()).collect();
    assert_eq!(heard, ["a%20b", "a%2520b", "a%0D%0AX-Other:%201", "schl%C3%BCssel", "a:b/c"]);
}

#[tokio::test]
async fn every_status_but_a_success_is_undelivered_under_its_code() {
    for status in [400, 401, 404, 409, 410, 422, 429, 500, 502, 503, 599] {
        let service = Service::always(move || Reply::http(status, "not\nnow")).await;
        let refused = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await.unwrap_err();
        assert_eq!(refused.code, format!("http_{status}"));
        assert_eq!(refused.message, format!("HTTP {status}: not now"));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Service::always(|| Reply::http(200, "")).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}\r\n", elsewhere.url());
        let service = Service::always(move || Reply::with_headers(status, &location, "")).await;
        let refused = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await.unwrap_err();
        assert_eq!(refused.code, "redirect");
        assert!(refused.message.contains(&status.to_string()), "{refused}");
    }
    assert!(elsewhere.heard().is_empty());
}

#[tokio::test]
async fn a_success_counts_whatever_its_body_is_like() {
    let giant = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n[", 1_u64 << 40);
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let endless = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(8));
    for reply in [
        giant.into_bytes(),
        endless.into_bytes(),
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_vec(),
        b"HTTP/1.1 202 OK\r\nContent-Length: 3\r\n\r\n\"\xff\"".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\"\\ud800\"".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1e400".to_vec(),
        b"HTTP/1.1 204 OK\r\n\r\n".to_vec(),
    ] {
        let service = Service::always(move || Reply::Last(reply.clone())).await;
        let receipt = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await.unwrap();
        assert_eq!(receipt, Receipt::default(), "there is nothing worth keeping");
    }
}

#[tokio::test]
async fn the_status_counts_though_the_body_never_ends() {
    let stalling = |status: u16| {
        let begun = format!("HTTP/1.1 {status} Said\r\nContent-Length: 9\r\n\r\n{{");
        Service::always(move || Reply::Stall(begun.clone().into()))
    };
    let (taken, refused) = (stalling(200).await, stalling(503).await);
    let send = async |url: String| sink(http(&url), SHORT).send(&message("k", "1")).await;
    let (taken, refused) = tokio::join!(send(taken.url()), send(refused.url()));
    assert_eq!(taken.unwrap(), Receipt::default());
    assert_eq!(code(refused), "http_503");
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_waited_for_until_the_deadline() {
    for begun in ["", "HTTP/1.1 200 OK\r\n"] {
        let service = Service::always(move || Reply::Stall(begun.into())).await;
        let late = sink(http(&service.url()), SHORT).send(&message("k", "1")).await.unwrap_err();
        assert_eq!((late.code.as_str(), late.message.as_str()), ("timeout", "no answer within 2s"));
        assert_eq!(service.heard().len(), 1, "it had the request");
    }
}

#[tokio::test]
async fn whoever_cannot_be_reached_is_told_apart_from_who_went_away() {
    let refused = sink(http(&nobody().await), PATIENT).send(&message("k", "1")).await;
    assert_eq!(code(refused), "connection_refused");
    for unreachable in [babbler().await, "http://nowhere.invalid/".to_owned()] {
        let sent = sink(http(&unreachable), PATIENT).send(&message("k", "1")).await;
        assert_eq!(code(sent), "cannot_connect", "{unreachable}");
    }
    for begun in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let service = Service::always(move || Reply::Last(begun.into())).await;
        let sent = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await;
        assert_eq!(code(sent), "connection_lost", "{begun}");
    }
    for garbage in ["hello\r\n\r\n".to_owned(), "\0".repeat(300), "HTTP/9.9 200 OK\r\n\r\n".to_owned()] {
        let service = Service::always(move || Reply::Last(garbage.clone().into())).await;
        let sent = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await;
        assert_eq!(code(sent), "bad_answer");
    }
}

#[tokio::test]
async fn a_receiver_that_reads_half_of_a_large_message_and_hangs_up_leaves_it_undelivered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let hung_up = Arc::new(AtomicUsize::new(0));
    let counter = hung_up.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.read_exact(&mut [0; 1000]).await.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let large = format!("\"{}\"", "x".repeat(8 << 20));
    let sent = sink(http(&url), PATIENT).send(&message("k", &large)).await;
    assert_eq!(code(sent), "connection_lost");
    assert_eq!(hung_up.load(Ordering::Relaxed), 1, "it is for the relay to send it again");
}

#[tokio::test]
async fn a_refusal_may_say_when_to_send_again() {
    for (header, asked) in [("Retry-After: 7\r\n", Some(7)), ("Retry-After: soon\r\n", None), ("", None)] {
        let service = Service::always(move || Reply::with_headers(503, header, "")).await;
        let refused = sink(http(&service.url()), PATIENT).send(&message("k", "1")).await.unwrap_err();
        assert_eq!(refused.retry_after, asked.map(backstitch::secs), "{header}");
    }
}
