//! What keeps one endpoint from holding up the others.
//!
//! Each endpoint has a lane of its own: so many requests at once, so many in a time, none while it asked to be left
//! alone, and one now and then while it does not work. All lanes share the sender's places, and when those grow scarce,
//! the last ones are for endpoints that work, and who has more than a fair share gets no more. A lane only delays; it fails nothing and loses nothing.
//!
//! Lanes are those of one process, and so is what it holds against an endpoint. What they are told as limits is that
//! process's part of them.

mod breaker;
mod lane;
mod rate;
mod share;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use breaker::Ticket;
use lane::Lane;
use share::{Asking, Taken};

/// Lanes are looked through for forgotten ones when there are more than this.
const MANY: usize = 1024;
/// How often they are, at most.
const SWEPT_EVERY: Duration = Duration::from_secs(60);
/// How often endpoints that are taken to work are looked at that have not answered for a while.
const DOUBTED_EVERY: Duration = Duration::from_secs(1);

/// What one endpoint gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests at once.
    pub concurrency: usize,
    /// Requests in a time, if that is limited.
    pub rate: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: 64, rate: None }
    }
}

/// How many requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many, at once after a rest and evenly spread otherwise.
    pub requests: NonZeroU32,
    /// In this time.
    pub every: Duration,
}

/// What all lanes hold themselves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests at once, to all endpoints together.
    pub places: usize,
    /// An endpoint is taken for broken after this many failures in a row.
    pub failures_in_a_row: u32,
    /// Or when this share of its recent requests failed, in percent.
    pub failures_percent: u32,
    /// Of at least this many.
    pub of_at_least: u32,
    /// That ended within about this time.
    pub recent: Duration,
    /// How long it is left alone then; twice as long each time that it still does not work.
    pub first_rest: Duration,
    /// And never longer than this, nor when it asks for it itself.
    pub longest_rest: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            places: 512,
            failures_in_a_row: 10,
            failures_percent: 50,
            of_at_least: 20,
            recent: Duration::from_secs(30),
            first_rest: Duration::from_secs(5),
            longest_rest: Duration::from_secs(300),
        }
    }
}

/// What an attempt told about its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does its work.
    Well,
    /// It does not.
    Ill,
    /// Nothing: it was not asked, or nobody knows what came of it.
    Unknown,
}

/// Not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Why not.
    pub why: Why,
    /// When to ask again; without a time, once one of the requests under way has ended.
    pub until: Option<Instant>,
}

/// Why an endpoint gets no request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has as many as it may have at once.
    Busy,
    /// All places are taken, or the last ones are kept for those who have fewer.
    Full,
    /// It had as many as it may have in a time.
    Paced,
    /// It asked to be left alone.
    Quiet,
    /// It does not work, and is tried again now and then.
    Broken,
}

/// Until when an endpoint gets no request, and why. A used-up rate is no pause: it lasts a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePause {
    /// Until then.
    pub until: Instant,
    /// Why.
    pub reason: PauseReason,
}

/// Why an endpoint is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// So many failures in a row opened its circuit breaker.
    FailuresInARow(u32),
    /// Too many of its recent requests failed, which opened its circuit breaker.
    FailureRate {
        /// How many failed.
        failed: u32,
        /// Of how many.
        of: u32,
    },
    /// Its circuit breaker was open, and the request that tested it failed.
    TestFailed,
    /// It sent `Retry-After`.
    RetryAfter,
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailuresInARow(1) => f.write_str("circuit breaker open after 1 failure"),
            Self::FailuresInARow(failures) => {
                write!(f, "circuit breaker open after {failures} failures in a row")
            }
            Self::FailureRate { failed, of } => {
                write!(f, "circuit breaker open after {failed} failures in {of} requests")
            }
            Self::TestFailed => f.write_str("circuit breaker open: the last test request failed"),
            Self::RetryAfter => f.write_str("receiver sent Retry-After"),
        }
    }
}

/// All lanes. Cheap to clone; clones are the same lanes.
#[derive(Clone)]
pub struct Lanes(Arc<Shared>);

