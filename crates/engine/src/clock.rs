//! Where time and ids come from. Nothing else in the engine asks the machine for either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstitch_kernel::{SagaId, Timestamp};
use uuid::{ContextV7, Uuid};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The time now, UTC.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Time as tokio tells it: the machine's when the clock is made, then moved by tokio's own clock. Under tokio's
/// paused time it jumps along, so that hours of waiting pass at once in a test.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    made: tokio::time::Instant,
    at: Timestamp,
}

impl Default for TokioClock {
    fn default() -> Self {
        Self { made: tokio::time::Instant::now(), at: SystemClock.now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.at.plus(self.made.elapsed())
    }
}

/// Another clock, but time never goes back: when that one is set back, this one goes on from where it was, and stays
/// ahead by as much for as long as it lives. What waits for a second then waits for a second.
pub(crate) struct NeverBack {
    clock: Arc<dyn Clock>,
    reading: Mutex<Reading>,
}

struct Reading {
    /// What the other clock showed last.
    shown: Timestamp,
    /// How far it was set back, all in all.
    ahead: Duration,
}

impl NeverBack {
    pub(crate) fn over(clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
        let reading = Mutex::new(Reading { shown: clock.now(), ahead: Duration::ZERO });
        Arc::new(Self { clock, reading })
    }
}

impl Clock for NeverBack {
    fn now(&self) -> Timestamp {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let shows = self.clock.now();
        let set_back = reading.shown.since(shows);
        reading.ahead += set_back;
        reading.shown = shows;
        shows.plus(reading.ahead)
    }
}

/// Makes saga ids.
pub trait Ids: Send + Sync + 'static {
    /// A new id for a saga that starts now; later ones sort after earlier ones.
    fn next(&self, now: Timestamp) -> SagaId;
}

/// `UUIDv7` from the given time, a counter and the machine's randomness.
#[derive(Debug)]
pub struct RandomIds(Mutex<ContextV7>);

impl Default for RandomIds {
    fn default() -> Self {
        Self(Mutex::new(ContextV7::new()))
    }
}

impl Ids for RandomIds {
    fn next(&self, now: Timestamp) -> SagaId {
        let micros = u64::try_from(now.as_micros()).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000 * 1_000).unwrap_or(0);
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        SagaId(Uuid::new_v7(uuid::Timestamp::from_unix(&*context, micros / 1_000_000, nanos)))
    }
}

/// A clock that stands still until it is moved: for tests.
#[derive(Debug, Default)]
pub struct ManualClock(std::sync::atomic::AtomicI64);

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn at(time: Timestamp) -> Self {
        Self(std::sync::atomic::AtomicI64::new(time.as_micros()))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, std::sync::atomic::Ordering::SeqCst);
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}
