//! What is tried again, and what is not.

use std::time::Duration;

use backstitch::Payload;
use backstitch::sink::{Message, Sink as _};
use backstitch::store::outbox::ALERTS;
use backstitch_modules::alerts::{Config, Secret, Webhook};
use backstitch_testkit::smtp::{Setup, SmtpServer};
use backstitch_testkit::webhook::Receiver;
use tokio::net::TcpListener;

use crate::alerts::stage::{Place, Stage, email, notified};

fn webhook(url: &str) -> Webhook {
    Webhook { url: Secret::new(url), timeout: Duration::from_secs(20), root_certificate: None }
}

fn by_webhook(webhook: Webhook) -> Config {
    Config { webhook: Some(webhook), ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_tried_until_the_mail_server_is_back_and_the_webhook_gets_it_once() {
    let down = SmtpServer::start(&Setup::default()).await;
    let port = down.port();
    assert!(down.stop().await.is_empty());
    let mut receiver = Receiver::answering(&["204 No Content"]).await;
    let config =
        Config { email: Some(email(port)), webhook: Some(webhook(&receiver.url())), ..Config::default() };
    let mut stage = Stage::open(Place::file(), &config).await;
    let saga = stage.fail_a_rollback("the bank is closed").await;
    for _ in 0..2 {
        let failed = stage.sent().await.unwrap_err();
        assert!(failed.contains("email to ops@example.com") && !failed.contains("webhook"), "{failed}");
    }
    let listed = stage.newest().await;
    assert_eq!(notified(&listed), [("log", "", 1), ("webhook", "", 1)], "the others had it at once");
    let webhook_notified_at = listed.notices.iter().find(|it| it.channel == "webhook").unwrap().notified_at;

    let mut server = SmtpServer::start(&Setup { port: Some(port), ..Setup::default() }).await;
    let mail = server.next_mail().await;
    assert!(mail.text.contains(&saga.to_string()));
    stage.out().await;
    assert_eq!(receiver.next().await.header("idempotency-key"), listed.alert.key);
    assert!(receiver.is_idle(), "the webhook got it once");
    assert!(server.stop().await.is_empty(), "and so did the mailbox");

    let listed = stage.newest().await;
    let by = |channel: &str| listed.notices.iter().find(|it| it.channel == channel).unwrap();
    assert_eq!(by("webhook").notified_at, webhook_notified_at);
    assert!(by("email").notified_at >= webhook_notified_at);
    assert!(by("email").attempts >= 3 && by("email").last_error.is_some(), "{:?}", by("email"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_answers_with_an_error_gets_the_same_alert_again() {
    let mut receiver =
        Receiver::answering(&["500 Internal Server Error", "429 Too Many Requests", "200 OK"]).await;
    let mut stage = Stage::open(Place::file(), &by_webhook(webhook(&receiver.url()))).await;
    let saga = stage.fail_a_rollback("the bank is closed").await;
    let failures = stage.out().await;
    assert_eq!(failures.len(), 2);
    assert!(failures[0].contains("webhook: it answered 500"), "{failures:?}");
    let (first, second, third) = (receiver.next().await, receiver.next().await, receiver.next().await);
    assert!(receiver.is_idle());
    let listed = stage.newest().await;
    for request in [&first, &second, &third] {
        assert_eq!(request.line, "POST /hook?secret=hush HTTP/1.1");
        assert_eq!(request.header("idempotency-key"), listed.alert.key);
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.body, first.body);
    }
    assert_eq!(first.body["tx_id"], saga.to_string());
    assert_eq!((&first.body["service"], &first.body["kind"]), (&"payment".into(), &"rollback_failed".into()));
    assert_eq!(first.body["error"]["message"], "the bank is closed");
    assert_eq!(notified(&listed), [("log", "", 1), ("webhook", "", 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_try_is_accounted_for_and_none_follows_the_one_that_worked() {
    for place in Place::each().await {
        let mut receiver = Receiver::answering(&["503 Service Unavailable", "200 OK"]).await;
        let mut stage = Stage::open(place, &by_webhook(webhook(&receiver.url()))).await;
        stage.fail_a_rollback("the bank is closed").await;
        stage.sent().await.unwrap_err();
        let failed = stage.newest().await;
        assert_eq!(notified(&failed), [("log", "", 1)]);
        // As the engine would, without waiting for it.
        let again = Message {
            topic: ALERTS.to_owned(),
            idempotency_key: failed.alert.key,
            ordering_key: None,
            payload: Payload::null(),
            in_doubt: true,
        };
        for _ in 0..2 {
            stage.sink.send(&again).await.unwrap();
        }
        let listed = stage.newest().await;
        assert_eq!(notified(&listed), [("log", "", 1), ("webhook", "", 2)]);
        assert!(
            listed.notices[1].last_error.as_deref().unwrap().contains("503"),
            "why it took two stays known"
        );
        receiver.next().await;
        receiver.next().await;
        assert!(receiver.is_idle());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = Receiver::answering(&["200 OK"]).await;
    let answer = format!("307 Temporary Redirect\r\nlocation: {}", elsewhere.url());
    let receiver = Receiver::answering(&[&answer]).await;
    let mut stage = Stage::open(Place::file(), &by_webhook(webhook(&receiver.url()))).await;
    stage.fail_a_rollback("the bank is closed").await;
    let failed = stage.sent().await.unwrap_err();
    assert!(failed.contains("307") && !failed.contains("hush"), "{failed}");
    assert!(elsewhere.is_idle());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_never_answers_is_given_up_and_its_address_stays_secret() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hush", silent.local_addr().unwrap());
    let config = by_webhook(Webhook { timeout: Duration::from_millis(100), ..webhook(&url) });
    let mut stage = Stage::open(Place::file(), &config).await;
    stage.fail_a_rollback("the bank is closed").await;
    let late = stage.sent().await.unwrap_err();
    assert!(late.contains("webhook: no answer within 100ms"), "{late}");
    drop(silent);
    // What was on its way to it may still be late.
    let mut failures = Vec::new();
    while !failures.iter().any(|failure: &String| failure.contains("refused")) {
        failures.push(stage.sent().await.unwrap_err());
    }
    assert!(failures.iter().all(|failure| !failure.contains("hush")), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_waits_until_the_sink_is_attached() {
    let mut stage = Stage::open_unattached(Place::file(), &Config::default()).await;
    stage.fail_a_rollback("the bank is closed").await;
    let refused = stage.sent().await.unwrap_err();
    assert!(refused.contains("AlertSink::attach"), "{refused}");
    stage.sink.attach(&stage.engine).await.unwrap();
    stage.out().await;
    assert_eq!(notified(&stage.newest().await), [("log", "", 1)]);
}
