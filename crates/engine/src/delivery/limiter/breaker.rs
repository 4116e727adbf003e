//! Circuit breaker of one partition.

use std::time::Duration;

use super::{LimiterSettings, PauseReason, Verdict};

/// Closed while the receiver works; open while it gets no attempts; half-open while one attempt, the probe, is running.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: State,
    /// Consecutive failures, and consecutive successes.
    failed_in_a_row: u32,
    succeeded_in_a_row: u32,
    recent: Recent,
    /// How often it opened since the receiver last worked for a while.
    opened: u32,
    /// Why it opened the last time.
    reason: Option<PauseReason>,
    /// Changes with the state, so that results of attempts that began before the last change are ignored.
    generation: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Duration,
    },
    HalfOpen,
}

/// The generation in which an attempt began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(u64);

impl Breaker {
    /// Whether an attempt may begin; if not, when to ask again, or `None` while a probe is running.
    pub(super) fn admits(&self, now: Duration) -> Result<(), Option<Duration>> {
        match self.state {
            State::Closed => Ok(()),
            State::Open { until } if until <= now => Ok(()),
            State::Open { until } => Err(Some(until)),
            State::HalfOpen => Err(None),
        }
    }

    /// Until when it is open, and why.
    pub(super) fn pause(&self) -> Option<(Duration, PauseReason)> {
        match self.state {
            State::Open { until } => Some((until, self.reason?)),
            State::Closed | State::HalfOpen => None,
        }
    }

    /// Whether only one attempt may begin.
    pub(super) fn wants_a_probe(&self) -> bool {
        self.state != State::Closed
    }

    /// An attempt that was admitted begins.
    pub(super) fn begin(&mut self) -> Ticket {
        if self.state != State::Closed {
            self.enter(State::HalfOpen);
        }
        Ticket(self.generation)
    }

    /// An attempt has ended. One that began before the state changed does not count.
    pub(super) fn end(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        now: Duration,
        settings: &LimiterSettings,
    ) {
        if ticket.0 != self.generation {
            return;
        }
        match (&self.state, verdict) {
            (State::HalfOpen, Verdict::Failing) => self.open(PauseReason::TestFailed, now, settings),
            (State::HalfOpen, Verdict::Healthy) => {
                self.enter(State::Closed);
                self.count_success(now, settings);
            }
            // The probe's result is unknown: the next attempt is the probe.
            (State::HalfOpen, Verdict::Unknown) => self.enter(State::Open { until: now }),
            (State::Closed, Verdict::Healthy) => self.count_success(now, settings),
            (State::Closed, Verdict::Failing) => self.count_failure(now, settings),
            // Nothing begins while it is open.
            (State::Closed, Verdict::Unknown) | (State::Open { .. }, _) => {}
        }
    }

    /// An attempt that another node admitted has ended. While the breaker is not closed, only this node's probe counts.
    pub(super) fn observe(&mut self, verdict: Verdict, now: Duration, settings: &LimiterSettings) {
        if self.state == State::Closed {
            self.end(Ticket(self.generation), verdict, now, settings);
        }
    }

    fn count_success(&mut self, now: Duration, settings: &LimiterSettings) {
        self.failed_in_a_row = 0;
        self.succeeded_in_a_row = self.succeeded_in_a_row.saturating_add(1);
        self.recent.count(true, now, settings.window);
        if self.succeeded_in_a_row >= settings.failures_in_a_row {
            self.opened = 0;
        }
    }

    fn count_failure(&mut self, now: Duration, settings: &LimiterSettings) {
        self.succeeded_in_a_row = 0;
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.recent.count(false, now, settings.window);
        if self.failed_in_a_row >= settings.failures_in_a_row {
            self.open(PauseReason::FailuresInARow(self.failed_in_a_row), now, settings);
        } else if let Some((failed, of)) = self.recent.too_many_failures(settings) {
            self.open(PauseReason::FailureRate { failed, of }, now, settings);
        }
    }

    fn open(&mut self, reason: PauseReason, now: Duration, settings: &LimiterSettings) {
        let doubled = 1_u32.checked_shl(self.opened).unwrap_or(u32::MAX);
        let rest = settings.first_pause.saturating_mul(doubled).min(settings.longest_pause);
        self.opened = self.opened.saturating_add(1);
        self.reason = Some(reason);
        self.succeeded_in_a_row = 0;
        self.enter(State::Open { until: now.saturating_add(rest) });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.generation += 1;
        self.failed_in_a_row = 0;
        self.recent = Recent::default();
    }

    /// Closes the breaker and forgets all results; running attempts do not count.
    pub(super) fn reset(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }
}

/// Results of about the last window: of the current one and the one before.
#[derive(Debug, Default)]
struct Recent {
    since: Duration,
    now: Count,
    before: Count,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    failed: u32,
}

impl Recent {
    fn count(&mut self, succeeded: bool, now: Duration, length: Duration) {
        let passed = now.saturating_sub(self.since);
        if passed >= length {
            // A window without any result lies between: the one before is too old.
            self.before = if passed < length * 2 { self.now } else { Count::default() };
            self.now = Count::default();
            self.since = now;
        }
        self.now.all = self.now.all.saturating_add(1);
        self.now.failed = self.now.failed.saturating_add(u32::from(!succeeded));
    }

