//! What a node knows of the others, and how long that is worth something.

use std::time::Duration;

use tokio::time::Instant;

use super::Settings;
use super::outside::Shared;
use super::part::Standing;
use crate::webhooks::lanes::{Limits, Rate};

/// Where this node stands, by what it was last told.
pub(super) struct View {
    settings: Settings,
    /// None while the others need not know of this node.
    standing: Option<Standing>,
    /// When it last told of itself, and was answered.
    told: Option<Instant>,
    /// When it last tried to.
    tried: Option<Instant>,
    /// Where it stood before, and until when. The others have not seen yet what it has seen.
    before: Vec<(Option<Standing>, Instant)>,
}

impl View {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, standing: None, told: None, tried: None, before: Vec::new() }
    }

    /// Whether it is time to tell of this node again: early enough that it has happened by the time it has to, although
    /// nobody looks more often than now and then.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let soon = self.settings.every / 2;
        let tried = self.tried.is_some_and(|tried| now.saturating_duration_since(tried) < soon);
        !tried || !self.is_good(now)
    }

    pub(super) fn try_now(&mut self, now: Instant) {
        self.tried = Some(now);
    }

    /// Whether the others count this node still.
    pub(super) fn is_good(&self, now: Instant) -> bool {
        let told =
            self.told.is_some_and(|told| now.saturating_duration_since(told) < self.settings.good_for());
        told && self.standing.is_some()
    }

    /// This node told of itself at this time, stands here, and may have been unknown to the others until then.
    pub(super) fn stand(&mut self, standing: Standing, was_known: bool, told: Instant, now: Instant) {
        let before = self.standing.filter(|_| was_known);
        self.before.retain(|(_, until)| now.saturating_duration_since(*until) < self.settings.every);
        if standing.is_alone() {
            // There is nobody who could see it otherwise.
            self.before.clear();
        } else if before != Some(standing) {
            self.before.push((before, now));
        }
        (self.standing, self.told) = (Some(standing), Some(told));
    }

    /// The others need not know of this node any more.
    pub(super) fn leave(&mut self) {
        self.before.clear();
        self.standing = None;
    }

    /// When a node that has just come takes its part.
    pub(super) fn begins_at(&self) -> Option<Instant> {
        let came = self.before.iter().rfind(|(before, _)| before.is_none());
        came.and_then(|(_, at)| at.checked_add(self.settings.every))
    }

    /// What this node may take of the limits of a lane. What it gains by a change is its own once the others have had the
    /// time to see that too; what it loses is gone at once.
    pub(super) fn part(&self, lane: i64, limits: &Limits, now: Instant) -> Option<Limits> {
        let standing = self.standing.filter(|_| self.is_good(now))?;
        let unseen = self.before.iter().filter(|(_, at)| self.is_unseen(*at, now));
        unseen.map(|(before, _)| *before).try_fold(standing.part(lane, limits)?, |part, before| {
            Some(lesser(&part, &before?.part(lane, limits)?))
        })
    }

    /// The same where workers have something: this is its part by what they have, of the whole that is left to be shared. Until
    /// all have seen a change it is no more than its part would be without that.
    pub(super) fn part_beside(&self, lane: i64, shared: &Shared, now: Instant) -> Option<Limits> {
        let usual = self.part(lane, &shared.whole, now);
        if self.is_good(now) && !self.before.iter().any(|(_, at)| self.is_unseen(*at, now)) {
            return shared.part;
        }
        Some(lesser(&usual?, &shared.part?))
    }

    fn is_unseen(&self, at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(at) < self.settings.every
    }
}

impl Settings {
    /// How long a node goes by what it was told. It stops before the others stop counting it, so that what it handed out
    /// last is on its way by then.
    fn good_for(&self) -> Duration {
        self.gone_after.saturating_sub(self.every)
    }
}

