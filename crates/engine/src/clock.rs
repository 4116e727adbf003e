//! Where time and ids come from. Nothing else in the engine asks the machine for either.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstitch_kernel::{SagaId, Timestamp};
use uuid::{ContextV7, Uuid};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The time now, UTC.
    fn now(&self) -> Timestamp;

    /// Time that has passed since a fixed moment. Unlike [`Self::now`], it does not change when the clock is set. `None` if this
    /// clock cannot tell: the engine then measures with tokio's clock.
    fn monotonic(&self) -> Option<Duration> {
        None
    }
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

/// Another clock, but time never goes back. When that one is set back, this one goes on more slowly until the other has
/// caught up, so that what is written from then on is wrong by less and less.
///
/// Ahead it follows at once, where the store has no clock of its own: a machine that slept, or that learns the time late,
/// is right about it, and what is due at a time of day is due then. While it is slow a wait takes longer than it should, by a third at most, and never less.
///
/// Where nodes share a store, its clock is the one that counts. The time is then the store's at the last reading and the
/// monotonic time since, so setting the machine's clock changes nothing. Only a reading corrects it, also backwards by more
/// than a second, since a deadline that is judged an hour early cannot be taken back.
pub(crate) struct NeverBack {
    clock: Arc<dyn Clock>,
    /// Measures monotonic time for a clock that does not.
    made: tokio::time::Instant,
    state: Mutex<ClockState>,
}

/// The time given out last, and the last reading of the store's clock.
struct ClockState {
    pace: Pace,
    /// Absent where the store has no clock of its own.
    reading: Option<Reading>,
}

/// The store's clock as it was read last.
#[derive(Clone, Copy)]
struct Reading {
    store: Timestamp,
    /// The monotonic time when it was read.
    read_at: Duration,
}

impl Reading {
    /// What the store's clock shows at this monotonic time.
    fn store_at(self, monotonic: Duration) -> Timestamp {
        match monotonic.checked_sub(self.read_at) {
            Some(since) => self.store.plus(since),
            None => self.store.minus(self.read_at.saturating_sub(monotonic)),
        }
    }
}

/// The difference to the store's clock that is made up for slowly.
const SLEWED: Duration = Duration::from_secs(1);

impl NeverBack {
    pub(crate) fn over(clock: Arc<dyn Clock>) -> Arc<Self> {
        let made = tokio::time::Instant::now();
        let pace = Pace::from(clock.now(), clock.monotonic().unwrap_or_default());
        Arc::new(Self { clock, made, state: Mutex::new(ClockState { pace, reading: None }) })
    }

    /// Follows the store's clock. `read` reads it; nothing comes of one that is not the store's own.
    pub(crate) async fn follow<E>(
        &self,
        read: impl Future<Output = Result<Option<Timestamp>, E>>,
    ) -> Result<(), E> {
        let asked = self.passed();
        if let Some(store) = read.await? {
            self.follow_reading(asked, store, self.passed());
        }
        Ok(())
    }

    /// The store's clock showed this at some time between two monotonic times.
    fn follow_reading(&self, asked: Duration, store: Timestamp, answered: Duration) {
        let uncertain = answered.saturating_sub(asked) / 2;
        let reading = Reading { store, read_at: asked + uncertain };
        let mut state = self.state();
        if let Some(known) = state.reading {
            let expected = known.store_at(reading.read_at);
            if store.since(expected).max(expected.since(store)) <= uncertain {
                return;
            }
        }
        let is_first = state.reading.replace(reading).is_none();
        let passed = self.passed();
        let shows = reading.store_at(passed);
        if is_first || state.pace.told > shows.plus(SLEWED) {
            state.pace = Pace::from(shows, passed);
        }
    }

    /// How far the other clock is from the store's; nothing where that was never read.
    pub(crate) fn skew(&self) -> Duration {
        let Some(reading) = self.state().reading else { return Duration::ZERO };
        let (store, machine) = (reading.store_at(self.passed()), self.clock.now());
        store.since(machine).max(machine.since(store))
    }

