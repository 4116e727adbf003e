//! A broker that is down, dies, stands still, or whose acknowledgement is lost.

use backstitch_testkit::nats::NatsServer;
use serde_json::json;

use crate::outbox_adapters::proxy::Proxy;
use crate::outbox_adapters::stage::{
    PATIENT, SHORT, add_stream, answer, broker, code, kept, message, nats, orders, sink, until_delivered,
};

#[tokio::test]
async fn a_broker_that_is_down_at_the_start_is_no_mistake_and_is_found_when_it_comes() {
    let mut server = NatsServer::start().await;
    let url = server.url();
    server.kill();
    let sink = sink(nats(&url), PATIENT);
    for _ in 0..3 {
        let down = sink.send(&message("k", "1")).await.unwrap_err();
        assert_eq!(down.code, "broker_down");
        assert!(down.message.contains("refused"), "{down}");
    }
    server.start_again().await;
    let stream = add_stream(&url, orders()).await;
    assert_eq!(answer(&until_delivered(&*sink, &message("k", "1")).await)["duplicate"], false);
    assert_eq!(kept(&stream).await, 1, "what failed while it was down was not sent behind anybody's back");
}

#[tokio::test]
async fn an_acknowledgement_that_is_lost_leaves_the_message_undelivered_and_its_repeat_is_told_as_such() {
    let (server, stream) = broker().await;
    let proxy = Proxy::to(&server.url()).await;
    let sink = sink(nats(&proxy.url()), PATIENT);
    sink.send(&message("first", "1")).await.unwrap();
    proxy.lose_the_next_answer();
    assert_eq!(code(sink.send(&message("k", "2")).await), "connection_lost");
    assert_eq!((proxy.lost(), kept(&stream).await), (1, 2), "the broker has it all the same");
    let again = answer(&until_delivered(&*sink, &message("k", "2")).await);
    assert_eq!(again, json!({"stream": "ORDERS", "seq": 2, "duplicate": true}));
    assert_eq!(kept(&stream).await, 2);
}

#[tokio::test]
async fn a_broker_that_is_killed_in_the_middle_of_a_send_gets_the_message_after_its_restart() {
    let (mut server, _stream) = broker().await;
    let sink = sink(nats(&server.url()), PATIENT);
    sink.send(&message("first", "1")).await.unwrap();
    server.suspend();
    let sending = tokio::spawn({
        let sink = sink.clone();
        async move { sink.send(&message("k", "2")).await }
    });
    run_what_is_ready().await;
    assert!(!sending.is_finished());
    server.kill();
    assert_eq!(code(sending.await.unwrap()), "connection_lost");
    assert_eq!(code(sink.send(&message("k", "2")).await), "broker_down");
    server.start_again().await;
    let receipt = until_delivered(&*sink, &message("k", "2")).await;
    assert_eq!(answer(&receipt), json!({"stream": "ORDERS", "seq": 2, "duplicate": false}));
}

#[tokio::test]
async fn a_broker_that_stands_still_does_not_acknowledge_and_keeps_the_message_once() {
    let (server, stream) = broker().await;
    let sink = sink(nats(&server.url()), SHORT);
    sink.send(&message("first", "1")).await.unwrap();
    server.suspend();
    assert_eq!(code(sink.send(&message("k", "2")).await), "no_ack");
    let down = sink.send(&message("k", "2")).await.unwrap_err();
    assert_eq!(down.code, "broker_down", "a connection that failed once is not relied on: {down}");
    server.resume();
    let receipt = until_delivered(&*sink, &message("k", "2")).await;
    assert_eq!(answer(&receipt)["seq"], 2);
    assert_eq!(kept(&stream).await, 2);
}

#[tokio::test]
async fn of_many_messages_under_way_when_the_broker_dies_each_is_kept_once_in_the_end() {
    let (mut server, _stream) = broker().await;
    let sink = sink(nats(&server.url()), PATIENT);
    sink.send(&message("first", "1")).await.unwrap();
    server.suspend();
    let under_way: Vec<_> = (0..500)
        .map(|nth| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.send(&message(&format!("k{nth}"), "1")).await })
        })
        .collect();
    run_what_is_ready().await;
    server.kill();
    server.start_again().await;
    for (nth, sending) in under_way.into_iter().enumerate() {
        assert_eq!(code(sending.await.unwrap()), "connection_lost");
        until_delivered(&*sink, &message(&format!("k{nth}"), "1")).await;
    }
    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("ORDERS").await.unwrap();
    assert_eq!(kept(&stream).await, 501);
}

/// On the one thread of these tests, whatever was begun is on its way then.
async fn run_what_is_ready() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
