//! The saga events that a reader has not read yet: in memory, or as positions in the logs while the reader is slow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;
use tokio::sync::Notify;

use super::Gap;
use super::saga_event::CommittedEvents;
use crate::outbox::Announced;
use crate::registry::Registered;

/// How far a reader may be behind.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Events that are kept in memory for it; later ones are read from the log when it comes to them.
    in_memory: usize,
    /// Commits it has not read; of later ones it gets a [`Gap`].
    commits: usize,
}

pub(super) const LIMITS: Limits = Limits { in_memory: 4096, commits: 1 << 20 };

/// Where the events of one commit are in the log.
pub(super) struct Logged {
    pub(super) saga: SagaId,
    pub(super) definition: Arc<Registered>,
    /// The number of the event before them.
    pub(super) after: u64,
    pub(super) through: u64,
}

impl Logged {
    fn of(commit: &CommittedEvents) -> Option<Self> {
        let (first, last) = (commit.events.first()?, commit.events.last()?);
        let (saga, definition) = (commit.saga, commit.definition.clone());
        Some(Self { saga, definition, after: first.seq - 1, through: last.seq })
    }

    pub(super) fn gap(&self) -> Gap {
        Gap { missed: self.through - self.after }
    }
}

pub(super) enum Entry {
    Committed(Arc<CommittedEvents>),
    Logged(Logged),
    Lost(Gap),
}

/// What a reader has not read yet.
pub(crate) struct EventQueue {
    /// The events it wants.
    pub(super) names: Announced,
    /// Whether a shutdown waits for its reader.
    awaited: bool,
    limits: Limits,
    unread: Mutex<Unread>,
    pub(super) filled: Notify,
}

#[derive(Default)]
struct Unread {
    entries: VecDeque<Entry>,
    /// Events in entries that are in memory.
    in_memory: usize,
    /// Whether the reader has taken an entry and not asked for the next one.
    busy: bool,
    /// Nothing follows what is in the queue.
    closed: bool,
    /// The reader wants nothing more.
    left: bool,
}

pub(super) enum Next {
    Entry(Entry),
    Empty,
    End,
}

impl EventQueue {
    pub(super) fn new(names: Announced, awaited: bool, limits: Limits) -> Self {
        Self { names, awaited, limits, unread: Mutex::default(), filled: Notify::new() }
    }

    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wants(&self, events: &[Recorded]) -> bool {
        events.iter().any(|recorded| self.names.includes(recorded.event.name()))
    }

    pub(super) fn push(&self, commit: &Arc<CommittedEvents>) {
        let mut unread = self.unread();
        if unread.closed {
            return;
        }
        let events = commit.events.len();
        if unread.in_memory + events <= self.limits.in_memory {
            unread.in_memory += events;
            unread.entries.push_back(Entry::Committed(commit.clone()));
        } else if unread.entries.len() < self.limits.commits {
            unread.entries.extend(Logged::of(commit).map(Entry::Logged));
        } else if let Some(Entry::Lost(gap)) = unread.entries.back_mut() {
            gap.missed += events as u64;
        } else {
            unread.entries.push_back(Entry::Lost(Gap { missed: events as u64 }));
        }
        drop(unread);
        self.filled.notify_one();
    }

    pub(super) fn pop(&self) -> Next {
        let mut unread = self.unread();
        if unread.left {
            return Next::End;
        }
        let entry = unread.entries.pop_front();
        unread.busy = entry.is_some();
        if let Some(Entry::Committed(commit)) = &entry {
            unread.in_memory -= commit.events.len();
        }
        match entry {
            Some(entry) => Next::Entry(entry),
            None if unread.closed => Next::End,
            None => Next::Empty,
        }
    }

    /// The engine has ended: what is in the queue can still be read.
    pub(super) fn close(&self) {
        self.unread().closed = true;
        self.filled.notify_one();
    }

    /// The reader has gone.
    pub(crate) fn leave(&self) {
        *self.unread() = Unread { closed: true, left: true, ..Unread::default() };
        self.filled.notify_one();
    }

