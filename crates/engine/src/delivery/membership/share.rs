//! Which share of a partition's limits is a node's (ADR 11).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::delivery::limiter::{Limits, Rate};

/// A partition whose limits nodes share.
pub trait SharedPartition {
    /// Which of so many nodes gets the first share: another one for each partition.
    fn first_node(&self, nodes: NonZeroU32) -> u32;
}

impl SharedPartition for i64 {
    fn first_node(&self, nodes: NonZeroU32) -> u32 {
        u32::try_from(self.rem_euclid(nodes.get().into())).unwrap_or_default()
    }
}

/// The rank of a node among the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    rank: u32,
    of: NonZeroU32,
}

impl Rank {
    /// The only member.
    pub(super) const ALONE: Self = Self { rank: 0, of: NonZeroU32::MIN };

    /// The rank of one of these members.
    pub(super) fn of(node: &str, members: &BTreeSet<String>) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let before = members.iter().take_while(|one| one.as_str() < node).count();
        Self::among(count(before), count(members.len().saturating_sub(1)))
    }

    /// The rank after so many of the other members.
    pub(super) fn among(before: u32, others: u32) -> Self {
        Self { rank: before, of: NonZeroU32::MIN.saturating_add(others) }
    }

    pub(super) fn is_alone(self) -> bool {
        self.of == NonZeroU32::MIN
    }

    /// This node's share of the limits of a partition; `None` where other nodes serve it.
    ///
    /// The shares of all nodes add up to the limits, exactly. A partition is served by as many nodes as its smallest limit has
    /// shares for: one with a concurrency of one is served by one node, which then has all of its rate too. Which nodes
    /// serve it, and which of them get the remainder, differs between partitions.
    pub(super) fn share(self, partition: &impl SharedPartition, limits: &Limits) -> Option<Limits> {
        let of = u64::from(self.of.get());
        let turn = (u64::from(self.rank) + u64::from(partition.first_node(self.of))) % of;
        let concurrency = limits.concurrency as u64;
        let served_by = of.min(concurrency).min(limits.rate.map_or(of, |rate| rate.requests.get().into()));
        if turn >= served_by {
            return None;
        }
        let share = |whole: u64| whole / served_by + u64::from(turn < whole % served_by);
        let rate = limits.rate.map(|rate| {
            // Never less than one, nor more than the whole, since no more nodes serve a partition than it has requests.
            let requests = u32::try_from(share(rate.requests.get().into())).ok().and_then(NonZeroU32::new);
            Rate { requests: requests.unwrap_or(rate.requests), ..rate }
        });
        Some(Limits { concurrency: usize::try_from(share(concurrency)).unwrap_or(usize::MAX), rate })
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
    fn shares(nodes: u32, partition: i64, limits: &Limits) -> Vec<Option<Limits>> {
        (0..nodes).map(|rank| Rank::among(rank, nodes - 1).share(&partition, limits)).collect()
    }

    fn requests(limits: &Limits) -> u32 {
        limits.rate.map_or(0, |rate| rate.requests.get())
    }

    #[test]
    fn all_shares_together_are_the_whole() {
        for nodes in NODES {
            for partition in -7..40 {
                for (concurrency, rate) in (1..30).flat_map(|most| [0, 1, 2, 7, 50].map(|rate| (most, rate)))
                {
                    let whole = limits(concurrency, (rate > 0).then_some(rate));
                    let shares: Vec<Limits> =
                        shares(nodes, partition, &whole).into_iter().flatten().collect();
                    let said = format!("{nodes} nodes, partition {partition}, {whole:?}: {shares:?}");
                    assert_eq!(
                        shares.iter().map(|share| share.concurrency).sum::<usize>(),
                        concurrency,
                        "{said}"
                    );
                    assert_eq!(shares.iter().map(requests).sum::<u32>(), rate, "{said}");
                    assert!(shares.iter().all(|share| share.concurrency > 0), "{said}");
                    assert!(shares.iter().all(|share| share.rate.is_some() == (rate > 0)), "{said}");
                }
            }
        }
    }

    #[test]
    fn limit_is_shared_equally_and_the_remainder_by_turns() {
        for nodes in NODES {
            for (partition, most) in
                (0..40_u32).flat_map(|partition| (1..30_u32).map(move |most| (partition, most)))
            {
                for (rank, share) in
                    (0..nodes).zip(shares(nodes, partition.into(), &limits(most as usize, None)))
                {
                    let expected = most / nodes + u32::from((rank + partition) % nodes < most % nodes);
                    assert_eq!(share.map_or(0, |share| share.concurrency), expected as usize);
                }
            }
        }
    }

    #[test]
    fn concurrency_of_one_is_one_nodes_in_turns() {
        let mut served = Vec::new();
        for partition in 0..3 {
            let shares = shares(3, partition, &limits(1, Some(100)));
            let whole = shares.iter().position(|share| share == &Some(limits(1, Some(100))));
            served.push(whole.unwrap());
            assert_eq!(shares.iter().flatten().count(), 1, "{shares:?}");
        }
        served.sort_unstable();
        assert_eq!(served, [0, 1, 2]);
    }

    #[test]
    fn node_that_is_alone_gets_all_limits() {
        for whole in [limits(1, None), limits(16, Some(3)), limits(usize::MAX, Some(u32::MAX))] {
            assert_eq!(Rank::ALONE.share(&i64::MIN, &whole), Some(whole));
        }
        assert!(Rank::ALONE.is_alone() && !Rank::among(0, 1).is_alone());
    }
}
