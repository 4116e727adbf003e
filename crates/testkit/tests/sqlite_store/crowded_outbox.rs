//! Messages that are too old in front of one that is not, while other topics have much to send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::ManualClock;
use backstitch::kernel::Payload;
use backstitch::outbox::{Route, Routes};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::{NewMessage, Publication, Status};
use backstitch::{Engine, Options};
use backstitch_testkit::conformance::{Fixture as _, SqliteFixture};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
/// How long anything may take that is waited for.
const SOON: Duration = Duration::from_secs(60);
/// As many as a topic has places, and more.
const LATE: usize = 12;
const BUSY_TOPICS: usize = 100;
const MUCH: usize = 20_000;

/// Takes only what is not too late, and knows how much of the other topics it had taken before that.
#[derive(Default)]
struct Choosy {
    busy: AtomicUsize,
    before_the_live_one: AtomicUsize,
}

#[async_trait]
impl Sink for Choosy {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        match &*message.idempotency_key {
            late if late.starts_with("late") => return Err(Undelivered::new("down", "the broker is down")),
            "live" => self.before_the_live_one.store(self.busy.load(Ordering::SeqCst), Ordering::SeqCst),
            _ => drop(self.busy.fetch_add(1, Ordering::SeqCst)),
        }
        Ok(Receipt::default())
    }
}

async fn until(engine: &Engine, key: &str, status: Status) {
    let began = Instant::now();
    loop {
        let kept = engine.message_of("quiet", key).await.unwrap().unwrap();
        if kept.status == status {
            return;
        }
        assert!(began.elapsed() < SOON, "never {status:?}: {kept:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// More than can be sent at a time.
async fn publish_much(fixture: &SqliteFixture) {
    let payload = Payload::parse("1").unwrap();
    let digest = backstitch::outbox::digest(&payload);
    let batch = (0..MUCH).map(|nth| {
        let (topic, idempotency_key) = (format!("busy.{}", nth % BUSY_TOPICS), nth.to_string());
        let payload = payload.clone();
        let message = NewMessage { topic, idempotency_key, ordering_key: None, payload, expires_at: None };
        Publication { message, digest, expires_in: None }
    });
    fixture.store().publish(&batch.collect::<Vec<_>>(), fixture.now()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_holds_up_nothing_behind_it_while_other_topics_are_busy() {
    let fixture = SqliteFixture::open().await;
    let sink = Arc::new(Choosy::default());
    let route = Route { backoff: vec![HOUR], ..Route::to(sink.clone()) };
    let options = Options {
        clock: Arc::new(ManualClock::at(fixture.now())),
        routes: Routes::none().with("quiet", route.clone()).with("busy.*", Route { concurrency: 1, ..route }),
        // What is too old is not looked for now and then: that would be too late here.
        send_timeout: HOUR * 24,
        ..Options::default()
    };
    let engine = Engine::on_store(fixture.store(), options).await.unwrap();
    let expiry = fixture.now().plus(HOUR / 2);
    for nth in 0..LATE {
        engine.publish("quiet", &format!("late {nth}"), &nth).expires_at(expiry).await.unwrap();
    }
    for nth in 0..LATE {
        until(&engine, &format!("late {nth}"), Status::Failed).await;
    }
    publish_much(&fixture).await;
    fixture.advance(HOUR).await;
    engine.publish("quiet", "live", &0).await.unwrap();
    until(&engine, "live", Status::Succeeded).await;
    until(&engine, "late 0", Status::Aborted).await;
    let before = sink.before_the_live_one.load(Ordering::SeqCst);
    assert!(before < MUCH / 2, "it had to wait for {before} of {MUCH} messages of other topics");
    engine.shutdown().await.unwrap();
}