fn lesser(one: &Limits, other: &Limits) -> Limits {
    let requests = |limits: &Limits| limits.rate.map(|rate| rate.requests);
    let requests = requests(one).min(requests(other));
    let rate = one.rate.zip(requests).map(|(rate, requests)| Rate { requests, ..rate });
    Limits { concurrency: one.concurrency.min(other.concurrency), rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane of which, of two nodes, the first one has the odd request.
    const LANE: i64 = 2;

    fn view() -> (View, Instant) {
        let settings = Settings { every: Duration::from_secs(2), gone_after: Duration::from_secs(10) };
        (View::new(settings), Instant::now())
    }

    /// How many of three requests it takes, so many seconds later.
    fn takes(view: &View, start: Instant, seconds: u64) -> usize {
        let limits = Limits { concurrency: 3, rate: None };
        view.part(LANE, &limits, start + Duration::from_secs(seconds)).map_or(0, |part| part.concurrency)
    }

    /// Tells of itself, so many seconds later.
    fn stand(view: &mut View, start: Instant, seconds: u64, standing: Standing) {
        let now = start + Duration::from_secs(seconds);
        view.try_now(now);
        view.stand(standing, true, now, now);
    }

    #[test]
    fn whoever_has_told_nobody_takes_nothing_and_whoever_is_alone_everything_at_once() {
        let (mut view, start) = view();
        assert_eq!((takes(&view, start, 0), view.is_due(start)), (0, true));
        stand(&mut view, start, 0, Standing::ALONE);
        assert_eq!((takes(&view, start, 0), view.begins_at()), (3, None));
        assert!(
            !view.is_due(start + Duration::from_millis(999)) && view.is_due(start + Duration::from_secs(1))
        );
        view.leave();
        assert_eq!((takes(&view, start, 0), view.is_due(start)), (0, true));
    }

    #[test]
    fn whoever_comes_to_others_waits_until_they_know() {
        let (mut view, start) = view();
        stand(&mut view, start, 0, Standing::among(1, 1));
        assert_eq!(view.begins_at(), Some(start + Duration::from_secs(2)));
        assert_eq!([0, 1, 2].map(|seconds| takes(&view, start, seconds)), [0, 0, 1]);
    }

    #[test]
    fn what_is_lost_by_a_change_is_lost_at_once_and_what_is_gained_comes_later() {
        let (mut view, start) = view();
        stand(&mut view, start, 0, Standing::ALONE);
        stand(&mut view, start, 2, Standing::among(0, 1));
        assert_eq!(takes(&view, start, 2), 2);
        stand(&mut view, start, 4, Standing::among(0, 2));
        assert_eq!(takes(&view, start, 4), 1);
        stand(&mut view, start, 6, Standing::among(0, 1));
        assert_eq!([6, 7, 8].map(|seconds| takes(&view, start, seconds)), [1, 1, 2]);
        stand(&mut view, start, 8, Standing::ALONE);
        assert_eq!(takes(&view, start, 8), 3, "nobody is left who could see it otherwise");
    }

    #[test]
    fn of_several_changes_at_a_time_all_count() {
        let (mut view, start) = view();
        stand(&mut view, start, 0, Standing::ALONE);
        stand(&mut view, start, 2, Standing::among(0, 2));
        stand(&mut view, start, 3, Standing::among(0, 1));
        assert_eq!([3, 4, 5].map(|seconds| takes(&view, start, seconds)), [1, 1, 2]);
    }

    #[test]
    fn whoever_has_not_been_heard_of_takes_nothing_until_it_has() {
        let (mut view, start) = view();
        stand(&mut view, start, 0, Standing::ALONE);
        assert_eq!([7, 8, 100].map(|seconds| takes(&view, start, seconds)), [3, 0, 0]);
        // Others took it for gone, and are there now.
        let now = start + Duration::from_secs(100);
        view.try_now(now);
        view.stand(Standing::among(0, 1), false, now, now);
        assert_eq!([100, 101, 102].map(|seconds| takes(&view, start, seconds)), [0, 0, 2]);
        assert!(view.is_due(now + Duration::from_secs(2)));
    }

    #[test]
    fn the_lesser_of_two_parts_is_the_lesser_of_each() {
        let limits = |concurrency, requests| Limits {
            concurrency,
            rate: std::num::NonZeroU32::new(requests)
                .map(|requests| Rate { requests, every: Duration::from_secs(1) }),
        };
        assert_eq!(lesser(&limits(3, 2), &limits(2, 5)), limits(2, 2));
        assert_eq!(lesser(&limits(3, 0), &limits(4, 0)), limits(3, 0));
    }
}
