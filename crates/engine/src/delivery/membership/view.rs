//! What a node knows of the members, and how long it may act on that.

use std::time::Duration;

use tokio::time::Instant;

use super::MembershipSettings;
use super::held_outside::SharedLimits;
use super::share::{Rank, SharedPartition};
use crate::delivery::limiter::{Limits, Rate};

/// This node's rank by its last heartbeat.
pub(super) struct View {
    settings: MembershipSettings,
    /// `None` while this node is no member.
    rank: Option<Rank>,
    /// When the last heartbeat that was answered began.
    confirmed: Option<Instant>,
    /// When the last heartbeat began.
    tried: Option<Instant>,
    /// Earlier ranks, and when each ended. Other nodes may still count with them.
    before: Vec<(Option<Rank>, Instant)>,
}

impl View {
    pub(super) fn new(settings: MembershipSettings) -> Self {
        Self { settings, rank: None, confirmed: None, tried: None, before: Vec::new() }
    }

    /// Whether the next heartbeat is due: early enough that it is done in time although nodes claim only now and then.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let soon = self.settings.every / 2;
        let tried = self.tried.is_some_and(|tried| now.saturating_duration_since(tried) < soon);
        !tried || !self.is_good(now)
    }

    pub(super) fn try_now(&mut self, now: Instant) {
        self.tried = Some(now);
    }

    /// Whether the other nodes still count this one.
    pub(super) fn is_good(&self, now: Instant) -> bool {
        let good_for = self.settings.good_for();
        let confirmed = self.confirmed.is_some_and(|at| now.saturating_duration_since(at) < good_for);
        confirmed && self.rank.is_some()
    }

    /// A heartbeat that began at `confirmed` gave this rank. `was_known`: whether the other nodes counted this one until then.
    pub(super) fn confirm(&mut self, rank: Rank, was_known: bool, confirmed: Instant, now: Instant) {
        let before = self.rank.filter(|_| was_known);
        self.before.retain(|(_, until)| now.saturating_duration_since(*until) < self.settings.every);
        if rank.is_alone() {
            // No other node counts with an earlier rank.
            self.before.clear();
        } else if before != Some(rank) {
            self.before.push((before, now));
        }
        (self.rank, self.confirmed) = (Some(rank), Some(confirmed));
    }

    /// This node is no member any more.
    pub(super) fn leave(&mut self) {
        self.before.clear();
        self.rank = None;
    }

    /// When a node that has just joined takes its share.
    pub(super) fn begins_at(&self) -> Option<Instant> {
        let joined = self.before.iter().rfind(|(before, _)| before.is_none());
        joined.and_then(|(_, at)| at.checked_add(self.settings.every))
    }

    /// This node's share of the limits of a partition. What it gains by a change it takes once the other nodes have had the time to
    /// see that change too; what it loses it gives up at once.
    pub(super) fn share(
        &self,
        partition: &impl SharedPartition,
        limits: &Limits,
        now: Instant,
    ) -> Option<Limits> {
        let rank = self.rank.filter(|_| self.is_good(now))?;
        let unseen = self.before.iter().filter(|(_, at)| self.is_unseen(*at, now));
        unseen.map(|(before, _)| *before).try_fold(rank.share(partition, limits)?, |share, before| {
            Some(lesser(&share, &before?.share(partition, limits)?))
        })
    }

    /// The same where outside workers hold something. Until all nodes have seen a change, the share is no more than it would be if
    /// they held nothing.
    pub(super) fn share_beside(
        &self,
        partition: &impl SharedPartition,
        shared: &SharedLimits,
        now: Instant,
    ) -> Option<Limits> {
        let usual = self.share(partition, &shared.whole, now);
        if self.is_good(now) && !self.before.iter().any(|(_, at)| self.is_unseen(*at, now)) {
            return shared.share;
        }
        Some(lesser(&usual?, &shared.share?))
    }

    fn is_unseen(&self, at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(at) < self.settings.every
    }
}

impl MembershipSettings {
    /// How long a node acts on a heartbeat. It stops before the other nodes stop counting it, so that the attempts it
    /// claimed last have begun by then.
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

    /// A partition of which, of two nodes, the first one has the odd request.
    const PARTITION: i64 = 2;

