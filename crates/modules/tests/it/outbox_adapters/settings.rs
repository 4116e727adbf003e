//! Settings that cannot work.

use std::path::PathBuf;

use backstitch_modules::outbox::{Config, Http, Nats, Secret, TopicConfig};

use crate::outbox_adapters::stage::{clock, http, nats};

#[test]
fn all_mistakes_of_all_topics_are_told_at_once_each_with_its_place() {
    let config: Config = toml::from_str(
        r#"
        [topics."backstitch.alerts"]
        adapter = "log"
        [topics.orders]
        adapter = "http"
        url = "ftp://ada:hush@host/#top"
        headers = { "Idempotency-Key" = "mine", "X A" = "1", "X-A" = "1", "x-a" = "2", "X-B" = "a\nb" }
        timeout = "1h"
        concurrency = 0
        max_attempts = 0
        backoff = []
        [topics.stock]
        adapter = "nats"
        url = "nats://ada:hush@one,http://two,tls://three"
        subject = "stock.*"
        stream = "S T"
        user = "ada"
        token = "hush"
        backoff = ["2days"]
        "#,
    )
    .unwrap();
    let mistakes = config.check().unwrap_err().mistakes;
    let expected = [
        "outbox.topics.backstitch.alerts: names that begin with `backstitch.`",
        "outbox.topics.orders.url is neither http nor https",
        "outbox.topics.orders.url holds a user or a password",
        "outbox.topics.orders.url has a fragment",
        "outbox.topics.orders.headers.Idempotency-Key belongs to the call itself",
        "outbox.topics.orders.headers.X A is not a header's name",
        "outbox.topics.orders.headers.X-B has a line break",
        "outbox.topics.orders.headers.x-a is given twice",
        "outbox.topics.orders.timeout must be 100ms to 20s",
        "outbox.topics.orders.concurrency must be 1 to",
        "outbox.topics.orders.max_attempts must be 1 to",
        "outbox.topics.orders.backoff must list 1 to",
        "outbox.topics.stock.url: it holds a user or a password",
        "outbox.topics.stock.url: `http://two` is no server",
        "outbox.topics.stock.user and outbox.topics.stock.password go together",
        "outbox.topics.stock: user, token and credentials are three ways",
        "outbox.topics.stock.subject: `stock.*` is no subject",
        "outbox.topics.stock.stream: `S T` is no stream's name",
        "outbox.topics.stock.backoff: no wait may be longer",
    ];
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
    for (mistake, expected) in mistakes.iter().zip(expected) {
        assert!(mistake.starts_with(expected), "{mistake} instead of {expected}");
        assert!(!mistake.contains("hush"), "{mistake}");
    }
}

#[test]
fn a_pattern_that_cannot_work_is_told_with_its_place() {
    let config: Config = toml::from_str(
        r#"
        [topics."*"]
        adapter = "log"
        [topics."backstitch.*"]
        adapter = "log"
        [topics."backstitch.sagas.*"]
        adapter = "log"
        [topics.orders]
        adapter = "nats"
        url = "nats://one"
        stream = "ORDERS"
        [topics."si>tes.*"]
        adapter = "nats"
        url = "nats://one"
        stream = "SITES"
        [topics."sites*"]
        adapter = "log"
        [topics."sites.*"]
        adapter = "nats"
        url = "nats://one"
        stream = "SITES"
        [topics."sites.*.live"]
        adapter = "http"
        url = "ftp://host"
        "#,
    )
    .unwrap();
    let mistakes = config.check().unwrap_err().mistakes;
    let expected = [
        "outbox.topics.*: a `*` stands for all topics below a name: write it",
        "outbox.topics.backstitch.*: names that begin with `backstitch.`",
        "outbox.topics.backstitch.sagas.*: names that begin with `backstitch.`",
        "outbox.topics.orders.subject is missing",
        "outbox.topics.si>tes.*.subject: `si>tes` is no subject to publish to",
        "outbox.topics.sites*: a `*` stands for",
        "outbox.topics.sites.*.live: a `*` stands for",
        "outbox.topics.sites.*.live.url is neither http nor https",
    ];
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
    for (mistake, expected) in mistakes.iter().zip(expected) {
        assert!(mistake.starts_with(expected), "{mistake} instead of {expected}");
    }
}

#[test]
fn topics_that_cannot_work_make_no_sink() {
    let no_file = Some(PathBuf::from("no/such/file"));
    let not_creds = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    for (topic, complaint) in [
        (TopicConfig::by(http("ftp://host")), "outbox.topics.orders.url is neither http nor https"),
        (
            TopicConfig::by(Http { root_certificate: no_file.clone(), ..http("http://host") }),
            "outbox.topics.orders.root_certificate: `no/such/file`",
        ),
        (
            TopicConfig::by(Nats { root_certificate: not_creds.clone(), ..nats("nats://host") }),
            "holds no certificate",
        ),
        (
            TopicConfig::by(Nats { credentials: no_file, ..nats("nats://host") }),
            "outbox.topics.orders.credentials: `no/such/file`",
        ),
        (TopicConfig::by(Nats { credentials: not_creds, ..nats("nats://host") }), "a JWT and its seed"),
        (TopicConfig::by(Nats { password: Some(Secret::new("hush")), ..nats("nats://host") }), "go together"),
    ] {
        let refused = topic.sink("orders", &clock()).err().unwrap().to_string();
        assert!(refused.contains(complaint) && !refused.contains("hush"), "{refused}");
    }
}
