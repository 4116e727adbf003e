//! A broker that is well.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream;
use backstitch::sink::Message;
use backstitch_modules::outbox::Nats;
use futures::future::join_all;
use serde_json::json;

use crate::outbox_adapters::stage::{
    PATIENT, SHORT, add_stream, answer, broker, code, kept, message, message_of, nats, orders, sink, sink_of,
};

#[tokio::test]
async fn a_message_is_published_with_its_key_and_the_stream_acknowledges_it() {
    let (server, stream) = broker().await;
    let sink = sink(nats(&server.url()), PATIENT);
    assert_eq!(sink.name(), "nats");
    let receipt = sink.send(&message("order-7", r#"{"sku":"pen"}"#)).await.unwrap();
    assert_eq!(answer(&receipt), json!({"stream": "ORDERS", "seq": 1, "duplicate": false}));
    let in_doubt = Message { in_doubt: true, ..message("a\r\nb", "2") };
    assert_eq!(answer(&sink.send(&in_doubt).await.unwrap())["seq"], 2);

    let first = stream.get_raw_message(1).await.unwrap();
    assert_eq!((first.subject.as_str(), &first.payload[..]), ("orders.placed", &br#"{"sku":"pen"}"#[..]));
    assert_eq!(first.headers.get("Nats-Msg-Id").unwrap().as_str(), "order-7");
    assert_eq!(first.headers.get("X-Backstitch-Topic").unwrap().as_str(), "orders");
    assert!(first.headers.get("X-Backstitch-In-Doubt").is_none());
    let second = stream.get_raw_message(2).await.unwrap();
    assert_eq!(second.headers.get("Nats-Msg-Id").unwrap().as_str(), "a%0D%0Ab", "encoded, and still itself");
    assert_eq!(second.headers.get("X-Backstitch-In-Doubt").unwrap().as_str(), "true");
}

#[tokio::test]
async fn a_repeated_key_is_told_as_a_duplicate_and_kept_once() {
    let (server, stream) = broker().await;
    let sink = sink(nats(&server.url()), PATIENT);
    let first = answer(&sink.send(&message("k", "1")).await.unwrap());
    let again = answer(&sink.send(&message("k", "1")).await.unwrap());
    assert_eq!((&first["seq"], &first["duplicate"]), (&json!(1), &json!(false)));
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(1), &json!(true)));
    assert_eq!(kept(&stream).await, 1);
}

#[tokio::test]
async fn messages_of_two_states_arrive_on_two_subjects_by_one_setting_each_under_its_key() {
    let (server, stream) = broker().await;
    let to_orders = Nats { subject: Some("orders".to_owned()), ..nats(&server.url()) };
    let sink = sink_of("sites.provisioning.*", to_orders, PATIENT);
    let live = message_of("sites.provisioning.live", "site-7:4", "1");
    let failed = message_of("sites.provisioning.failed", "site-8:4", "2");
    sink.send(&live).await.unwrap();
    sink.send(&failed).await.unwrap();
    let again = answer(&sink.send(&live).await.unwrap());
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(1), &json!(true)));

    for (place, subject, sent) in [(1, "orders.live", &live), (2, "orders.failed", &failed)] {
        let kept = stream.get_raw_message(place).await.unwrap();
        assert_eq!((kept.subject.as_str(), &kept.payload[..]), (subject, sent.payload.as_str().as_bytes()));
        assert_eq!(kept.headers.get("Nats-Msg-Id").unwrap().as_str(), sent.idempotency_key);
        assert_eq!(kept.headers.get("X-Backstitch-Topic").unwrap().as_str(), sent.topic);
    }
    assert_eq!(kept(&stream).await, 2);
}

#[tokio::test]
async fn topics_of_a_pattern_without_a_subject_are_subjects_themselves() {
    let (server, stream) = broker().await;
    let sink = sink_of("orders.*", Nats { subject: None, ..nats(&server.url()) }, PATIENT);
    sink.send(&message_of("orders.eu.placed", "k", "1")).await.unwrap();
    assert_eq!(stream.get_raw_message(1).await.unwrap().subject.as_str(), "orders.eu.placed");
}

