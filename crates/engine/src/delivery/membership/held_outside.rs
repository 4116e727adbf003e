//! What outside workers hold, whichever node gave it to them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::share::{Rank, SharedPartition};
use crate::delivery::PartitionKey;
use crate::delivery::limiter::Limits;

/// How old these counts may be, while outside workers hold anything.
const EVERY: Duration = Duration::from_secs(1);

/// How many leases each node gave to outside workers, by partition.
pub type OutsideLeases<K> = HashMap<K, Vec<(String, usize)>>;

/// Leases that no place of this node stands for. An outside worker holds its lease until it reports or the lease expires,
/// whatever becomes of the node that gave it. So leases of nodes that are gone are taken off the limits before these
/// are shared; and so are the leases of a node that gave more than its share, which then takes none.
pub(super) struct HeldOutside<K> {
    leases: OutsideLeases<K>,
    /// The nodes that share the limits.
    members: BTreeSet<String>,
    seen: Option<Instant>,
    /// A share was smaller because of them.
    holds_back: bool,
}

impl<K> Default for HeldOutside<K> {
    fn default() -> Self {
        Self { leases: HashMap::new(), members: BTreeSet::new(), seen: None, holds_back: false }
    }
}

impl<K: PartitionKey + SharedPartition> HeldOutside<K> {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.seen.is_none_or(|seen| !self.leases.is_empty() && now.saturating_duration_since(seen) >= EVERY)
    }

    /// These are all leases, now that these nodes share the limits.
    pub(super) fn see(&mut self, leases: OutsideLeases<K>, members: BTreeSet<String>, now: Instant) {
        *self = Self { leases, members, seen: Some(now), holds_back: false };
    }

    /// These nodes share the limits; the leases are those that were seen last.
    pub(super) fn share_among(&mut self, members: BTreeSet<String>) {
        self.members = members;
    }

    /// The members that were seen last.
    pub(super) fn members(&self) -> BTreeSet<String> {
        self.members.clone()
    }

    /// A lease has ended; whether that may enlarge a share.
    pub(super) fn lease_ended(&mut self) -> bool {
        if self.holds_back {
            self.seen = None;
        }
        self.holds_back
    }

    /// How the limits of a partition are shared, if outside workers hold any of its leases.
    pub(super) fn shared(&mut self, node: &str, partition: &K, limits: &Limits) -> Option<SharedLimits> {
        let leases = self.leases.get(partition)?;
        let mut members = self.members.clone();
        let (here, gone): (Vec<_>, Vec<_>) = leases.iter().partition(|(node, _)| members.contains(node));
        let less = |whole: &Limits, count: usize| Limits {
            concurrency: whole.concurrency.saturating_sub(count),
            ..*whole
        };
        let whole = less(limits, gone.iter().map(|(_, count)| count).sum());
        let mut rest = whole;
        let share = loop {
            let share_of = |node: &str| match rest.concurrency {
                0 => None,
                _ => Rank::of(node, &members).share(partition, &rest),
            };
            let has_more = |(node, count): &&&(String, usize)| {
                members.contains(node) && *count > share_of(node).map_or(0, |share| share.concurrency)
            };
            let full: Vec<_> = here.iter().filter(has_more).collect();
            if full.is_empty() || full.iter().any(|(one, _)| one == node) {
                break share_of(node);
            }
            rest = less(&rest, full.iter().map(|(_, count)| count).sum());
            members.retain(|one| full.iter().all(|(node, _)| node != one));
        };
        self.holds_back |= rest != *limits;
        Some(SharedLimits { whole, share })
    }
}

/// How the limits of a partition are shared.
pub(super) struct SharedLimits {
    /// What is shared: the limits less the leases of nodes that are gone.
    pub(super) whole: Limits,
    /// This node's share of it, beside nodes that gave more than theirs.
    pub(super) share: Option<Limits>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 3] = ["a", "b", "c"];
    const PARTITION: i64 = 7;

    fn limits(concurrency: usize) -> Limits {
        Limits { concurrency, rate: None }
    }

    /// What is known of what these nodes gave to their workers while those share the limits.
    fn outside(members: &[&str], held: &[(&str, usize)]) -> HeldOutside<i64> {
        let counts = held.iter().filter(|(_, count)| *count > 0).map(|&(one, count)| (one.to_owned(), count));
        let mut outside = HeldOutside::default();
        let members = members.iter().map(|&one| one.to_owned()).collect();
        outside.see([(PARTITION, counts.collect())].into(), members, Instant::now());
        outside
    }

    /// How many a node may have in all.
    fn may_have(node: &str, members: &[&str], held: &[(&str, usize)], most: usize) -> usize {
        let shared = outside(members, held).shared(node, &PARTITION, &limits(most)).unwrap();
        shared.share.map_or(0, |share| share.concurrency)
    }

    #[test]
    fn all_shares_and_outside_leases_add_up_to_the_limit() {
        for (most, a) in (1..9).flat_map(|most| (0..=most).map(move |a| (most, a))) {
            for (b, c) in (0..=most).flat_map(|b| (0..=most).map(move |c| (b, c))) {
                for members in [&NODES[..], &NODES[..2], &NODES[1..], &NODES[1..2]] {
                    let held = [("a", a), ("b", b), ("c", c)];
                    let new = |node: &&str| {
                        let has = held.iter().find(|(one, _)| one == node).map_or(0, |(_, count)| *count);
                        may_have(node, members, &held, most).saturating_sub(has)
                    };
                    let all: usize = members.iter().map(new).sum();
                    let said = format!("{all} by {members:?} with {held:?} of {most}");
                    assert_eq!(all, most.saturating_sub(a + b + c), "{said}");
                }
            }
        }
    }

    #[test]
    fn rest_of_the_limit_is_shared() {
        assert_eq!(may_have("b", &["b"], &[("a", 2)], 3), 1, "from a node that is gone");
        assert_eq!(may_have("b", &["b"], &[("a", 3)], 3), 0);
        assert_eq!(may_have("b", &["a", "b"], &[("a", 2)], 4), 2, "the other has its part");
        assert_eq!(may_have("b", &["a", "b"], &[("a", 3)], 4), 1, "the other has more");
        assert_eq!(may_have("a", &["a", "b"], &[("a", 3)], 4), 2, "and gets no more than its part");
        assert_eq!(may_have("b", &["a", "b", "c"], &[("a", 8)], 16), 4);
        assert!(
            outside(&["a"], &[("a", 1)]).shared("a", &(PARTITION + 1), &limits(3)).is_none(),
            "no lease in that partition"
        );
    }

    #[test]
    fn leases_are_read_again_while_they_hold_a_share_back() {
        let now = Instant::now();
        assert!(HeldOutside::<i64>::default().is_due(now), "nobody has looked yet");
        let mut outside = outside(&["b"], &[("a", 1)]);
        assert!(!outside.lease_ended(), "nobody was given less");
        assert!(outside.shared("b", &PARTITION, &limits(1)).unwrap().share.is_none());
        assert!(!outside.is_due(now) && outside.is_due(now + 2 * EVERY));
        assert!(outside.lease_ended() && outside.is_due(now));
        outside.see(OutsideLeases::new(), BTreeSet::new(), now);
        assert!(!outside.lease_ended() && !outside.is_due(now + 2 * EVERY));
    }
}
