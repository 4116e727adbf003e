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
/// whatever becomes of the node that gave it to it: what a node gave that is gone by now is taken off the limits before they
/// are shared, and what one gave that had a greater part before is taken off the parts of the others.
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

    /// This node's part of the limits of a lane, as `share` gives it of what is to be shared; nothing where no room is left.
    pub(super) fn part(
        &mut self,
        lane: i64,
        limits: &Limits,
        share: impl FnOnce(&Limits) -> Option<Limits>,
    ) -> Option<Limits> {
        let Some(counts) = self.counts.get(&lane) else { return share(limits) };
        let (here, gone): (Vec<_>, Vec<_>) = counts.iter().partition(|(node, _)| self.crew.contains(node));
        let strays: usize = gone.iter().map(|(_, count)| count).sum();
        let whole = Limits { concurrency: limits.concurrency.saturating_sub(strays), ..*limits };
        let too_many = |(node, count): &&(String, usize)| {
            let part =
                if whole.concurrency > 0 { Standing::of(node, &self.crew).part(lane, &whole) } else { None };
            count.saturating_sub(part.map_or(0, |part| part.concurrency))
        };
        let excess: usize = here.iter().map(too_many).sum();
        self.holds_back |= strays + excess > 0;
        let part = if whole.concurrency > 0 { share(&whole)? } else { return None };
        let concurrency = part.concurrency.saturating_sub(excess);
        (concurrency > 0).then_some(Limits { concurrency, ..part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 3] = ["a", "b", "c"];

    fn limits(concurrency: usize) -> Limits {
        Limits { concurrency, rate: None }
    }

    /// What a node that is there sees of what they all have.
    fn seen_by(node: &str, crew: &[&str], held: &[(&str, usize)]) -> Outside {
        let others = held.iter().filter(|(one, _)| *one != node);
        let counts = others.map(|&(one, count)| (one.to_owned(), count)).collect();
        let mut outside = Outside::default();
        let crew = crew.iter().map(|&one| one.to_owned()).collect();
        outside.see([(7, counts)].into(), crew, Instant::now());
        outside
    }

    /// What it may have in all.
    fn may_have(node: &str, crew: &[&str], held: &[(&str, usize)], most: usize) -> usize {
        let mut outside = seen_by(node, crew, held);
        let standing = Standing::of(node, &outside.crew);
        let part = outside.part(7, &limits(most), |limits| standing.part(7, limits));
        part.map_or(0, |part| part.concurrency)
    }

    #[test]
    fn whatever_workers_have_all_nodes_together_give_no_more_than_the_limit() {
        for most in 1..9 {
            for (a, b, c) in (0..most + 1).flat_map(|a| (0..most + 1).map(move |b| (a, b, most / 2))) {
                for crew in [&NODES[..], &NODES[..2], &NODES[1..], &NODES[1..2]] {
                    let held = [("a", a), ("b", b), ("c", c)];
                    let under_way: usize = held.iter().map(|(_, count)| count).sum();
                    let of =
                        |node: &str| held.iter().find(|(one, _)| *one == node).map_or(0, |(_, count)| *count);
                    let new: usize = crew
                        .iter()
                        .map(|node| may_have(node, crew, &held, most).saturating_sub(of(node)))
                        .sum();
                    let said = format!("{crew:?} with {held:?} of {most}: {new} more");
                    assert!(new == 0 || under_way + new <= most, "{said}");
                }
            }
        }
    }

    #[test]
    fn what_is_left_is_given() {
        assert_eq!(may_have("b", &["b"], &[("a", 2)], 3), 1, "from a node that is gone");
        assert_eq!(may_have("b", &["b"], &[("a", 3)], 3), 0);
        assert_eq!(may_have("b", &["a", "b"], &[("a", 2)], 4), 2, "the other has its part");
        assert_eq!(may_have("b", &["a", "b"], &[("a", 3)], 4), 1, "the other has more");
        assert_eq!(may_have("b", &["a", "b"], &[("a", 4)], 4), 0);
        assert_eq!(may_have("b", &["a", "b", "c"], &[], 6), 2);
    }

    #[test]
    fn it_is_looked_at_again_while_somebody_waits_for_it() {
        let now = Instant::now();
        assert!(Outside::default().is_due(now), "nobody has looked yet");
        let mut outside = seen_by("b", &["b"], &[("a", 1)]);
        assert!(!outside.look_again(), "nobody was given less");
        assert!(outside.part(7, &limits(1), |limits| Some(*limits)).is_none());
        assert!(!outside.is_due(now) && outside.is_due(now + 2 * EVERY));
        assert!(outside.look_again() && outside.is_due(now));
        outside.see(Counts::new(), BTreeSet::new(), now);
        assert!(!outside.look_again() && !outside.is_due(now + 2 * EVERY));
        assert_eq!(outside.part(7, &limits(1), |limits| Some(*limits)), Some(limits(1)));
    }
}
