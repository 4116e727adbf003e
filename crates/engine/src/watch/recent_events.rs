//! The newest events of a log, kept in memory so that its readers need not read what this process has just written.

use std::collections::VecDeque;

use super::LogEvent;

/// The events of the newest commits, without a gap.
pub(super) struct RecentEvents<E> {
    commits: VecDeque<Vec<E>>,
}

impl<E> Default for RecentEvents<E> {
    fn default() -> Self {
        Self { commits: VecDeque::new() }
    }
}

impl<E: LogEvent> RecentEvents<E> {
    /// Adds the events of a commit, and keeps those of the newest `kept` commits.
    pub(super) fn push(&mut self, events: Vec<E>, kept: usize) {
        let Some(first) = events.first() else { return };
        let newest = self.commits.back().and_then(|events| events.last());
        if newest.is_some_and(|newest| newest.seq() + 1 != first.seq()) {
            self.commits.clear();
        }
        while self.commits.len() >= kept {
            self.commits.pop_front();
        }
        self.commits.push_back(events);
    }

    /// The events after this number, none if it is the newest; `None` if some of them are only in the log.
    pub(super) fn after(&self, seq: u64) -> Option<Vec<E>> {
        let oldest = self.commits.front()?.first()?.seq();
        if oldest > seq + 1 {
            return None;
        }
        Some(self.commits.iter().flatten().filter(|event| event.seq() > seq).cloned().collect())
    }

    /// The first event of the log, while it is kept.
    pub(super) fn beginning(&self) -> Option<&E> {
        self.commits.front()?.first().filter(|event| event.seq() == 1)
    }

    pub(super) fn clear(&mut self) {
        self.commits = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use backstitch_kernel::Timestamp;
    use backstitch_kernel::saga::{Event, Recorded};

    use super::*;

    const KEPT: usize = 16;

    fn commit(from: u64, to: u64) -> Vec<Recorded> {
        let at = Timestamp::from_micros(0);
        (from..=to).map(|seq| Recorded { seq, at, event: Event::SagaSucceeded }).collect()
    }

    fn recent(commits: impl IntoIterator<Item = (u64, u64)>) -> RecentEvents<Recorded> {
        let mut recent = RecentEvents::default();
        for (from, to) in commits {
            recent.push(commit(from, to), KEPT);
        }
        recent
    }

    fn after(recent: &RecentEvents<Recorded>, seq: u64) -> Option<Vec<u64>> {
        Some(recent.after(seq)?.iter().map(|event| event.seq).collect())
    }

    #[test]
    fn nothing_is_known_before_the_first_commit() {
        let recent = recent([]);
        assert_eq!(after(&recent, 0), None);
        assert!(recent.beginning().is_none());
    }

    #[test]
    fn recent_events_are_read_from_any_position_kept() {
        let recent = recent([(1, 2), (3, 3)]);
        assert_eq!(after(&recent, 0), Some(vec![1, 2, 3]));
        assert_eq!(after(&recent, 1), Some(vec![2, 3]));
        assert_eq!(after(&recent, 3), Some(vec![]));
        assert_eq!(after(&recent, 7), Some(vec![]), "a reader that is ahead misses nothing");
        assert_eq!(recent.beginning().unwrap().seq, 1);
    }

    #[test]
    fn older_events_are_read_from_the_log() {
        let recent = recent((0..=KEPT as u64).map(|number| (2 * number + 1, 2 * number + 2)));
        assert_eq!(after(&recent, 0), None);
        assert_eq!(after(&recent, 2).map(|events| events.len()), Some(2 * KEPT));
        assert!(recent.beginning().is_none());
    }

    #[test]
    fn gap_forgets_events_before_it() {
        let recent = recent([(1, 2), (5, 6)]);
        assert_eq!(after(&recent, 2), None);
        assert_eq!(after(&recent, 4), Some(vec![5, 6]));
    }
}
