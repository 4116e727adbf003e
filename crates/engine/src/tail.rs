//! A saga's newest events, so that whoever watches it need not read again what this process has just written.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstitch_kernel::saga::Recorded;

/// Decisions kept; whoever is further behind reads the log.
const KEPT: usize = 16;

/// What the newest decisions wrote, without a gap.
#[derive(Default)]
pub(crate) struct Tail(Mutex<VecDeque<Vec<Recorded>>>);

impl Tail {
    /// Adds what a decision has put on disk.
    pub(crate) fn push(&self, events: Vec<Recorded>) {
        let Some(first) = events.first() else { return };
        let mut kept = self.kept();
        if newest(&kept).is_some_and(|newest| newest + 1 != first.seq) {
            kept.clear();
        }
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(events);
    }

    /// The events after this number, none if it is the newest; `None` when only the log knows.
    pub(crate) fn after(&self, seq: u64) -> Option<Vec<Recorded>> {
        let kept = self.kept();
        let oldest = kept.front()?.first()?.seq;
        if oldest > seq + 1 {
            return None;
        }
        Some(kept.iter().flatten().filter(|event| event.seq > seq).cloned().collect())
    }

    /// The event that began the saga, while it is among the newest.
    pub(crate) fn beginning(&self) -> Option<Recorded> {
        self.kept().front()?.first().filter(|event| event.seq == 1).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Vec<Recorded>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn newest(kept: &VecDeque<Vec<Recorded>>) -> Option<u64> {
    Some(kept.back()?.last()?.seq)
}

#[cfg(test)]
mod tests {
    use backstitch_kernel::Timestamp;
    use backstitch_kernel::saga::Event;

    use super::*;

    fn decision(from: u64, to: u64) -> Vec<Recorded> {
        let at = Timestamp::from_micros(0);
        (from..=to).map(|seq| Recorded { seq, at, event: Event::SagaSucceeded }).collect()
    }

    fn after(tail: &Tail, seq: u64) -> Option<Vec<u64>> {
        Some(tail.after(seq)?.iter().map(|event| event.seq).collect())
    }

    #[test]
    fn an_empty_tail_knows_nothing() {
        assert_eq!(after(&Tail::default(), 0), None);
        assert!(Tail::default().beginning().is_none());
    }

    #[test]
    fn events_are_told_from_any_place_that_is_kept() {
        let tail = Tail::default();
        tail.push(decision(1, 2));
        tail.push(decision(3, 3));
        assert_eq!(after(&tail, 0), Some(vec![1, 2, 3]));
        assert_eq!(after(&tail, 1), Some(vec![2, 3]));
        assert_eq!(after(&tail, 3), Some(vec![]));
        assert_eq!(after(&tail, 7), Some(vec![]), "whoever has read further in the log misses nothing");
        assert_eq!(tail.beginning().unwrap().seq, 1);
    }

    #[test]
    fn what_is_older_is_the_logs() {
        let tail = Tail::default();
        for number in 0..=KEPT as u64 {
            tail.push(decision(2 * number + 1, 2 * number + 2));
        }
        assert_eq!(after(&tail, 0), None);
        assert_eq!(after(&tail, 2).map(|events| events.len()), Some(2 * KEPT));
        assert!(tail.beginning().is_none());
    }

    #[test]
    fn a_gap_forgets_what_lies_before_it() {
        let tail = Tail::default();
        tail.push(decision(1, 2));
        tail.push(decision(5, 6));
        assert_eq!(after(&tail, 2), None);
        assert_eq!(after(&tail, 4), Some(vec![5, 6]));
    }
}
