//! Nodes whose clocks are an hour wrong: deadlines and timers go by the clock of the store that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backstitch::clock::{Clock, SystemClock};
use backstitch::{Context, Engine, Options, Retry, Saga, Status, Step, StepError, Timestamp, secs};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::fresh_database;
use tokio::sync::Semaphore;

const HOUR: Duration = secs(3600);

/// A machine whose clock is an hour ahead, or behind.
struct Wrong {
    is_ahead: bool,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        if self.is_ahead { now.plus(HOUR) } else { now.minus(HOUR) }
    }
}

async fn wrong_node(address: &str, is_ahead: bool) -> Engine {
    let options = Options { clock: Arc::new(Wrong { is_ahead }), ..Options::default() };
    Engine::open_with(address, options).await.unwrap()
}

fn gated(gate: &Arc<Semaphore>) -> Saga {
    let gate = gate.clone();
    let step = Step::new("a", move |_: Context<()>| {
        let gate = gate.clone();
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    Saga::builder("gated").step(step.timeout(HOUR)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_is_judged_by_the_stores_clock() {
    for is_ahead in [true, false] {
        let address = fresh_database().await;
        let right = Engine::open(&address).await.unwrap();
        let engine = wrong_node(&address, is_ahead).await;
        let gate = Arc::new(Semaphore::new(0));
        engine.register(gated(&gate)).unwrap();
        let half_an_hour = SystemClock.now().plus(HOUR / 2);
        let run = engine.start("gated", &()).deadline(half_an_hour).await.unwrap();
        // Time is looked at only now and then: a message has the saga looked at.
        engine.resume(run.id(), "look at the clock").await.unwrap();
        gate.add_permits(1);
        let ended = tokio::time::timeout(PATIENCE, run.outcome()).await.unwrap().unwrap();
        assert_eq!(ended.status, Status::Succeeded, "ahead: {is_ahead}");

        let past = SystemClock.now().minus(secs(60));
        let late = engine.start("gated", &()).deadline(past).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, late.outcome()).await.unwrap().unwrap();
        assert_eq!(ended.status, Status::Compensated, "ahead: {is_ahead}");
        let apart = engine.clock_skew();
        assert!(apart + secs(60) > HOUR && apart < HOUR + secs(60), "{apart:?}");
        assert!(right.clock_skew() < secs(60));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timer_is_written_by_the_stores_clock() {
    for is_ahead in [true, false] {
        let address = fresh_database().await;
        let engine = wrong_node(&address, is_ahead).await;
        let tried = Arc::new(AtomicBool::new(false));
        let noted = tried.clone();
        let busy = Step::new("a", move |_: Context<()>| {
            noted.store(true, Ordering::Relaxed);
            async { Result::<(), _>::Err(StepError::not_done("busy").into()) }
        });
        let busy = busy.retry(Retry::fixed(1, 2 * HOUR));
        engine.register(Saga::builder("s").step(busy).build().unwrap()).unwrap();
        let saga = engine.start("s", &()).await.unwrap().id();
        let begun = Instant::now();
        let wake_at = loop {
            let row = engine.store().rows(&[saga]).await.unwrap().remove(0);
            if let Some(wake_at) = row.wake_at.filter(|_| row.owner.is_none()) {
                break wake_at;
            }
            assert!(begun.elapsed() < PATIENCE, "it is not released");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!(tried.load(Ordering::Relaxed));
        let wait = wake_at.since(SystemClock.now());
        assert!(wait + secs(120) > 2 * HOUR && wait <= 2 * HOUR, "ahead: {is_ahead}: {wait:?}");
    }
}