    /// Monotonic time.
    fn passed(&self) -> Duration {
        self.clock.monotonic().unwrap_or_else(|| self.made.elapsed())
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for NeverBack {
    fn now(&self) -> Timestamp {
        let mut state = self.state();
        let passed = self.passed();
        let shows = state.reading.map_or_else(|| self.clock.now(), |reading| reading.store_at(passed));
        state.pace.tell(shows, passed)
    }

    fn monotonic(&self) -> Option<Duration> {
        Some(self.passed())
    }
}

/// What is told of a clock that may be set back.
struct Pace {
    /// What was told last.
    told: Timestamp,
    /// What was told when the clock was last followed, and how much time had passed by then. Measured from there and
    /// not from reading to reading, slow time loses nothing to rounding.
    followed: Timestamp,
    passed: Duration,
    /// Whether the clock was behind what was told last. One that only stands still is followed in that.
    is_behind: bool,
}

impl Pace {
    fn from(shows: Timestamp, passed: Duration) -> Self {
        Self { told: shows, followed: shows, passed, is_behind: false }
    }

    /// The time, when the clock shows this and so much time has passed since the beginning.
    fn tell(&mut self, shows: Timestamp, passed: Duration) -> Timestamp {
        let slow = self.followed.plus(passed.saturating_sub(self.passed) * 3 / 4).max(self.told);
        let least = if self.is_behind { slow } else { self.told };
        if shows >= least {
            *self = Self { told: shows, followed: shows, passed, is_behind: false };
        } else {
            self.told = slow;
            self.is_behind = true;
        }
        self.told
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
pub struct ManualClock {
    /// In microseconds.
    shows: AtomicI64,
    /// In microseconds.
    passed: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn at(time: Timestamp) -> Self {
        Self { shows: AtomicI64::new(time.as_micros()), passed: AtomicU64::new(0) }
    }

    /// Lets time pass: the clock and its monotonic time move on.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.passed.fetch_add(micros.unsigned_abs(), Ordering::SeqCst);
        self.shows.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets the clock, backwards too. No time passes.
    pub fn set(&self, time: Timestamp) {
        self.shows.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.shows.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.passed.load(Ordering::SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    const fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn over(shows: Timestamp) -> (Arc<ManualClock>, Arc<NeverBack>) {
        let machine = Arc::new(ManualClock::at(shows));
        (machine.clone(), NeverBack::over(machine))
    }

    #[tokio::test(start_paused = true)]
    async fn store_clock_is_followed_at_once_from_the_first_reading() {
        for shows in [at(10_000), at(1_000_000)] {
            let (machine, clock) = over(shows);
            clock.follow_reading(after(0), at(500_000), after(0));
            assert_eq!(clock.now(), at(500_000));
            machine.advance(after(5));
            assert_eq!(clock.now(), at(500_005));
            assert_eq!(
                clock.skew(),
                after(u64::try_from((shows.as_micros() / 1_000_000 - 500_000).abs()).unwrap())
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn machine_clock_that_is_set_changes_only_the_skew() {
        for wrong in [at(4600), at(100)] {
            let (machine, clock) = over(at(1000));
            clock.follow_reading(after(0), at(1000), after(0));
            machine.set(wrong);
            assert_eq!(clock.now(), at(1000));
            machine.advance(after(2));
            assert_eq!(clock.now(), at(1002));
            let apart = wrong.since(at(1000)).max(at(1000).since(wrong));
            assert_eq!(clock.skew(), apart, "it is known before the next reading");
            clock.follow_reading(after(2), at(1002), after(2));
            assert_eq!((clock.now(), clock.skew()), (at(1002), apart));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reading_corrects_the_time_in_both_directions() {
        let (_, clock) = over(at(1000));
        clock.follow_reading(after(0), at(1000), after(0));
        clock.follow_reading(after(0), at(5000), after(0));
        assert_eq!(clock.now(), at(5000));
        clock.follow_reading(after(0), at(2000), after(0));
        assert_eq!(clock.now(), at(2000), "a store that was set back by more than a second is followed");
        clock.follow_reading(after(0), at(2000).minus(SLEWED), after(0));
        assert_eq!(clock.now(), at(2000), "a smaller step makes time slower instead");
    }

    #[tokio::test(start_paused = true)]
    async fn clock_without_monotonic_time_is_measured_by_tokio() {
        struct Frozen;
        impl Clock for Frozen {
            fn now(&self) -> Timestamp {
                at(7)
            }
        }
        let clock = NeverBack::over(Arc::new(Frozen));
        clock.follow_reading(clock.passed(), at(1000), clock.passed());
        tokio::time::advance(after(3)).await;
        assert_eq!(clock.now(), at(1003));
    }

    #[tokio::test(start_paused = true)]
    async fn time_to_the_store_and_back_is_no_skew() {
        let (_, clock) = over(at(1000));
        clock.follow_reading(after(0), at(1000), after(0));
        clock.follow_reading(after(0), at(1003), after(4));
        assert_eq!(clock.skew(), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_goes_on_is_followed_also_when_it_jumps_ahead_or_stands_still() {
        let mut pace = Pace::from(at(100), Duration::ZERO);
        for (shows, passed) in [(101, 1), (101, 2), (5000, 3), (5001, 4)] {
            assert_eq!(pace.tell(at(shows), after(passed)), at(shows));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_is_caught_up_with_at_three_quarters_of_the_pace() {
        let mut pace = Pace::from(at(1000), Duration::ZERO);
        // Set back by 100 seconds: that takes 400 of them to make up for.
        assert_eq!(pace.tell(at(900), after(0)), at(1000));
        assert_eq!(pace.tell(at(940), after(40)), at(1030));
        assert_eq!(pace.tell(at(1100), after(200)), at(1150));
        assert_eq!(pace.tell(at(1296), after(396)), at(1297));
        assert_eq!(pace.tell(at(1300), after(400)), at(1300));
        assert_eq!(pace.tell(at(1350), after(450)), at(1350), "from then on they agree");
    }

    #[test]
    fn it_does_not_matter_how_often_the_time_is_asked_for() {
        let (mut seldom, mut often) =
            (Pace::from(at(1000), Duration::ZERO), Pace::from(at(1000), Duration::ZERO));
        seldom.tell(at(900), after(0));
        for micros in 0..100_000 {
            often.tell(at(900).plus(Duration::from_micros(micros)), Duration::from_micros(micros));
        }
        let (shows, passed) = (at(1000), after(100));
        assert_eq!(often.tell(shows, passed), at(1075));
        assert_eq!(seldom.tell(shows, passed), at(1075));
    }

    #[test]
    fn a_jump_ahead_that_is_taken_back_leaves_no_trace_in_the_end() {
        let mut pace = Pace::from(at(0), Duration::ZERO);
        assert_eq!(pace.tell(at(3600), after(0)), at(3600), "an hour ahead, by mistake");
        assert_eq!(pace.tell(at(0), after(0)), at(3600), "and set right");
        assert_eq!(pace.tell(at(3600), after(0)), at(3600), "twice");
        assert_eq!(pace.tell(at(0), after(0)), at(3600));
        assert_eq!(pace.tell(at(4 * 3600), after(4 * 3600)), at(4 * 3600));
        assert_eq!(pace.tell(at(4 * 3600 + 1), after(4 * 3600 + 1)), at(4 * 3600 + 1));
    }

    #[test]
    fn a_wait_is_never_over_early_however_a_clock_is_set_back() {
        let mut pace = Pace::from(at(10_000), Duration::ZERO);
        let mut told = at(10_000);
        for second in 1..2000 {
            // It goes back by a little, by much, and again while it is being caught up with.
            let back = match second {
                0..100 => 0,
                100..900 => 50,
                _ => 5000,
            };
            let shows = at(10_000 + second - back);
            let now = pace.tell(shows, after(second.unsigned_abs()));
            assert!(now >= told, "time went back");
            assert!(now.since(told) <= after(1), "time went faster than it passes");
            assert!(now >= shows, "it is never behind");
            told = now;
        }
    }
}