    /// How many failed, and of how many, if that opens the breaker.
    fn too_many_failures(&self, settings: &LimiterSettings) -> Option<(u32, u32)> {
        let all = self.now.all.saturating_add(self.before.all);
        let failed = self.now.failed.saturating_add(self.before.failed);
        let too_many = u64::from(failed) * 100 >= u64::from(all) * u64::from(settings.failure_percent);
        (all >= settings.min_requests && too_many).then_some((failed, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LimiterSettings {
        LimiterSettings {
            failures_in_a_row: 3,
            failure_percent: 50,
            min_requests: 10,
            window: Duration::from_secs(30),
            first_pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(60),
            ..LimiterSettings::default()
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One request, begun and ended at this time.
    fn run(breaker: &mut Breaker, verdict: Verdict, now: Duration) {
        assert_eq!(breaker.admits(now), Ok(()), "at {now:?}");
        let ticket = breaker.begin();
        breaker.end(ticket, verdict, now, &settings());
    }

    fn broken() -> Breaker {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| run(&mut breaker, Verdict::Failing, at(0)));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_a_success_between_them_counts() {
        let mut breaker = Breaker::default();
        for verdict in [
            Verdict::Failing,
            Verdict::Failing,
            Verdict::Healthy,
            Verdict::Failing,
            Verdict::Unknown,
            Verdict::Failing,
        ] {
            run(&mut breaker, verdict, at(0));
        }
        run(&mut breaker, Verdict::Failing, at(0));
        assert_eq!(breaker.admits(at(4)), Err(Some(at(5))));
        assert_eq!(breaker.admits(at(5)), Ok(()));
    }

    #[test]
    fn it_opens_when_half_of_the_recent_ones_fail() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            run(&mut breaker, Verdict::Healthy, at(1));
            run(&mut breaker, Verdict::Failing, at(1));
        }
        run(&mut breaker, Verdict::Healthy, at(1));
        assert_eq!(breaker.admits(at(1)), Ok(()));
        run(&mut breaker, Verdict::Failing, at(1));
        assert!(breaker.admits(at(1)).is_err(), "five of ten");
        assert_eq!(breaker.pause(), Some((at(6), PauseReason::FailureRate { failed: 5, of: 10 })));
    }

    #[test]
    fn failures_of_long_ago_are_forgotten() {
        let mut breaker = Breaker::default();
        for hour in 0..100 {
            run(&mut breaker, Verdict::Failing, at(hour * 3600));
            run(&mut breaker, Verdict::Healthy, at(hour * 3600 + 1));
        }
        assert_eq!(breaker.admits(at(400_000)), Ok(()));
    }

    #[test]
    fn one_request_finds_out_and_each_failure_doubles_the_rest_up_to_a_bound() {
        let mut breaker = broken();
        let mut now = at(0);
        for rest in [5, 10, 20, 40, 60, 60] {
            assert_eq!(breaker.admits(now), Err(Some(now + at(rest))));
            now += at(rest);
            assert_eq!(breaker.admits(now), Ok(()));
            let probe = breaker.begin();
            assert_eq!(breaker.admits(now + at(1000)), Err(None), "one at a time");
            breaker.end(probe, Verdict::Failing, now, &settings());
        }
        now += at(60);
        run(&mut breaker, Verdict::Healthy, now);
        assert!(!breaker.wants_a_probe());
        (0..3).for_each(|_| run(&mut breaker, Verdict::Failing, now));
        assert_eq!(breaker.admits(now), Err(Some(now + at(60))), "one success is no recovery");
        now += at(60);
        (0..3).for_each(|_| run(&mut breaker, Verdict::Healthy, now));
        (0..3).for_each(|_| run(&mut breaker, Verdict::Failing, now));
        assert_eq!(breaker.admits(now), Err(Some(now + at(5))), "a few are");
    }

    #[test]
    fn a_trial_that_tells_nothing_is_followed_by_another() {
        let mut breaker = broken();
        let probe = breaker.begin();
        breaker.end(probe, Verdict::Unknown, at(7), &settings());
        assert_eq!(breaker.admits(at(7)), Ok(()));
        assert!(breaker.wants_a_probe());
    }

    #[test]
    fn open_breaker_says_until_when_and_why() {
        let mut breaker = broken();
        assert_eq!(breaker.pause(), Some((at(5), PauseReason::FailuresInARow(3))));
        let probe = breaker.begin();
        assert_eq!(breaker.pause(), None, "a request finds out");
        breaker.end(probe, Verdict::Failing, at(6), &settings());
        assert_eq!(breaker.pause(), Some((at(16), PauseReason::TestFailed)));
        let probe = breaker.begin();
        breaker.end(probe, Verdict::Healthy, at(20), &settings());
        assert_eq!(breaker.pause(), None);
        let mut changed = broken();
        changed.reset();
        assert_eq!(changed.pause(), None);
    }

    #[test]
    fn what_began_before_it_opened_is_old_news() {
        let mut breaker = Breaker::default();
        let early: Vec<Ticket> = (0..20).map(|_| breaker.begin()).collect();
        for &ticket in &early[..3] {
            breaker.end(ticket, Verdict::Failing, at(0), &settings());
        }
        for &ticket in &early[3..10] {
            breaker.end(ticket, Verdict::Failing, at(3), &settings());
        }
        assert_eq!(breaker.admits(at(4)), Err(Some(at(5))), "the rest grows only when a probe fails");
        let probe = breaker.begin();
        for &ticket in &early[10..] {
            breaker.end(ticket, Verdict::Healthy, at(6), &settings());
        }
        assert_eq!(breaker.admits(at(6)), Err(None), "only the probe decides");
        breaker.end(probe, Verdict::Healthy, at(6), &settings());
        assert_eq!(breaker.admits(at(6)), Ok(()));
    }
}
