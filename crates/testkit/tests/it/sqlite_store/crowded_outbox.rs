//! Expired messages in front of a valid one, while another topic is always busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::ManualClock;
use backstitch::kernel::{Payload, Timestamp};
use backstitch::outbox::{Route, Routes};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::{NewMessage, Publication, Status};
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{Error, Store};
use backstitch::{Engine, Options};
use backstitch_testkit::conformance::{Fixture as _, SqliteFixture};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
/// Time limit of every wait.
const SOON: Duration = backstitch_testkit::PATIENCE;
/// More than the concurrency of a topic.
const LATE: usize = 12;
/// More than there ever are at once.
const PLACES: usize = 100_000;

/// Accepts only messages that have not expired.
struct Choosy;

#[async_trait]
impl Sink for Choosy {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        if message.idempotency_key.starts_with("late") {
            return Err(Undelivered::new("down", "the broker is down"));
        }
        Ok(Receipt::default())
    }
}

/// Every query of the store adds one more message to the busy topic.
struct Busy {
    store: Arc<dyn Store>,
    now: Timestamp,
    begun: Arc<AtomicBool>,
    published: AtomicUsize,
}

#[async_trait]
impl Watch for Busy {
    async fn at(&self, _: Moment<'_>) -> Result<(), Error> {
        if !self.begun.load(Ordering::SeqCst) {
            return Ok(());
        }
        let payload = Payload::parse("1").unwrap();
        let digest = backstitch::outbox::digest(&payload);
        let message = NewMessage {
            topic: "busy".to_owned(),
            idempotency_key: self.published.fetch_add(1, Ordering::SeqCst).to_string(),
            ordering_key: None,
            payload,
            expires_at: None,
        };
        self.store
            .publish(&[Publication { message, digest, expires_in: None, ordering_scope: None }], self.now)
            .await
            .map(drop)
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

#[tokio::test(flavor = "multi_thread")]
async fn expired_messages_delay_none_while_a_topic_is_busy() {
    let fixture = SqliteFixture::open().await;
    let begun = Arc::new(AtomicBool::new(false));
    let (store, now) = (fixture.store(), fixture.now());
    let busy = Busy { store: store.clone(), now, begun: begun.clone(), published: AtomicUsize::new(0) };
    let clock = Arc::new(ManualClock::at(now));
    let route = Route { backoff: vec![HOUR], ..Route::to(Arc::new(Choosy)) };
    let options = Options {
        clock: clock.clone(),
        routes: Routes::none()
            .with("quiet", route.clone())
            .with("busy", Route { concurrency: PLACES, ..route }),
        // Expired messages are not polled occasionally: that would be too late here.
        send_timeout: HOUR * 24,
        ..Options::default()
    };
    let engine = Engine::on_store(Arc::new(Watched::new(store, busy)), options).await.unwrap();
    let expiry = now.plus(HOUR / 2);
    for nth in 0..LATE {
        engine.publish("quiet", &format!("late {nth}"), &nth).expires_at(expiry).await.unwrap();
    }
    for nth in 0..LATE {
        until(&engine, &format!("late {nth}"), Status::Failed).await;
    }
    begun.store(true, Ordering::SeqCst);
    fixture.advance(HOUR).await;
    clock.advance(HOUR);
    engine.publish("quiet", "live", &0).await.unwrap();
    until(&engine, "live", Status::Succeeded).await;
    until(&engine, "late 0", Status::Aborted).await;
    begun.store(false, Ordering::SeqCst);
    engine.shutdown().await.unwrap();
}
