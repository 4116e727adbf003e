//! Which part of an endpoint's limits is a node's.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::webhooks::lanes::{Limits, Rate};

/// Where a node stands among those that send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    rank: u32,
    of: NonZeroU32,
}

impl Standing {
    /// The only one there is.
    pub(super) const ALONE: Self = Self { rank: 0, of: NonZeroU32::MIN };

    /// One of these nodes.
    pub(super) fn of(node: &str, crew: &BTreeSet<String>) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let before = crew.iter().take_while(|one| one.as_str() < node).count();
        Self::among(count(before), count(crew.len().saturating_sub(1)))
    }

    /// The one that so many of the others come before.
    pub(super) fn among(before: u32, others: u32) -> Self {
        Self { rank: before, of: NonZeroU32::MIN.saturating_add(others) }
    }

    pub(super) fn is_alone(self) -> bool {
        self.of == NonZeroU32::MIN
    }

    /// What this node takes of the limits of a lane; nothing where it leaves the lane to the others.
    ///
    /// The parts of all nodes add up to the limits, exactly. A lane is served by as many nodes as its smallest limit has
    /// parts for: one that may have a single request at once is served by one node, which then has all of its rate too.
    /// Which nodes those are, and which of them get what does not come out even, differs from lane to lane.
    pub(super) fn part(self, lane: i64, limits: &Limits) -> Option<Limits> {
        let of = u64::from(self.of.get());
        let turn = (u64::from(self.rank) + lane.rem_euclid(of.cast_signed()).unsigned_abs()) % of;
        let concurrency = limits.concurrency as u64;
        let served_by = of.min(concurrency).min(limits.rate.map_or(of, |rate| rate.requests.get().into()));
        if turn >= served_by {
            return None;
        }
        let part = |whole: u64| whole / served_by + u64::from(turn < whole % served_by);
        let rate = limits.rate.map(|rate| {
            // Never less than one, nor more than the whole, since no more nodes serve a lane than it has requests.
            let requests = u32::try_from(part(rate.requests.get().into())).ok().and_then(NonZeroU32::new);
            Rate { requests: requests.unwrap_or(rate.requests), ..rate }
        });
        Some(Limits { concurrency: usize::try_from(part(concurrency)).unwrap_or(usize::MAX), rate })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NODES: [u32; 7] = [1, 2, 3, 4, 5, 8, 13];

    fn limits(concurrency: usize, rate: Option<u32>) -> Limits {
        let rate = rate.and_then(NonZeroU32::new);
        Limits { concurrency, rate: rate.map(|requests| Rate { requests, every: Duration::from_secs(1) }) }
    }

    /// What each of so many nodes takes.
    fn parts(nodes: u32, lane: i64, limits: &Limits) -> Vec<Option<Limits>> {
        (0..nodes).map(|rank| Standing::among(rank, nodes - 1).part(lane, limits)).collect()
    }

    fn requests(limits: &Limits) -> u32 {
        limits.rate.map_or(0, |rate| rate.requests.get())
    }

    #[test]
    fn all_parts_together_are_the_whole() {
        for nodes in NODES {
            for lane in -7..40 {
                for (concurrency, rate) in (1..30).flat_map(|most| [0, 1, 2, 7, 50].map(|rate| (most, rate)))
                {
                    let whole = limits(concurrency, (rate > 0).then_some(rate));
                    let parts: Vec<Limits> = parts(nodes, lane, &whole).into_iter().flatten().collect();
                    let said = format!("{nodes} nodes, lane {lane}, {whole:?}: {parts:?}");
                    assert_eq!(
                        parts.iter().map(|part| part.concurrency).sum::<usize>(),
                        concurrency,
                        "{said}"
                    );
                    assert_eq!(parts.iter().map(requests).sum::<u32>(), rate, "{said}");
                    assert!(parts.iter().all(|part| part.concurrency > 0), "{said}");
                    assert!(parts.iter().all(|part| part.rate.is_some() == (rate > 0)), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_limit_is_shared_alike_and_what_is_left_over_goes_by_turns() {
        for nodes in NODES {
            for (lane, most) in (0..40_u32).flat_map(|lane| (1..30_u32).map(move |most| (lane, most))) {
                for (rank, part) in (0..nodes).zip(parts(nodes, lane.into(), &limits(most as usize, None))) {
                    let expected = most / nodes + u32::from((rank + lane) % nodes < most % nodes);
                    assert_eq!(part.map_or(0, |part| part.concurrency), expected as usize);
                }
            }
        }
    }

    #[test]
    fn a_single_request_at_once_is_one_nodes_and_another_ones_for_each_lane() {
        let mut served = Vec::new();
        for lane in 0..3 {
            let parts = parts(3, lane, &limits(1, Some(100)));
            let whole = parts.iter().position(|part| part == &Some(limits(1, Some(100))));
            served.push(whole.unwrap());
            assert_eq!(parts.iter().flatten().count(), 1, "{parts:?}");
        }
        served.sort_unstable();
        assert_eq!(served, [0, 1, 2]);
    }

    #[test]
    fn whoever_is_alone_has_everything() {
        for whole in [limits(1, None), limits(16, Some(3)), limits(usize::MAX, Some(u32::MAX))] {
            assert_eq!(Standing::ALONE.part(i64::MIN, &whole), Some(whole));
        }
        assert!(Standing::ALONE.is_alone() && !Standing::among(0, 1).is_alone());
    }
}
