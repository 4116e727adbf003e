//! The log, the file, and what is no alert.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::{Engine, Payload};
use backstitch_modules::alerts::{AlertSink, Config};
use serde_json::Value;

use crate::alerts::stage::{Place, Stage, notified};

#[tokio::test(flavor = "multi_thread")]
async fn without_any_channel_an_alert_is_in_the_log_and_that_counts() {
    let log = log();
    for place in Place::each().await {
        let mut stage = Stage::open(place, &Config::default()).await;
        let saga = stage.fail_a_rollback("the bank is closed\nfor good").await;
        assert!(stage.out().await.is_empty());
        let listed = stage.newest().await;
        assert_eq!(notified(&listed), [("log", "", 1)]);
        let written = log.written();
        let headline = format!("rollback failed: payment of order {saga}");
        let lines: Vec<&str> = written.lines().filter(|line| line.contains(&headline)).collect();
        assert!(lines.len() == 1 && lines[0].contains("ERROR"), "{lines:?}");
        assert!(lines[0].contains("the bank is closed for good"), "on the same line: {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_becomes_a_line_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerts.jsonl");
    let mut stage =
        Stage::open(Place::file(), &Config { file: Some(path.clone()), ..Config::default() }).await;
    let mut sagas = Vec::new();
    for why in ["the bank is closed", "two\nlines"] {
        sagas.push(stage.fail_a_rollback(why).await.to_string());
        assert!(stage.out().await.is_empty());
    }
    let written = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["tx_id"].as_str().unwrap()).collect::<Vec<_>>(), sagas);
    assert_eq!(lines[1]["error"]["message"], "two\nlines");
    assert_eq!(lines[0]["error"]["code"], "BANK_CLOSED");
    assert!(lines[0]["occurred_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(notified(&stage.newest().await), [("file", "", 1), ("log", "", 1)]);
}

#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

#[async_trait]
impl Sink for Kept {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        self.0.lock().unwrap().push(message.topic.clone());
        Err(Undelivered::new("down", "the broker is down"))
    }
}

#[tokio::test]
async fn what_is_no_alert_goes_to_the_other_sink() {
    let kept = Arc::new(Kept::default());
    let sink = AlertSink::new(&Config::default()).unwrap().others_to(kept.clone());
    let message = Message {
        topic: "orders".to_owned(),
        idempotency_key: "k".to_owned(),
        ordering_key: None,
        payload: Payload::null(),
        in_doubt: false,
    };
    assert_eq!(sink.send(&message).await, Err(Undelivered::new("down", "the broker is down")));
    assert_eq!(*kept.0.lock().unwrap(), ["orders"]);
}

#[tokio::test]
async fn an_engine_that_keeps_no_account_of_alerts_is_not_attached_to() {
    let sink = AlertSink::new(&Config::default()).unwrap();
    let bare = Engine::in_memory().await.unwrap();
    let refused = sink.attach(&bare).await.unwrap_err().to_string();
    assert!(refused.contains("alerts::SCHEMA"), "{refused}");
}

#[test]
fn settings_that_cannot_work_make_no_sink() {
    let folder = tempfile::tempdir().unwrap();
    let file = Some(folder.path().join("no/such/folder.jsonl"));
    let refused = AlertSink::new(&Config { file, ..Config::default() }).err().unwrap();
    assert!(refused.to_string().contains("alerts.file: "), "{refused}");
}

/// What all tests of this process have logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn written(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        log
    })
    .clone()
}
