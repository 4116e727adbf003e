//! Brokers that ask who is there, and brokers that refuse.

use async_nats::ConnectOptions;
use backstitch::sink::Message;
use backstitch_modules::outbox::{Nats, Secret};
use backstitch_testkit::nats::NatsServer;
use futures::future::join_all;

use crate::outbox_adapters::stage::{
    PATIENT, add_stream, add_stream_as, code, message, message_of, nats, orders, sink, sink_of,
};

const WITH_USERS: &str = r#"
authorization {
  users = [
    { user: admin, password: admin }
    { user: backstitch, password: hush, permissions: { publish: ["orders.>", "$JS.API.STREAM.INFO.ORDERS"] } }
    { user: stranger, password: hush, permissions: { publish: ["greetings"] } }
    { user: partial, password: hush, permissions: { publish: { deny: ["orders.secret.>"] } } }
    { user: deaf, password: hush, permissions: { subscribe: ["greetings"] } }
  ]
}
"#;

fn login(server: &NatsServer, user: &str, password: &str) -> Nats {
    Nats { user: Some(user.to_owned()), password: Some(Secret::new(password)), ..nats(&server.url()) }
}

async fn with_users() -> NatsServer {
    let server = NatsServer::configured(WITH_USERS).await;
    let admin = ConnectOptions::with_user_and_password("admin".to_owned(), "admin".to_owned());
    add_stream_as(admin, &server.url(), orders()).await;
    server
}

#[tokio::test]
async fn a_user_with_the_right_password_may_publish_and_a_wrong_one_is_told_so() {
    let server = with_users().await;
    sink(login(&server, "backstitch", "hush"), PATIENT).send(&message("k", "1")).await.unwrap();
    for wrong in
        [login(&server, "backstitch", "guess"), login(&server, "nobody", "hush"), nats(&server.url())]
    {
        let refused = sink(wrong, PATIENT).send(&message("k", "1")).await.unwrap_err();
        assert_eq!(refused.code, "not_authorized", "{refused}");
        assert!(!refused.message.contains("guess") && !refused.message.contains("hush"), "{refused}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_publish_or_not_hear_the_answer_is_told_so_at_once() {
    let server = with_users().await;
    for user in ["stranger", "deaf"] {
        let refused =
            sink(login(&server, user, "hush"), PATIENT).send(&message(user, "1")).await.unwrap_err();
        assert_eq!(refused.code, "not_permitted", "{refused}");
        assert!(refused.message.contains("orders.placed"), "{refused}");
    }
}

#[tokio::test]
async fn a_subject_that_is_forbidden_holds_up_no_other_of_the_same_setting() {
    let server = with_users().await;
    let partial = Nats { subject: None, ..login(&server, "partial", "hush") };
    let sink = sink_of("orders.*", partial, PATIENT);
    let messages: Vec<Message> = (0..20)
        .flat_map(|nth| {
            let forbidden = message_of(&format!("orders.secret.{nth}"), &format!("s{nth}"), "1");
            [forbidden, message_of("orders.placed", &format!("p{nth}"), "1")]
        })
        .collect();
    let sent = join_all(messages.iter().map(|message| sink.send(message))).await;
    for (message, sent) in messages.iter().zip(sent) {
        if message.topic == "orders.placed" {
            sent.unwrap();
        } else {
            let refused = sent.unwrap_err();
            assert_eq!(refused.code, "not_permitted", "{refused}");
            assert!(refused.message.contains(&message.topic), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_token_opens_the_door_too() {
    let server = NatsServer::configured("authorization { token: hush }").await;
    add_stream_as(ConnectOptions::with_token("hush".to_owned()), &server.url(), orders()).await;
    let with = |token: &str| Nats { token: Some(Secret::new(token)), ..nats(&server.url()) };
    sink(with("hush"), PATIENT).send(&message("k", "1")).await.unwrap();
    assert_eq!(code(sink(with("guess"), PATIENT).send(&message("k", "1")).await), "not_authorized");
}

#[tokio::test]
async fn a_message_larger_than_the_broker_takes_is_refused_and_the_next_one_goes_out() {
    let server = NatsServer::configured("max_payload: 2048").await;
    add_stream(&server.url(), orders()).await;
    let sink = sink(nats(&server.url()), PATIENT);
    let large = format!("\"{}\"", "x".repeat(2040));
    let refused = sink.send(&message("large", &large)).await.unwrap_err();
    assert_eq!(refused.code, "too_large");
    assert!(refused.message.contains("2048"), "{refused}");
    sink.send(&message("small", "1")).await.unwrap();
}

#[tokio::test]
async fn messages_go_encrypted_to_a_broker_that_proves_who_it_is_and_to_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = format!("cert_file: {certificate:?}, key_file: {key:?}");
    let server = NatsServer::configured(&format!("tls {{ {files} }}")).await;
    let url = server.url().replace("nats://", "tls://");
    let trusting = Nats { root_certificate: Some(certificate), ..nats(&url) };
    // There is no stream yet; but whoever hears so has spoken to the broker.
    assert_eq!(code(sink(trusting, PATIENT).send(&message("k", "1")).await), "no_stream");
    let refused = sink(nats(&url), PATIENT).send(&message("k", "1")).await.unwrap_err();
    assert_eq!(refused.code, "broker_down");
    assert!(refused.message.contains("certificate"), "{refused}");

    let plain = NatsServer::start().await;
    let in_the_clear = nats(&plain.url().replace("nats://", "tls://"));
    assert_eq!(code(sink(in_the_clear, PATIENT).send(&message("k", "1")).await), "broker_down");
}
