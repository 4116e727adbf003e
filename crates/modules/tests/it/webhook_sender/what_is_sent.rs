//! The request as a receiver sees it.

use backstitch::clock::{Clock, SystemClock};
use backstitch::kernel::delivery::Outcome;
use backstitch_modules::randomness::SystemRandomness;
use backstitch_modules::webhooks::sender::{Request, Sender, Settings};
use backstitch_modules::webhooks::signature::Secret;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::Webhook;
use std::sync::Arc;

use crate::webhook_sender::stage::{NOW, SECRET, headers, loopback, request, sender};
use backstitch_testkit::service::{Heard, Reply, Service};

fn headers_of(heard: &Heard) -> HeaderMap {
    let entry = |(name, value): (&String, &String)| {
        (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
    };
    heard.headers.iter().map(entry).collect()
}

async fn receiver() -> Service {
    Service::always(|| Reply::http(200, "thanks")).await
}

#[tokio::test]
async fn a_webhook_is_the_payload_byte_by_byte_with_its_headers() {
    let service = receiver().await;
    let exchange = sender()
        .send(Request {
            headers: headers(&[("Authorization", "Bearer hush"), ("X-Tenant", "t1")]),
            attempt: 3,
            ..request(&service.url())
        })
        .await;
    assert_eq!((exchange.outcome.clone(), exchange.status), (Outcome::Arrived, Some(200)));
    assert_eq!((exchange.body_start.as_str(), exchange.error.as_deref()), ("thanks", None));
    let heard = &service.heard()[0];
    assert_eq!(heard.line, "POST /call HTTP/1.1");
    assert_eq!(heard.body, r#"{"type":"order.paid","data":{"amount":7}}"#);
    for (name, value) in [
        ("authorization", "Bearer hush"),
        ("x-tenant", "t1"),
        ("content-type", "application/json"),
        ("accept", "*/*"),
        ("user-agent", concat!("backstitch/", env!("CARGO_PKG_VERSION"))),
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "784111770"),
        ("x-backstitch-attempt", "3"),
    ] {
        assert_eq!(heard.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(
        !heard.headers.contains_key("accept-encoding"),
        "nothing is unpacked, so nothing is to be packed"
    );
    assert_eq!(heard.json()["type"], "order.paid");
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_bytes_and_its_own_time() {
    let service = Service::scripted(|nth, _| Reply::http(if nth < 3 { 503 } else { 200 }, "")).await;
    let clock = Arc::new(backstitch::clock::ManualClock::at(NOW));
    let sender = Sender::new(loopback(), Settings::default(), clock.clone()).unwrap();
    for attempt in 1..=3 {
        sender.send(Request { attempt, ..request(&service.url()) }).await;
        clock.advance(backstitch::secs(60));
    }
    let heard = service.heard();
    for (nth, heard) in heard.iter().enumerate() {
        assert_eq!((heard.headers["webhook-id"].as_str(), &heard.body), ("msg_1", &service.heard()[0].body));
        assert_eq!(heard.headers["webhook-timestamp"], (784_111_770 + 60 * nth).to_string());
    }
    assert_ne!(heard[0].headers["webhook-signature"], heard[1].headers["webhook-signature"]);
}

/// A receiver with the scheme's own library, which wants the time to be now.
#[tokio::test]
async fn a_receiver_verifies_the_signature_and_notices_what_was_changed() {
    let service = receiver().await;
    let sender = Sender::new(loopback(), Settings::default(), Arc::new(SystemClock)).unwrap();
    sender.send(request(&service.url())).await;
    let heard = &service.heard()[0];
    let (headers, body) = (headers_of(heard), heard.body.as_bytes());
    let webhook = Webhook::new(SECRET).unwrap();
    webhook.verify(body, &headers).unwrap();

    let changed = |name: &'static str, value: &str| {
        let mut headers = headers.clone();
        headers.insert(name, value.parse().unwrap());
        headers
    };
    let later = SystemClock.now().as_micros() / 1_000_000 + 2;
    assert!(webhook.verify(body, &changed("webhook-id", "msg_2")).is_err());
    assert!(webhook.verify(body, &changed("webhook-timestamp", &later.to_string())).is_err());
    assert!(webhook.verify(heard.body.replace('7', "8").as_bytes(), &headers).is_err());
    let other = Secret::make(&SystemRandomness).unwrap();
    assert!(Webhook::new(&other.reveal()).unwrap().verify(body, &headers).is_err());
}

#[tokio::test]
async fn while_a_secret_is_rotated_a_receiver_verifies_with_either() {
    let service = receiver().await;
    let sender = Sender::new(loopback(), Settings::default(), Arc::new(SystemClock)).unwrap();
    let secrets: Vec<Secret> = (0..2).map(|_| Secret::make(&SystemRandomness).unwrap()).collect();
    sender.send(Request { secrets: secrets.clone(), ..request(&service.url()) }).await;
    let heard = &service.heard()[0];
    assert_eq!(heard.headers["webhook-signature"].split(' ').count(), 2);
    for secret in secrets {
        let webhook = Webhook::new(&secret.reveal()).unwrap();
        webhook.verify(heard.body.as_bytes(), &headers_of(heard)).unwrap();
    }
}

#[tokio::test]
async fn nothing_is_sent_that_nobody_could_tell_from_a_forgery() {
    let service = receiver().await;
    let exchange = sender().send(Request { secrets: Vec::new(), ..request(&service.url()) }).await;
    assert_eq!(exchange.error_code(), Some("no_secret"));
    assert!(service.heard().is_empty());
}

#[tokio::test]
async fn what_a_request_holds_in_secret_is_not_shown() {
    let request =
        Request { headers: headers(&[("Authorization", "Bearer hush")]), ..request("https://a.example") };
    let shown = format!("{request:?}");
    assert!(!shown.contains("hush") && !shown.contains("MfKQ") && shown.contains("(secret)"), "{shown}");
}

#[tokio::test]
async fn an_empty_payload_and_a_large_one_arrive_whole() {
    let service = receiver().await;
    let large = "ä".repeat(300_000);
    for payload in ["", &large] {
        let exchange =
            sender().send(Request { payload: payload.to_owned().into(), ..request(&service.url()) }).await;
        assert_eq!(exchange.outcome, Outcome::Arrived);
    }
    let bodies: Vec<usize> = service.heard().iter().map(|heard| heard.body.len()).collect();
    assert_eq!(bodies, [0, 600_000]);
}

#[tokio::test]
async fn one_connection_serves_many_webhooks_whatever_their_answers() {
    let body = "x".repeat(60_000);
    let service = Service::scripted(move |nth, _| match nth % 3 {
        0 => Reply::http(500, "no"),
        1 => Reply::http(200, &body),
        _ => Reply::http(204, ""),
    })
    .await;
    let sender = sender();
    for _ in 0..30 {
        sender.send(request(&service.url())).await;
    }
    assert_eq!((service.heard().len(), service.connections(), service.busiest()), (30, 1, 1));
}
