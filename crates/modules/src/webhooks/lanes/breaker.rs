//! Whether an endpoint works.

use std::time::Duration;

use super::{PauseReason, Settings, Verdict};

/// Closed while the endpoint works; open while it is left alone; half-open while one request finds out.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: State,
    /// Results in a row of the same kind.
    ill_in_a_row: u32,
    well_in_a_row: u32,
    recent: Recent,
    /// How often it opened since the endpoint last worked for a while.
    opened: u32,
    /// Why it opened the last time.
    reason: Option<PauseReason>,
    /// Tells results of requests that began before the state last changed.
    era: u64,
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

/// What a request began under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(u64);

impl Breaker {
    /// Whether a request may go; if not, when to ask again, or nothing while one is finding out.
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

    /// Whether only one request may go.
    pub(super) fn wants_a_trial(&self) -> bool {
        self.state != State::Closed
    }

    /// A request that was admitted goes.
    pub(super) fn begin(&mut self) -> Ticket {
        if self.state != State::Closed {
            self.enter(State::HalfOpen);
        }
        Ticket(self.era)
    }

    /// It has ended. What began before the state changed is old news.
    pub(super) fn end(&mut self, ticket: Ticket, verdict: Verdict, now: Duration, settings: &Settings) {
        if ticket.0 != self.era {
            return;
        }
        match (&self.state, verdict) {
            (State::HalfOpen, Verdict::Ill) => self.open(PauseReason::TestFailed, now, settings),
            (State::HalfOpen, Verdict::Well) => {
                self.enter(State::Closed);
                self.count_well(now, settings);
            }
            // Nobody knows more than before: the next one finds out.
            (State::HalfOpen, Verdict::Unknown) => self.enter(State::Open { until: now }),
            (State::Closed, Verdict::Well) => self.count_well(now, settings),
            (State::Closed, Verdict::Ill) => self.count_ill(now, settings),
            // Nothing begins while it is open.
            (State::Closed, Verdict::Unknown) | (State::Open { .. }, _) => {}
        }
    }

    /// What was heard of a request that began elsewhere. While the endpoint is left alone, only what begins here tells more.
    pub(super) fn hear(&mut self, verdict: Verdict, now: Duration, settings: &Settings) {
        if self.state == State::Closed {
            self.end(Ticket(self.era), verdict, now, settings);
        }
    }

    fn count_well(&mut self, now: Duration, settings: &Settings) {
        self.ill_in_a_row = 0;
        self.well_in_a_row = self.well_in_a_row.saturating_add(1);
        self.recent.count(true, now, settings.recent);
        if self.well_in_a_row >= settings.failures_in_a_row {
            self.opened = 0;
        }
    }

    fn count_ill(&mut self, now: Duration, settings: &Settings) {
        self.well_in_a_row = 0;
        self.ill_in_a_row = self.ill_in_a_row.saturating_add(1);
        self.recent.count(false, now, settings.recent);
        if self.ill_in_a_row >= settings.failures_in_a_row {
            self.open(PauseReason::FailuresInARow(self.ill_in_a_row), now, settings);
        } else if let Some((failed, of)) = self.recent.too_many_failures(settings) {
            self.open(PauseReason::FailureRate { failed, of }, now, settings);
        }
    }

    fn open(&mut self, reason: PauseReason, now: Duration, settings: &Settings) {
        let doubled = 1_u32.checked_shl(self.opened).unwrap_or(u32::MAX);
        let rest = settings.first_rest.saturating_mul(doubled).min(settings.longest_rest);
        self.opened = self.opened.saturating_add(1);
        self.reason = Some(reason);
        self.well_in_a_row = 0;
        self.enter(State::Open { until: now.saturating_add(rest) });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.era += 1;
        self.ill_in_a_row = 0;
        self.recent = Recent::default();
    }

    /// As if nothing had happened, but for the requests under way.
    pub(super) fn forgive(&mut self) {
        *self = Self { era: self.era + 1, ..Self::default() };
    }
}

/// Results of about the last while: those since it began to be counted, and those of the while before.
#[derive(Debug, Default)]
struct Recent {
    since: Duration,
    now: Count,
    before: Count,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    ill: u32,
}

impl Recent {
    fn count(&mut self, well: bool, now: Duration, length: Duration) {
        let passed = now.saturating_sub(self.since);
        if passed >= length {
            // Of a time that nobody counted in, nothing is known.
            self.before = if passed < length * 2 { self.now } else { Count::default() };
            self.now = Count::default();
            self.since = now;
        }
        self.now.all = self.now.all.saturating_add(1);
        self.now.ill = self.now.ill.saturating_add(u32::from(!well));
    }

