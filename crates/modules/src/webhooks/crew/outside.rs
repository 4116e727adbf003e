//! What outside workers have from other nodes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::part::Standing;
use crate::webhooks::lanes::Limits;

/// How old what is known may be, as long as it is of any use.
const EVERY: Duration = Duration::from_secs(1);

/// How many each node gave to its workers, by lane.
pub(super) type Counts = HashMap<i64, Vec<(String, usize)>>;

/// What is under way that no place of this node stands for. A worker has what it got until it answers or its lease is over,
/// whatever becomes of the node that gave it to it. So what a node gave that is gone by now is taken off the limits before they
/// are shared; and so is what one gave that has more than its part, which then takes none.
#[derive(Default)]
pub(super) struct Outside {
    counts: Counts,
    /// The nodes among whom the limits are shared.
    crew: BTreeSet<String>,
    seen: Option<Instant>,
    /// Somebody was given less for it.
    holds_back: bool,
}

impl Outside {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.seen.is_none_or(|seen| !self.counts.is_empty() && now.saturating_duration_since(seen) >= EVERY)
    }

    /// These are all, now that these nodes share the limits.
    pub(super) fn see(&mut self, counts: Counts, crew: BTreeSet<String>, now: Instant) {
        *self = Self { counts, crew, seen: Some(now), holds_back: false };
    }

    /// These nodes share the limits from now on, and nothing else is known.
    pub(super) fn share_among(&mut self, crew: BTreeSet<String>) {
        self.crew = crew;
    }

    /// The nodes that were there when it was last looked.
    pub(super) fn crew(&self) -> BTreeSet<String> {
        self.crew.clone()
    }

    /// There may be less of it now; whether somebody waits for that.
    pub(super) fn look_again(&mut self) -> bool {
        if self.holds_back {
            self.seen = None;
        }
        self.holds_back
    }

    /// How the limits of a lane are shared, if workers have anything in it.
    pub(super) fn shared(&mut self, node: &str, lane: i64, limits: &Limits) -> Option<Shared> {
        let counts = self.counts.get(&lane)?;
        let mut crew = self.crew.clone();
        let (here, gone): (Vec<_>, Vec<_>) = counts.iter().partition(|(node, _)| crew.contains(node));
        let less = |whole: &Limits, count: usize| Limits {
            concurrency: whole.concurrency.saturating_sub(count),
            ..*whole
        };
        let whole = less(limits, gone.iter().map(|(_, count)| count).sum());
        let mut rest = whole;
        let part = loop {
            let part_of = |node: &str| match rest.concurrency {
                0 => None,
                _ => Standing::of(node, &crew).part(lane, &rest),
            };
            let has_more = |(node, count): &&&(String, usize)| {
                crew.contains(node) && *count > part_of(node).map_or(0, |part| part.concurrency)
            };
            let full: Vec<_> = here.iter().filter(has_more).collect();
            if full.is_empty() || full.iter().any(|(one, _)| one == node) {
                break part_of(node);
            }
            rest = less(&rest, full.iter().map(|(_, count)| count).sum());
            crew.retain(|one| full.iter().all(|(node, _)| node != one));
        };
        self.holds_back |= rest != *limits;
        Some(Shared { whole, part })
    }
}

/// How the limits of a lane are shared.
pub(super) struct Shared {
    /// What is shared: what is left of the limits by nodes that are gone.
    pub(super) whole: Limits,
    /// This node's part of it, beside those that have more than theirs.
    pub(super) part: Option<Limits>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 3] = ["a", "b", "c"];
    const LANE: i64 = 7;

    fn limits(concurrency: usize) -> Limits {
        Limits { concurrency, rate: None }
    }

    /// What is known of what these nodes gave to their workers while those share the limits.
    fn outside(crew: &[&str], held: &[(&str, usize)]) -> Outside {
        let counts = held.iter().filter(|(_, count)| *count > 0).map(|&(one, count)| (one.to_owned(), count));
        let mut outside = Outside::default();
        let crew = crew.iter().map(|&one| one.to_owned()).collect();
        outside.see([(LANE, counts.collect())].into(), crew, Instant::now());
        outside
    }

    /// How many a node may have in all.
    fn may_have(node: &str, crew: &[&str], held: &[(&str, usize)], most: usize) -> usize {
        let shared = outside(crew, held).shared(node, LANE, &limits(most)).unwrap();
        shared.part.map_or(0, |part| part.concurrency)
    }

    #[test]
    fn whatever_workers_have_all_nodes_together_give_what_is_left_of_the_limit() {
        for (most, a) in (1..9).flat_map(|most| (0..=most).map(move |a| (most, a))) {
            for (b, c) in (0..=most).flat_map(|b| (0..=most).map(move |c| (b, c))) {
                for crew in [&NODES[..], &NODES[..2], &NODES[1..], &NODES[1..2]] {
                    let held = [("a", a), ("b", b), ("c", c)];
                    let new = |node: &&str| {
                        let has = held.iter().find(|(one, _)| one == node).map_or(0, |(_, count)| *count);
                        may_have(node, crew, &held, most).saturating_sub(has)
                    };
                    let all: usize = crew.iter().map(new).sum();
                    let said = format!("{all} by {crew:?} with {held:?} of {most}");
                    assert_eq!(all, most.saturating_sub(a + b + c), "{said}");
                }
            }
        }
    }

    #[test]
    fn what_is_left_is_shared() {
        assert_eq!(may_have("b", &["b"], &[("a", 2)], 3), 1, "from a node that is gone");
        assert_eq!(may_have("b", &["b"], &[("a", 3)], 3), 0);
        assert_eq!(may_have("b", &["a", "b"], &[("a", 2)], 4), 2, "the other has its part");
        assert_eq!(may_have("b", &["a", "b"], &[("a", 3)], 4), 1, "the other has more");
        assert_eq!(may_have("a", &["a", "b"], &[("a", 3)], 4), 2, "and gets no more than its part");
        assert_eq!(may_have("b", &["a", "b", "c"], &[("a", 8)], 16), 4);
        assert!(
            outside(&["a"], &[("a", 1)]).shared("a", LANE + 1, &limits(3)).is_none(),
            "nothing in that lane"
        );
    }

    #[test]
    fn it_is_looked_at_again_while_somebody_waits_for_it() {
        let now = Instant::now();
        assert!(Outside::default().is_due(now), "nobody has looked yet");
        let mut outside = outside(&["b"], &[("a", 1)]);
        assert!(!outside.look_again(), "nobody was given less");
        assert!(outside.shared("b", LANE, &limits(1)).unwrap().part.is_none());
        assert!(!outside.is_due(now) && outside.is_due(now + 2 * EVERY));
        assert!(outside.look_again() && outside.is_due(now));
        outside.see(Counts::new(), BTreeSet::new(), now);
        assert!(!outside.look_again() && !outside.is_due(now + 2 * EVERY));
    }
}