    fn view() -> (View, Instant) {
        let settings =
            MembershipSettings { every: Duration::from_secs(2), gone_after: Duration::from_secs(10) };
        (View::new(settings), Instant::now())
    }

    /// How many of three requests it takes, so many seconds later.
    fn takes(view: &View, start: Instant, seconds: u64) -> usize {
        let limits = Limits { concurrency: 3, rate: None };
        view.share(&PARTITION, &limits, start + Duration::from_secs(seconds))
            .map_or(0, |share| share.concurrency)
    }

    /// A heartbeat, so many seconds later.
    fn confirm(view: &mut View, start: Instant, seconds: u64, rank: Rank) {
        let now = start + Duration::from_secs(seconds);
        view.try_now(now);
        view.confirm(rank, true, now, now);
    }

    #[test]
    fn only_a_member_has_a_share_and_a_lone_one_has_all() {
        let (mut view, start) = view();
        assert_eq!((takes(&view, start, 0), view.is_due(start)), (0, true));
        confirm(&mut view, start, 0, Rank::ALONE);
        assert_eq!((takes(&view, start, 0), view.begins_at()), (3, None));
        assert!(
            !view.is_due(start + Duration::from_millis(999)) && view.is_due(start + Duration::from_secs(1))
        );
        view.leave();
        assert_eq!((takes(&view, start, 0), view.is_due(start)), (0, true));
    }

    #[test]
    fn node_that_joins_others_waits_until_they_have_seen_it() {
        let (mut view, start) = view();
        confirm(&mut view, start, 0, Rank::among(1, 1));
        assert_eq!(view.begins_at(), Some(start + Duration::from_secs(2)));
        assert_eq!([0, 1, 2].map(|seconds| takes(&view, start, seconds)), [0, 0, 1]);
    }

    #[test]
    fn lost_share_goes_at_once_and_gained_share_comes_later() {
        let (mut view, start) = view();
        confirm(&mut view, start, 0, Rank::ALONE);
        confirm(&mut view, start, 2, Rank::among(0, 1));
        assert_eq!(takes(&view, start, 2), 2);
        confirm(&mut view, start, 4, Rank::among(0, 2));
        assert_eq!(takes(&view, start, 4), 1);
        confirm(&mut view, start, 6, Rank::among(0, 1));
        assert_eq!([6, 7, 8].map(|seconds| takes(&view, start, seconds)), [1, 1, 2]);
        confirm(&mut view, start, 8, Rank::ALONE);
        assert_eq!(takes(&view, start, 8), 3, "nobody is left who could see it otherwise");
    }

    #[test]
    fn all_changes_within_an_interval_count() {
        let (mut view, start) = view();
        confirm(&mut view, start, 0, Rank::ALONE);
        confirm(&mut view, start, 2, Rank::among(0, 2));
        confirm(&mut view, start, 3, Rank::among(0, 1));
        assert_eq!([3, 4, 5].map(|seconds| takes(&view, start, seconds)), [1, 1, 2]);
    }

    #[test]
    fn node_without_a_heartbeat_has_no_share() {
        let (mut view, start) = view();
        confirm(&mut view, start, 0, Rank::ALONE);
        assert_eq!([7, 8, 100].map(|seconds| takes(&view, start, seconds)), [3, 0, 0]);
        // Others took it for gone, and are there now.
        let now = start + Duration::from_secs(100);
        view.try_now(now);
        view.confirm(Rank::among(0, 1), false, now, now);
        assert_eq!([100, 101, 102].map(|seconds| takes(&view, start, seconds)), [0, 0, 2]);
        assert!(view.is_due(now + Duration::from_secs(2)));
    }

    #[test]
    fn lesser_of_two_shares_is_the_lesser_of_each_limit() {
        let limits = |concurrency, requests| Limits {
            concurrency,
            rate: std::num::NonZeroU32::new(requests)
                .map(|requests| Rate { requests, every: Duration::from_secs(1) }),
        };
        assert_eq!(lesser(&limits(3, 2), &limits(2, 5)), limits(2, 2));
        assert_eq!(lesser(&limits(3, 0), &limits(4, 0)), limits(3, 0));
    }
}