    /// How many failed, and of how many, if that is more than the settings allow.
    fn too_many_failures(&self, settings: &Settings) -> Option<(u32, u32)> {
        let all = self.now.all.saturating_add(self.before.all);
        let ill = self.now.ill.saturating_add(self.before.ill);
        let too_many = u64::from(ill) * 100 >= u64::from(all) * u64::from(settings.failures_percent);
        (all >= settings.of_at_least && too_many).then_some((ill, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            failures_in_a_row: 3,
            failures_percent: 50,
            of_at_least: 10,
            recent: Duration::from_secs(30),
            first_rest: Duration::from_secs(5),
            longest_rest: Duration::from_secs(60),
            ..Settings::default()
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
        (0..3).for_each(|_| run(&mut breaker, Verdict::Ill, at(0)));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_a_success_between_them_counts() {
        let mut breaker = Breaker::default();
        for verdict in
            [Verdict::Ill, Verdict::Ill, Verdict::Well, Verdict::Ill, Verdict::Unknown, Verdict::Ill]
        {
            run(&mut breaker, verdict, at(0));
        }
        run(&mut breaker, Verdict::Ill, at(0));
        assert_eq!(breaker.admits(at(4)), Err(Some(at(5))));
        assert_eq!(breaker.admits(at(5)), Ok(()));
    }

    #[test]
    fn it_opens_when_half_of_the_recent_ones_fail() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            run(&mut breaker, Verdict::Well, at(1));
            run(&mut breaker, Verdict::Ill, at(1));
        }
        run(&mut breaker, Verdict::Well, at(1));
        assert_eq!(breaker.admits(at(1)), Ok(()));
        run(&mut breaker, Verdict::Ill, at(1));
        assert!(breaker.admits(at(1)).is_err(), "five of ten");
        assert_eq!(breaker.pause(), Some((at(6), PauseReason::FailureRate { failed: 5, of: 10 })));
    }

    #[test]
    fn failures_of_long_ago_are_forgotten() {
        let mut breaker = Breaker::default();
        for hour in 0..100 {
            run(&mut breaker, Verdict::Ill, at(hour * 3600));
            run(&mut breaker, Verdict::Well, at(hour * 3600 + 1));
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
            let trial = breaker.begin();
            assert_eq!(breaker.admits(now + at(1000)), Err(None), "one at a time");
            breaker.end(trial, Verdict::Ill, now, &settings());
        }
        now += at(60);
        run(&mut breaker, Verdict::Well, now);
        assert!(!breaker.wants_a_trial());
        (0..3).for_each(|_| run(&mut breaker, Verdict::Ill, now));
        assert_eq!(breaker.admits(now), Err(Some(now + at(60))), "one success is no recovery");
        now += at(60);
        (0..3).for_each(|_| run(&mut breaker, Verdict::Well, now));
        (0..3).for_each(|_| run(&mut breaker, Verdict::Ill, now));
        assert_eq!(breaker.admits(now), Err(Some(now + at(5))), "a few are");
    }

    #[test]
    fn a_trial_that_tells_nothing_is_followed_by_another() {
        let mut breaker = broken();
        let trial = breaker.begin();
        breaker.end(trial, Verdict::Unknown, at(7), &settings());
        assert_eq!(breaker.admits(at(7)), Ok(()));
        assert!(breaker.wants_a_trial());
    }

    #[test]
    fn open_breaker_says_until_when_and_why() {
        let mut breaker = broken();
        assert_eq!(breaker.pause(), Some((at(5), PauseReason::FailuresInARow(3))));
        let trial = breaker.begin();
        assert_eq!(breaker.pause(), None, "a request finds out");
        breaker.end(trial, Verdict::Ill, at(6), &settings());
        assert_eq!(breaker.pause(), Some((at(16), PauseReason::TestFailed)));
        let trial = breaker.begin();
        breaker.end(trial, Verdict::Well, at(20), &settings());
        assert_eq!(breaker.pause(), None);
        let mut changed = broken();
        changed.forgive();
        assert_eq!(changed.pause(), None);
    }

    #[test]
    fn what_began_before_it_opened_is_old_news() {
        let mut breaker = Breaker::default();
        let early: Vec<Ticket> = (0..20).map(|_| breaker.begin()).collect();
        for &ticket in &early[..3] {
            breaker.end(ticket, Verdict::Ill, at(0), &settings());
        }
        for &ticket in &early[3..10] {
            breaker.end(ticket, Verdict::Ill, at(3), &settings());
        }
        assert_eq!(breaker.admits(at(4)), Err(Some(at(5))), "the rest grows only when a trial fails");
        let trial = breaker.begin();
        for &ticket in &early[10..] {
            breaker.end(ticket, Verdict::Well, at(6), &settings());
        }
        assert_eq!(breaker.admits(at(6)), Err(None), "only the trial decides");
        breaker.end(trial, Verdict::Well, at(6), &settings());
        assert_eq!(breaker.admits(at(6)), Ok(()));
    }
}
