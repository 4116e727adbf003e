//! Messages of a node with a wrong clock: only the database's clock counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::ManualClock;
use backstitch::kernel::Timestamp;
use backstitch::outbox::{Route, Routes};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::{Kept, Status};
use backstitch::{Engine, Options};
use backstitch_testkit::conformance::{Fixture as _, PostgresFixture};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
const SKEW_MICROS: i64 = 5 * 60 * 1_000_000;
/// Time limit of every wait.
const SOON: Duration = backstitch_testkit::PATIENCE;

/// Fails the first send.
#[derive(Clone, Default)]
struct Reluctant(Arc<AtomicU32>);

#[async_trait]
impl Sink for Reluctant {
    async fn send(&self, _: &Message) -> Result<Receipt, Undelivered> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Undelivered::new("down", "the broker is down")),
            _ => Ok(Receipt::default()),
        }
    }
}

async fn until(engine: &Engine, status: Status) -> Kept {
    let began = Instant::now();
    loop {
        let kept = engine.message_of("t", "k").await.unwrap().unwrap();
        if kept.status == status {
            return kept;
        }
        assert!(began.elapsed() < SOON, "never {status:?}: {kept:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a message at the second attempt, from a node with this clock skew.
async fn sent_by_a_node_off_by(micros: i64) {
    let fixture = PostgresFixture::open().await;
    let shown = Timestamp::from_micros(fixture.now().as_micros() + micros);
    let sink = Reluctant::default();
    let route = Route { backoff: vec![MINUTE], ..Route::to(Arc::new(sink.clone())) };
    let options = Options {
        clock: Arc::new(ManualClock::at(shown)),
        routes: Routes::none().with("t", route),
        tick: Duration::from_millis(20),
        ..Options::default()
    };
    let engine = Engine::on_store(fixture.store(), options).await.unwrap();
    engine.publish("t", "k", &1).await.unwrap();
    let failed = until(&engine, Status::Failed).await;
    assert_eq!(failed.due_at, Some(fixture.now().plus(MINUTE)), "it waits by the database's clock");
    fixture.advance(MINUTE).await;
    assert_eq!(until(&engine, Status::Succeeded).await.attempts, 2);
    assert_eq!(sink.0.load(Ordering::SeqCst), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn message_expires_by_the_databases_clock() {
    let fixture = PostgresFixture::open().await;
    let ahead = Timestamp::from_micros(fixture.now().as_micros() + SKEW_MICROS);
    let sink = Reluctant::default();
    let route = Route { backoff: vec![MINUTE / 6], ..Route::to(Arc::new(sink.clone())) };
    let options = Options {
        clock: Arc::new(ManualClock::at(ahead)),
        routes: Routes::none().with("t", route),
        tick: Duration::from_millis(20),
        ..Options::default()
    };
    let engine = Engine::on_store(fixture.store(), options).await.unwrap();
    let in_time = fixture.now().plus(MINUTE / 2);
    engine.publish("t", "k", &1).expires_at(in_time).await.unwrap();
    let failed = until(&engine, Status::Failed).await;
    assert_eq!(failed.due_at, Some(fixture.now().plus(MINUTE / 6)), "it waits all of its wait");
    fixture.advance(MINUTE / 6).await;
    assert_eq!(until(&engine, Status::Succeeded).await.attempts, 2);
    engine.shutdown().await.unwrap();
}

/// Publishes a message with one minute to live, from a node with this clock skew, in both ways.
async fn lives_a_minute_on_a_node_off_by(micros: i64) {
    let fixture = PostgresFixture::open().await;
    let shown = Timestamp::from_micros(fixture.now().as_micros() + micros);
    let options = Options {
        clock: Arc::new(ManualClock::at(shown)),
        routes: Routes::none(),
        tick: Duration::from_millis(20),
        ..Options::default()
    };
    let engine = Engine::on_store(fixture.store(), options).await.unwrap();
    engine.publish("t", "k", &1).expires_in(MINUTE).await.unwrap();
    let in_a_minute = Some(fixture.now().plus(MINUTE));
    assert_eq!(until(&engine, Status::Pending).await.message.expires_at, in_a_minute);
    let mut client = fixture.beside().await;
    let transaction = client.transaction().await.unwrap();
    let id = engine.publish("t", "k2", &1).expires_in(MINUTE).in_postgres(&transaction).await.unwrap().id();
    transaction.commit().await.unwrap();
    assert_eq!(engine.message(id).await.unwrap().unwrap().message.expires_at, in_a_minute);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn message_due_time_uses_the_databases_clock() {
    lives_a_minute_on_a_node_off_by(-SKEW_MICROS).await;
    lives_a_minute_on_a_node_off_by(SKEW_MICROS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_a_slow_clock_sends_on_time() {
    sent_by_a_node_off_by(-SKEW_MICROS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_a_fast_clock_sends_on_time() {
    sent_by_a_node_off_by(SKEW_MICROS).await;
}