#[tokio::test]
async fn a_topic_that_makes_no_subject_is_refused_and_the_next_one_goes_out() {
    let (server, stream) = broker().await;
    let sink = sink_of("orders.*", Nats { subject: None, ..nats(&server.url()) }, PATIENT);
    for topic in ["orders.a b", "orders.a\r\nPUB orders.b 0\r\n", "orders.>"] {
        assert_eq!(code(sink.send(&message_of(topic, "k", "1")).await), "bad_subject", "{topic:?}");
    }
    sink.send(&message_of("orders.placed", "k", "1")).await.unwrap();
    assert_eq!(kept(&stream).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_messages_at_once_are_all_acknowledged_over_one_connection() {
    let (server, stream) = broker().await;
    let sink = sink(nats(&server.url()), PATIENT);
    let messages: Vec<Message> =
        (0..2_000).map(|nth| message(&format!("k{nth}"), &nth.to_string())).collect();
    let sent = join_all(messages.iter().map(|message| sink.send(message))).await;
    let mut places: Vec<u64> =
        sent.into_iter().map(|sent| answer(&sent.unwrap())["seq"].as_u64().unwrap()).collect();
    places.sort_unstable();
    assert!(places.iter().copied().eq(1..=2_000), "each has a place of its own");
    assert_eq!(kept(&stream).await, 2_000);
    let log = std::fs::read_to_string(server.directory().join("server.log")).unwrap();
    assert!(!log.contains("Slow Consumer"), "{log}");
}

#[tokio::test]
async fn without_a_stream_for_the_subject_nothing_is_delivered() {
    let (server, _stream) = broker().await;
    let elsewhere = Nats { subject: Some("payments.made".to_owned()), ..nats(&server.url()) };
    let refused = sink(elsewhere, PATIENT).send(&message("k", "1")).await.unwrap_err();
    assert_eq!(refused.code, "no_stream");
    assert!(refused.message.contains("payments.made"), "{refused}");
}

#[tokio::test]
async fn another_stream_than_the_expected_one_gets_nothing() {
    let (server, stream) = broker().await;
    let mistaken = Nats { stream: "PAYMENTS".to_owned(), ..nats(&server.url()) };
    let refused = sink(mistaken, PATIENT).send(&message("k", "1")).await.unwrap_err();
    assert_eq!(refused.code, "wrong_stream");
    assert!(refused.message.contains("PAYMENTS"), "{refused}");
    assert_eq!(kept(&stream).await, 0);
}

#[tokio::test]
async fn a_responder_that_is_no_stream_is_not_believed() {
    let (server, _stream) = broker().await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut requests = client.subscribe("payments.made").await.unwrap();
    client.flush().await.unwrap();
    tokio::spawn(async move {
        use futures::StreamExt as _;
        for said in ["thanks", r#"{"stream":"PAYMENTS","seq":1}"#] {
            let request = requests.next().await.unwrap();
            client.publish(request.reply.unwrap(), said.into()).await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    let sink = sink(Nats { subject: Some("payments.made".to_owned()), ..nats(&server.url()) }, PATIENT);
    assert_eq!(code(sink.send(&message("k", "1")).await), "bad_ack");
    assert_eq!(code(sink.send(&message("k", "1")).await), "wrong_stream");
}

#[tokio::test]
async fn a_subscriber_that_never_answers_is_no_acknowledgement() {
    let (server, _stream) = broker().await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let _silent = client.subscribe("payments.made").await.unwrap();
    client.flush().await.unwrap();
    let sink = sink(Nats { subject: Some("payments.made".to_owned()), ..nats(&server.url()) }, SHORT);
    for _ in 0..2 {
        let late = sink.send(&message("k", "1")).await.unwrap_err();
        assert_eq!(late.code, "no_ack");
        assert!(late.message.contains("2s"), "{late}");
    }
}

#[tokio::test]
async fn what_the_stream_has_no_room_for_is_refused_with_its_reason() {
    let (server, _orders) = broker().await;
    let full = stream::Config {
        name: "FULL".to_owned(),
        subjects: vec!["full".to_owned()],
        max_messages: 1,
        discard: stream::DiscardPolicy::New,
        max_message_size: 100,
        ..stream::Config::default()
    };
    let stream = add_stream(&server.url(), full).await;
    let to_it = Nats { subject: Some("full".to_owned()), stream: "FULL".to_owned(), ..nats(&server.url()) };
    let sink = sink(to_it, PATIENT);
    let large = format!("\"{}\"", "x".repeat(200));
    assert_eq!(code(sink.send(&message("large", &large)).await), "too_large");
    sink.send(&message("a", "1")).await.unwrap();
    let refused = sink.send(&message("b", "2")).await.unwrap_err();
    assert_eq!(refused.code, "nats_10077");
    assert!(refused.message.contains("maximum messages"), "{refused}");
    assert_eq!(kept(&stream).await, 1);
}

#[tokio::test]
async fn a_stream_that_forgets_too_soon_is_warned_about_when_the_adapter_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let writer = Arc::new(File::create(&path).unwrap());
    // For all tests of this process: what one thread listens to can be missed while another one listens to nothing.
    tracing_subscriber::fmt().with_ansi(false).with_writer(writer).init();
    let logged = async |text: &str| {
        let heard = async {
            while !std::fs::read_to_string(&path).unwrap().contains(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENT, heard)
            .await
            .unwrap_or_else(|_| panic!("nobody said: {text}\n{}", std::fs::read_to_string(&path).unwrap()));
    };
    let (server, _stream) = broker().await;
    let _sink = sink(nats(&server.url()), Duration::from_secs(10));
    logged("stream ORDERS remembers keys for 2m, but a message may be sent again for 3m 35s").await;
    logged("--dupe-window=215s").await;

    let long = stream::Config { name: "LONG".to_owned(), subjects: vec!["long".to_owned()], ..orders() };
    let window = Duration::from_secs(215);
    add_stream(&server.url(), stream::Config { duplicate_window: window, ..long }).await;
    let to = |subject: &str, stream: &str| Nats {
        subject: Some(subject.to_owned()),
        stream: stream.to_owned(),
        ..nats(&server.url())
    };
    let long = sink(to("long", "LONG"), Duration::from_secs(10));
    long.send(&message("k", "1")).await.unwrap();
    let _missing = sink(to("missing", "MISSING"), Duration::from_secs(10));
    logged("how long stream MISSING remembers keys").await;
    assert!(
        !std::fs::read_to_string(&path).unwrap().contains("stream LONG"),
        "that one remembers long enough"
    );
}
