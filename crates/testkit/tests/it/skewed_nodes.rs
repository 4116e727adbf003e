//! Nodes with clocks an hour wrong: deadlines and timers use the clock of their shared store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use backstitch::clock::{Clock, SystemClock};
use backstitch::{Context, Engine, Options, Retry, Saga, SagaId, Status, Step, StepError, Timestamp, secs};
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::fresh_database;
use tokio::sync::Semaphore;

const HOUR: Duration = secs(3600);
const HOUR_MICROS: i64 = 3_600_000_000;

/// A machine clock an hour ahead, or behind.
struct Wrong {
    is_ahead: bool,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        if self.is_ahead { now.plus(HOUR) } else { now.minus(HOUR) }
    }
}

/// A machine clock that is set while the node runs. The monotonic clock is tokio's.
#[derive(Default)]
struct Stepped(AtomicI64);

impl Clock for Stepped {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().as_micros() + self.0.load(Ordering::SeqCst))
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
        // Time is checked only now and then: a message wakes the saga.
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

/// A step that fails and is retried after two hours, and whether it was retried.
fn busy() -> (Saga, Arc<AtomicBool>) {
    let tried = Arc::new(AtomicBool::new(false));
    let noted = tried.clone();
    let busy = Step::new("a", move |_: Context<()>| {
        noted.store(true, Ordering::Relaxed);
        async { Result::<(), _>::Err(StepError::not_done("busy").into()) }
    });
    (Saga::builder("busy").step(busy.retry(Retry::fixed(1, 2 * HOUR))).build().unwrap(), tried)
}

/// The due time in the row of a released saga.
async fn wake_time(engine: &Engine, saga: SagaId) -> Timestamp {
    let begun = Instant::now();
    loop {
        let row = engine.store().rows(&[saga]).await.unwrap().remove(0);
        if let Some(wake_at) = row.wake_at.filter(|_| row.owner.is_none()) {
            return wake_at;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not released");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn step_of_the_machines_clock_moves_no_deadline_timer_or_event() {
    for step in [HOUR_MICROS, -HOUR_MICROS] {
        let clock = Arc::new(Stepped::default());
        // The store's clock is read once: the rest happens between two readings.
        let lease = 24 * HOUR;
        let options = Options { clock: clock.clone(), lease, ..Options::default() };
        let engine = Engine::open_with(&fresh_database().await, options).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        engine.register(gated(&gate)).unwrap();
        engine.register(busy().0).unwrap();
        let half_an_hour = SystemClock.now().plus(HOUR / 2);
        let run = engine.start("gated", &()).deadline(half_an_hour).await.unwrap();
        clock.0.store(step, Ordering::SeqCst);
        engine.resume(run.id(), "look at the clock").await.unwrap();
        gate.add_permits(1);
        let ended = tokio::time::timeout(PATIENCE, run.clone().outcome()).await.unwrap().unwrap();
        assert_eq!(ended.status, Status::Succeeded, "set by {step}");
        let timed = engine.start("busy", &()).await.unwrap().id();
        let wait = wake_time(&engine, timed).await.since(SystemClock.now());
        assert!(wait + secs(120) > 2 * HOUR && wait < 2 * HOUR + secs(120), "set by {step}: {wait:?}");
        for saga in [run.id(), timed] {
            for event in engine.log(saga, 0, 100).await.unwrap() {
                let now = SystemClock.now();
                let apart = event.at.since(now).max(now.since(event.at));
                assert!(apart < HOUR / 2, "set by {step}: {event:?}");
            }
        }
        let apart = engine.clock_skew();
        assert!(apart + secs(60) > HOUR && apart < HOUR + secs(60), "set by {step}: {apart:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timer_is_written_by_the_stores_clock() {
    for is_ahead in [true, false] {
        let address = fresh_database().await;
        let engine = wrong_node(&address, is_ahead).await;
        let (saga, tried) = busy();
        engine.register(saga).unwrap();
        let saga = engine.start("busy", &()).await.unwrap().id();
        let wake_at = wake_time(&engine, saga).await;
        assert!(tried.load(Ordering::Relaxed));
        let wait = wake_at.since(SystemClock.now());
        assert!(wait + secs(120) > 2 * HOUR && wait < 2 * HOUR + secs(120), "ahead: {is_ahead}: {wait:?}");
    }
}