    pub(crate) fn is_left(&self) -> bool {
        self.unread().left
    }

    pub(super) fn holds_up_shutdown(&self) -> bool {
        let unread = self.unread();
        self.awaited && (unread.busy || !unread.entries.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use backstitch_kernel::saga::{Event, Now, Start, start};
    use backstitch_kernel::{SagaId, Timestamp};
    use uuid::Uuid;

    use super::*;
    use crate::context::Context;
    use crate::registry::Registry;
    use crate::saga::{Saga, Step};

    /// Commits of two events each.
    fn commit() -> Arc<CommittedEvents> {
        let step = Step::new("a", |_: Context<()>| async { Ok(()) });
        let definition = Registry::new(1).add(Saga::builder("s").step(step).build().unwrap()).unwrap();
        let now = Now::at(Timestamp::from_micros(0));
        let decision = start(&definition.definition, Start::default(), now);
        let (saga, state) = (SagaId(Uuid::nil()), Arc::new(decision.state));
        Arc::new(CommittedEvents::new(saga, definition, state, decision.events))
    }

    fn queue(in_memory: usize, commits: usize) -> EventQueue {
        EventQueue::new(Announced::matching(["*"]).unwrap(), true, Limits { in_memory, commits })
    }

    fn kinds(queue: &EventQueue) -> Vec<String> {
        let next = || match queue.pop() {
            Next::Entry(Entry::Committed(_)) => Some("memory".to_owned()),
            Next::Entry(Entry::Logged(logged)) => Some(format!("log {}..{}", logged.after, logged.through)),
            Next::Entry(Entry::Lost(gap)) => Some(format!("lost {}", gap.missed)),
            Next::Empty | Next::End => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn slow_reader_keeps_places_in_the_log() {
        let (queue, commit) = (queue(4, 10), commit());
        assert_eq!(commit.events.len(), 2);
        for _ in 0..4 {
            queue.push(&commit);
        }
        assert_eq!(kinds(&queue), ["memory", "memory", "log 0..2", "log 0..2"]);
        queue.push(&commit);
        assert_eq!(kinds(&queue), ["memory"], "it has caught up");
    }

    #[test]
    fn reader_too_far_behind_gets_a_gap() {
        let (queue, commit) = (queue(2, 2), commit());
        for _ in 0..4 {
            queue.push(&commit);
        }
        assert_eq!(kinds(&queue), ["memory", "log 0..2", "lost 4"]);
    }

    #[test]
    fn queue_holds_up_shutdown_until_its_reader_is_done() {
        let (queue, commit) = (queue(2, 2), commit());
        assert!(!queue.holds_up_shutdown());
        queue.push(&commit);
        assert!(queue.holds_up_shutdown());
        assert!(matches!(queue.pop(), Next::Entry(_)));
        assert!(queue.holds_up_shutdown(), "the reader has not come back");
        assert!(matches!(queue.pop(), Next::Empty));
        assert!(!queue.holds_up_shutdown());
    }

    #[test]
    fn reader_that_left_gets_nothing_more() {
        let (queue, commit) = (queue(2, 2), commit());
        queue.push(&commit);
        queue.leave();
        queue.push(&commit);
        assert!(matches!(queue.pop(), Next::End));
        assert!(!queue.holds_up_shutdown());
    }

    #[test]
    fn closed_queue_can_be_read_to_its_end() {
        let (queue, commit) = (queue(2, 2), commit());
        queue.push(&commit);
        queue.close();
        assert!(matches!(queue.pop(), Next::Entry(Entry::Committed(_))));
        assert!(matches!(queue.pop(), Next::End));
    }

    #[test]
    fn queue_takes_only_commits_with_wanted_events() {
        let commit = commit();
        let names = Announced::matching(["saga.failed"]).unwrap();
        assert!(!EventQueue::new(names, true, LIMITS).wants(&commit.events));
        let names = Announced::matching(["step.*"]).unwrap();
        assert!(EventQueue::new(names, true, LIMITS).wants(&commit.events));
        assert!(matches!(commit.events[0].event, Event::SagaStarted(_)));
    }
}