struct Shared {
    settings: Settings,
    /// From where time is measured.
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lanes: HashMap<i64, Lane>,
    taken: Taken,
    swept: Duration,
    doubted: Duration,
    /// Endpoints whose pauses have changed since they were last read.
    changed_pauses: BTreeSet<i64>,
    pause_changed: Arc<Notify>,
}

impl Lanes {
    /// Empty lanes.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared { settings, began: Instant::now(), state: Mutex::default() }))
    }

    /// Takes a place for one request to this endpoint.
    ///
    /// # Errors
    /// Why there is none now.
    pub fn enter(&self, endpoint: i64, limits: &Limits) -> Result<Place, Wait> {
        let (now, settings) = (self.now(), &self.0.settings);
        let mut state = self.state();
        state.sweep(now, settings);
        state.doubt(now);
        let taken = state.taken;
        let may_take = |asking| share::may_take(asking, taken, settings.places);
        let entered = state.change(endpoint, |lane| lane.enter(limits, may_take, now));
        let ticket = entered.map_err(|(why, until)| self.wait(why, until))?;
        Ok(Place { lanes: self.clone(), endpoint, ticket: Some(ticket) })
    }

    /// How many requests this endpoint could have now, before its rate is asked.
    #[must_use]
    pub fn room(&self, endpoint: i64, limits: &Limits) -> usize {
        let (now, places) = (self.now(), self.0.settings.places);
        let state = self.state();
        let unknown = Lane::default();
        let lane = state.lanes.get(&endpoint).unwrap_or(&unknown);
        if share::may_take(lane.asking(), state.taken, places) {
            lane.room(limits, now).min(places.saturating_sub(state.taken.places))
        } else {
            0
        }
    }

    /// Whether this endpoint did its work the last time that something was heard of it.
    #[must_use]
    pub fn is_proven(&self, endpoint: i64) -> bool {
        self.state().lanes.get(&endpoint).is_some_and(|lane| lane.asking().proven)
    }

    /// Why this endpoint gets nothing now, whatever its limits are.
    #[must_use]
    pub fn closed(&self, endpoint: i64) -> Option<Wait> {
        let (why, until) = self.state().lanes.get(&endpoint)?.closed(self.now())?;
        Some(self.wait(why, until))
    }

    /// Forgets what is known against an endpoint that was changed since the last time, by whichever node.
    pub fn as_of(&self, endpoint: i64, changed_at: Timestamp) {
        self.state().change(endpoint, |lane| lane.as_of(changed_at));
    }

    /// Waits until the pause of an endpoint begins, changes or ends. For one reader.
    pub async fn pause_changed(&self) {
        let changed = self.state().pause_changed.clone();
        changed.notified().await;
    }

    /// The endpoints whose pauses have changed since this was last asked; nothing for those that are not paused now.
    #[must_use]
    pub fn take_changed_pauses(&self) -> Vec<(i64, Option<LanePause>)> {
        let now = self.now();
        let mut state = self.state();
        let changed = std::mem::take(&mut state.changed_pauses);
        let pause_of = |endpoint: i64| {
            let (until, reason) = state.lanes.get(&endpoint)?.pause().filter(|(until, _)| *until > now)?;
            Some(LanePause { until: self.0.began.checked_add(until)?, reason })
        };
        changed.into_iter().map(|endpoint| (endpoint, pause_of(endpoint))).collect()
    }

    /// Counts the pauses of these endpoints as changed once more: they could not be written.
    pub fn put_back_pauses(&self, endpoints: impl IntoIterator<Item = i64>) {
        let mut state = self.state();
        state.changed_pauses.extend(endpoints);
        state.pause_changed.notify_one();
    }

    /// How many places nobody has.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.settings.places.saturating_sub(self.state().taken.places)
    }

    /// Takes to heart what became of a request that another node gave a place to.
    pub fn hear(&self, endpoint: i64, verdict: Verdict, quiet_for: Option<Duration>) {
        self.leave(endpoint, |lane, now, settings| lane.hear(verdict, quiet_for, now, settings));
    }

    fn leave(&self, endpoint: i64, leave: impl FnOnce(&mut Lane, Duration, &Settings)) {
        let now = self.now();
        self.state().change(endpoint, |lane| leave(lane, now, &self.0.settings));
    }

    fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    fn wait(&self, why: Why, until: Option<Duration>) -> Wait {
        Wait { why, until: until.and_then(|until| self.0.began.checked_add(until)) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes a lane, and with it what all have together.
    fn change<T>(&mut self, endpoint: i64, change: impl FnOnce(&mut Lane) -> T) -> T {
        let lane = self.lanes.entry(endpoint).or_default();
        let (before, paused) = (has(lane), lane.pause());
        let changed = change(lane);
        let after = has(lane);
        if lane.pause() != paused {
            self.changed_pauses.insert(endpoint);
            self.pause_changed.notify_one();
        }
        let all = &mut self.taken;
        all.places = all.places + after.places - before.places;
        all.by_others = all.by_others + after.by_others - before.by_others;
        all.proven_lanes = all.proven_lanes + after.proven_lanes - before.proven_lanes;
        changed
    }

    /// Looks now and then for lanes whose endpoints have left all requests without an answer for so long that nobody can say
    /// any more that they work.
    fn doubt(&mut self, now: Duration) {
        if now.saturating_sub(self.doubted) < DOUBTED_EVERY {
            return;
        }
        self.doubted = now;
        let silent = self.lanes.iter().filter(|(_, lane)| lane.is_silent(now)).map(|(endpoint, _)| *endpoint);
        for endpoint in silent.collect::<Vec<_>>() {
            self.change(endpoint, Lane::doubt);
        }
    }

    /// Forgets lanes that nobody has used for so long that nothing they know matters.
    fn sweep(&mut self, now: Duration, settings: &Settings) {
        if self.lanes.len() > MANY && now.saturating_sub(self.swept) >= SWEPT_EVERY {
            self.swept = now;
            self.lanes.retain(|_, lane| !lane.is_forgotten(now, settings));
        }
    }
}

/// What one lane has.
fn has(lane: &Lane) -> Taken {
    let Asking { held, proven } = lane.asking();
    Taken {
        places: held,
        by_others: if proven { 0 } else { held },
        proven_lanes: usize::from(held > 0 && proven),
    }
}

/// A place in a lane. Dropped without a word, nothing was sent from it.
pub struct Place {
    lanes: Lanes,
    endpoint: i64,
    ticket: Option<Ticket>,
}

impl Place {
    /// Gives the place back. An endpoint that asked for it is left alone for a while.
    pub fn leave(mut self, verdict: Verdict, quiet_for: Option<Duration>) {
        if let Some(ticket) = self.ticket.take() {
            self.lanes.leave(self.endpoint, |lane, now, settings| {
                lane.leave(ticket, verdict, quiet_for, now, settings);
            });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.lanes.leave(self.endpoint, |lane, now, settings| lane.leave_unused(ticket, now, settings));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: i64 = 1;
    const OTHER: i64 = 2;

    fn lanes(places: usize) -> Lanes {
        Lanes::new(Settings { places, failures_in_a_row: 3, ..Settings::default() })
    }

    fn at_once(concurrency: usize) -> Limits {
        Limits { concurrency, rate: None }
    }

    fn why(entered: Result<Place, Wait>) -> Why {
        entered.err().map(|wait| wait.why).unwrap()
    }

    /// Takes what there is to take.
    fn fill(lanes: &Lanes, endpoint: i64, limits: &Limits) -> Vec<Place> {
        std::iter::from_fn(|| lanes.enter(endpoint, limits).ok()).collect()
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_node_was_answered_counts_and_takes_no_place() {
        let lanes = lanes(10);
        for _ in 0..3 {
            assert_eq!(lanes.closed(ONE), None);
            lanes.hear(ONE, Verdict::Ill, None);
        }
        assert_eq!(lanes.closed(ONE).map(|wait| wait.why), Some(Why::Broken));
        lanes.hear(ONE, Verdict::Well, None);
        assert_eq!(why(lanes.enter(ONE, &at_once(3))), Why::Broken, "it is left alone for its time");
        lanes.hear(OTHER, Verdict::Well, Some(Duration::from_secs(7)));
        assert_eq!(why(lanes.enter(OTHER, &at_once(3))), Why::Quiet);
        assert!(lanes.is_proven(OTHER));
        assert_eq!(lanes.free(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_has_no_more_requests_at_once_than_it_may() {
        let lanes = lanes(100);
        let mut held = fill(&lanes, ONE, &at_once(3));
        assert_eq!(held.len(), 3);
        assert_eq!(lanes.enter(ONE, &at_once(3)).err(), Some(Wait { why: Why::Busy, until: None }));
        assert_eq!((lanes.room(ONE, &at_once(3)), lanes.room(OTHER, &at_once(3))), (0, 3));
        held.pop().unwrap().leave(Verdict::Well, None);
        assert_eq!(lanes.room(ONE, &at_once(3)), 1);
        drop(held);
        assert_eq!(fill(&lanes, ONE, &at_once(5)).len(), 5, "a place that is dropped is free again");
    }

    /// Lets these endpoints do their work once.
    fn prove(lanes: &Lanes, endpoints: &[i64]) {
        for endpoint in endpoints {
            lanes.enter(*endpoint, &at_once(1)).ok().unwrap().leave(Verdict::Well, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_endpoint_takes_no_place_from_the_others() {
        let lanes = lanes(80);
        prove(&lanes, &[ONE, OTHER, 3]);
        let slow = fill(&lanes, ONE, &at_once(1000));
        assert_eq!(slow.len(), 60, "three quarters of the places");
        assert_eq!(why(lanes.enter(ONE, &at_once(1000))), Why::Full);
        let quick = fill(&lanes, OTHER, &at_once(5));
        assert_eq!(quick.len(), 5);
        let third = fill(&lanes, 3, &at_once(1000));
        assert_eq!(third.len(), 5, "what is left, but for what is for whoever comes anew");
        drop(slow);
        assert_eq!(fill(&lanes, 3, &at_once(1000)).len(), 50, "three quarters, less what the others have");
    }

    #[tokio::test(start_paused = true)]
    async fn however_busy_endpoints_are_that_work_one_that_comes_anew_is_heard() {
        let lanes = lanes(64);
        let all: Vec<i64> = (10..1000).collect();
        prove(&lanes, &all);
        let busy: Vec<_> = all.iter().flat_map(|endpoint| fill(&lanes, *endpoint, &at_once(4))).collect();
        assert_eq!(busy.len(), 56, "all but an eighth");
        let heard: Vec<_> = (1..=8).filter_map(|newcomer| lanes.enter(newcomer, &at_once(4)).ok()).collect();
        assert_eq!(heard.len(), 8);
        assert_eq!(why(lanes.enter(9, &at_once(4))), Why::Full);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_endpoints_hang_one_that_works_keeps_its_rate() {
        let lanes = lanes(64);
        prove(&lanes, &[ONE]);
        let hanging: Vec<_> = (10..1000).flat_map(|endpoint| fill(&lanes, endpoint, &at_once(16))).collect();
        assert_eq!(hanging.len(), 48, "all but the last quarter");
        assert_eq!(why(lanes.enter(OTHER, &at_once(1))), Why::Full, "nothing is known of it");
        let mut working = fill(&lanes, ONE, &at_once(16));
        assert_eq!(working.len(), 16);
        working.pop().unwrap().leave(Verdict::Ill, None);
        assert_eq!(why(lanes.enter(ONE, &at_once(16))), Why::Full, "it works no more");
        working.pop().unwrap().leave(Verdict::Well, None);
        assert_eq!(fill(&lanes, ONE, &at_once(16)).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_worked_and_then_all_hang_leave_room_too() {
        let lanes = lanes(64);
        let all: Vec<i64> = (10..1000).collect();
        prove(&lanes, &all);
        prove(&lanes, &[ONE]);
        let mut hanging: Vec<_> =
            all.iter().flat_map(|endpoint| fill(&lanes, *endpoint, &at_once(16))).collect();
        pass(Duration::from_secs(10)).await;
        assert_eq!(why(lanes.enter(10, &at_once(64))), Why::Full, "it has not answered for long");
        assert!(!lanes.is_proven(10) && lanes.is_proven(ONE));
        assert_eq!(fill(&lanes, ONE, &at_once(16)).len(), 8, "nobody else gets what is left");
        hanging.pop().unwrap().leave(Verdict::Well, None);
        assert_eq!(why(lanes.enter(10, &at_once(64))), Why::Full);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_and_says_when_to_come_again() {
        let lanes = lanes(100);
        let rate = Rate { requests: NonZeroU32::new(2).unwrap(), every: Duration::from_secs(10) };
        let limits = Limits { concurrency: 10, rate: Some(rate) };
        let go = || lanes.enter(ONE, &limits).map(|place| place.leave(Verdict::Well, None));
        assert!(go().is_ok() && go().is_ok());
        let wait = go().unwrap_err();
        assert_eq!((wait.why, wait.until.unwrap() - Instant::now()), (Why::Paced, Duration::from_secs(5)));
        assert_eq!(lanes.closed(ONE), Some(wait));
        assert!(lanes.enter(OTHER, &limits).is_ok(), "each has its own");
        pass(Duration::from_secs(5)).await;
        assert_eq!(lanes.closed(ONE), None);
        assert!(go().is_ok() && go().is_err());
        let unlimited = at_once(10);
        assert!(lanes.enter(ONE, &unlimited).is_ok(), "a limit that is taken away is gone at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_nothing_was_sent_from_does_not_count_against_the_rate() {
        let lanes = lanes(100);
        let rate = Rate { requests: NonZeroU32::new(2).unwrap(), every: Duration::from_secs(10) };
        let limits = Limits { concurrency: 10, rate: Some(rate) };
        for _ in 0..5 {
            assert_eq!(fill(&lanes, ONE, &limits).len(), 2);
        }
        lanes.enter(ONE, &limits).ok().unwrap().leave(Verdict::Well, None);
        assert_eq!(fill(&lanes, ONE, &limits).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_endpoint_is_left_alone_and_tried_once_in_a_while() {
        let lanes = lanes(100);
        for _ in 0..3 {
            lanes.enter(ONE, &at_once(9)).ok().unwrap().leave(Verdict::Ill, None);
        }
        let wait = lanes.enter(ONE, &at_once(9)).err().unwrap();
        assert_eq!((wait.why, wait.until.unwrap() - Instant::now()), (Why::Broken, Duration::from_secs(5)));
        assert_eq!(lanes.closed(ONE), Some(wait));
        assert!(lanes.enter(OTHER, &at_once(9)).is_ok());
        pass(Duration::from_secs(5)).await;
        assert_eq!(lanes.room(ONE, &at_once(9)), 1);
        let trial = fill(&lanes, ONE, &at_once(9));
        assert_eq!(trial.len(), 1);
        assert_eq!(lanes.closed(ONE), Some(Wait { why: Why::Broken, until: None }));
        drop(trial);
        let trial = fill(&lanes, ONE, &at_once(9));
        assert_eq!(trial.len(), 1, "a trial that came to nothing is made again");
        for place in trial {
            place.leave(Verdict::Well, None);
        }
        assert_eq!(fill(&lanes, ONE, &at_once(9)).len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_wants_to_be_left_alone_is_though_not_for_ever() {
        let lanes = lanes(100);
        let go = |quiet_for| lanes.enter(ONE, &at_once(9)).map(|place| place.leave(Verdict::Ill, quiet_for));
        go(Some(Duration::from_secs(7))).unwrap();
        let wait = go(None).unwrap_err();
        assert_eq!((wait.why, wait.until.unwrap() - Instant::now()), (Why::Quiet, Duration::from_secs(7)));
        pass(Duration::from_secs(7)).await;
        go(Some(Duration::MAX)).unwrap();
        pass(Settings::default().longest_rest).await;
        assert!(go(None).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_was_changed_is_judged_anew() {
        let lanes = lanes(100);
        let changed = |nth| lanes.as_of(ONE, Timestamp::from_micros(nth));
        for nth in 0..3 {
            changed(nth);
            assert_eq!(lanes.closed(ONE), None);
            lanes.enter(ONE, &at_once(9)).ok().unwrap().leave(Verdict::Ill, Some(Duration::from_secs(60)));
            changed(nth);
            assert_eq!(lanes.closed(ONE).unwrap().why, Why::Quiet, "nobody changed it");
        }
        changed(3);
        let late = lanes.enter(ONE, &at_once(9)).ok().unwrap();
        changed(4);
        late.leave(Verdict::Well, None);
        assert_eq!(fill(&lanes, ONE, &at_once(9)).len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_is_reported_when_it_begins_changes_and_ends() {
        let lanes = lanes(100);
        let seconds = Duration::from_secs;
        let fail = |quiet_for| lanes.enter(ONE, &at_once(9)).ok().unwrap().leave(Verdict::Ill, quiet_for);
        let changed = || {
            let now = Instant::now();
            let told = lanes.take_changed_pauses().into_iter();
            told.map(|(id, pause)| (id, pause.map(|it| (it.until - now, it.reason)))).collect::<Vec<_>>()
        };
        // Time stands still, so a change that is not reported fails at once.
        let reported = async || tokio::time::timeout(seconds(1), lanes.pause_changed()).await.is_ok();
        fail(None);
        fail(None);
        assert_eq!(changed(), []);
        fail(None);
        assert!(reported().await, "the beginning of a pause is reported");
        let opened = [(ONE, Some((seconds(5), PauseReason::FailuresInARow(3))))];
        assert_eq!(changed(), opened);
        assert_eq!(changed(), [], "each change once");
        lanes.put_back_pauses([ONE]);
        assert!(reported().await, "it is reported again");
        assert_eq!(changed(), opened, "it could not be written");
        lanes.hear(ONE, Verdict::Ill, Some(seconds(30)));
        assert_eq!(changed(), [(ONE, Some((seconds(30), PauseReason::RetryAfter)))], "the later of both");
        pass(seconds(30)).await;
        fail(None);
        assert_eq!(changed(), [(ONE, Some((seconds(10), PauseReason::TestFailed)))]);
        pass(seconds(10)).await;
        lanes.enter(ONE, &at_once(9)).ok().unwrap().leave(Verdict::Well, None);
        assert_eq!(changed(), [(ONE, None)]);
    }

    #[tokio::test(start_paused = true)]
    async fn change_of_an_endpoint_ends_its_pause() {
        let lanes = lanes(100);
        lanes.as_of(ONE, Timestamp::from_micros(1));
        lanes.enter(ONE, &at_once(9)).ok().unwrap().leave(Verdict::Ill, Some(Duration::from_secs(60)));
        assert!(matches!(lanes.take_changed_pauses()[..], [(ONE, Some(_))]));
        lanes.as_of(ONE, Timestamp::from_micros(2));
        assert_eq!(lanes.take_changed_pauses(), [(ONE, None)]);
    }

    #[test]
    fn pause_reasons_name_the_cause() {
        let written = [
            PauseReason::FailuresInARow(10),
            PauseReason::FailuresInARow(1),
            PauseReason::FailureRate { failed: 12, of: 20 },
            PauseReason::TestFailed,
            PauseReason::RetryAfter,
        ]
        .map(|reason| reason.to_string());
        assert_eq!(
            written,
            [
                "circuit breaker open after 10 failures in a row",
                "circuit breaker open after 1 failure",
                "circuit breaker open after 12 failures in 20 requests",
                "circuit breaker open: the last test request failed",
                "receiver sent Retry-After",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_nobody_uses_are_forgotten() {
        let lanes = lanes(100_000);
        let held = lanes.enter(-1, &at_once(1)).ok().unwrap();
        for endpoint in 0..5000 {
            lanes.enter(endpoint, &at_once(1)).ok().unwrap().leave(Verdict::Well, None);
        }
        pass(Duration::from_secs(2 * 60 * 60)).await;
        drop(lanes.enter(9999, &at_once(1)));
        assert_eq!(lanes.state().lanes.len(), 2);
        assert_eq!(why(lanes.enter(-1, &at_once(1))), Why::Busy, "who is in use is remembered");
        drop(held);
        let state = lanes.state();
        assert_eq!(state.taken, Taken::default());
    }
}
