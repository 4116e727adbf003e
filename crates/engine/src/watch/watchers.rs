//! The logs that are read or written in this process. Readers of a log are woken when it grows.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstitch_kernel::SagaId;
use futures::Stream;
use tokio::sync::Notify;

use super::log_stream::LogStream;
use super::poll::PolledLogs;
use super::recent_events::RecentEvents;
use super::{LogEvent, LogSource};
use crate::error::Error;

/// Commits whose events are kept of a log that only this process writes.
const KEPT_OF_WRITER: usize = 16;
/// The same of other logs: their readers are woken at once, and one that is slower reads the log.
const KEPT_OF_OTHERS: usize = 1;
/// The head of a log that was removed: its readers wake and find nothing.
pub(super) const REMOVED: u64 = u64::MAX;

/// Readers by the log that they follow.
pub struct Watchers<E> {
    logs: Mutex<Logs<E>>,
    /// Wakes the poll loop: there is a log that it does not know yet.
    poll: Arc<Notify>,
    /// No other node is polled any more.
    closed: AtomicBool,
}

struct Logs<E> {
    entries: HashMap<SagaId, Entry<E>>,
    /// Those that have readers and may be written by any process.
    idle: HashSet<SagaId>,
}

struct Entry<E> {
    log: Arc<WatchedLog<E>>,
    /// Readers, and the writer.
    users: usize,
}

struct WatchedLog<E> {
    newest: Mutex<Newest<E>>,
    changed: Notify,
}

struct Newest<E> {
    /// The highest number that is known.
    head: u64,
    writer: Writer,
    recent: RecentEvents<E>,
}

/// Who appends to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// Only this process, for now: nothing is missed, and nothing is polled.
    Here,
    /// Any process, or none.
    Anywhere,
    /// No process: this one wrote its end.
    Done,
}

/// What is known of a log without reading it.
pub(super) enum Known<E> {
    /// What follows.
    Events(Vec<E>),
    /// Nothing follows yet.
    Nothing,
    /// Something follows.
    Grown,
    /// Nothing is known to follow.
    Silent,
}

impl<E: LogEvent> Watchers<E> {
    pub(super) fn new(poll: Arc<Notify>) -> Self {
        let logs = Mutex::new(Logs { entries: HashMap::new(), idle: HashSet::new() });
        Self { logs, poll, closed: AtomicBool::new(false) }
    }

    /// The events of this log after number `after`: those that are there, and from then on each as it is written, here or by
    /// another node. Ends after the event that ends the log.
    ///
    /// An error is the last item: the store cannot be read, the log does not exist, or the engine shuts down.
    pub fn follow<S: LogSource<Event = E>>(
        self: &Arc<Self>,
        log: SagaId,
        source: S,
        after: u64,
    ) -> impl Stream<Item = Result<E, Error>> + Send + use<E, S> {
        LogStream::new(self.watch(log), source, after).into_stream()
    }

    /// Passes on what this process has just written to a log that other nodes may write too.
    pub fn notify(&self, log: SagaId, events: &[E]) {
        let Some(last) = events.last() else { return };
        if let Some(watched) = self.find(log) {
            watched.update(|newest| {
                newest.head = newest.head.max(last.seq());
                newest.recent.push(events.to_vec(), KEPT_OF_OTHERS);
            });
        }
    }

    /// A reader's place.
    pub(crate) fn watch(self: &Arc<Self>, log: SagaId) -> Watcher<E> {
        let watcher = self.enter(log);
        self.poll(log);
        watcher
    }

    /// The place of the one writer of a log, until it is [released](LogWriter::release).
    pub(crate) fn write(self: &Arc<Self>, log: SagaId) -> LogWriter<E> {
        let watcher = self.enter(log);
        watcher.log.newest().writer = Writer::Here;
        self.logs().idle.remove(&log);
        LogWriter(watcher)
    }

    fn enter(self: &Arc<Self>, log: SagaId) -> Watcher<E> {
        let mut logs = self.logs();
        let entry =
            logs.entries.entry(log).or_insert_with(|| Entry { log: Arc::new(WatchedLog::new()), users: 0 });
        entry.users += 1;
        Watcher { watchers: self.clone(), id: log, log: entry.log.clone() }
    }

    /// Has a log polled, if any process may write it.
    fn poll(&self, log: SagaId) {
        let mut logs = self.logs();
        let writer = logs.entries.get(&log).map(|entry| entry.log.newest().writer);
        if writer == Some(Writer::Anywhere) && logs.idle.insert(log) {
            self.poll.notify_one();
        }
    }

    fn find(&self, log: SagaId) -> Option<Arc<WatchedLog<E>>> {
        self.logs().entries.get(&log).map(|entry| entry.log.clone())
    }
}

impl<E> Watchers<E> {
    fn logs(&self) -> MutexGuard<'_, Logs<E>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: LogEvent> PolledLogs for Watchers<E> {
    fn idle(&self) -> Vec<SagaId> {
        self.logs().idle.iter().copied().collect()
    }

    fn advance(&self, log: SagaId, head: u64) {
        if let Some(watched) = self.find(log)
            && watched.newest().head < head
        {
            watched.update(|newest| newest.head = newest.head.max(head));
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let logs: Vec<_> = self.logs().entries.values().map(|entry| entry.log.clone()).collect();
        for log in logs {
            log.changed.notify_waiters();
        }
    }
}

impl<E> WatchedLog<E> {
    fn new() -> Self {
        let newest = Newest { head: 0, writer: Writer::Anywhere, recent: RecentEvents::default() };
        Self { newest: Mutex::new(newest), changed: Notify::new() }
    }

    fn newest(&self) -> MutexGuard<'_, Newest<E>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and wakes the readers.
    fn update(&self, change: impl FnOnce(&mut Newest<E>)) {
        change(&mut self.newest());
        self.changed.notify_waiters();
    }
}

/// A reader of a log.
pub(crate) struct Watcher<E> {
    watchers: Arc<Watchers<E>>,
    id: SagaId,
    log: Arc<WatchedLog<E>>,
}

impl<E: LogEvent> Watcher<E> {
    pub(super) fn id(&self) -> SagaId {
        self.id
    }

    /// What is known of the log after this number.
    pub(super) fn after(&self, seq: u64) -> Known<E> {
        let newest = self.log.newest();
        match newest.recent.after(seq) {
            Some(events) if !events.is_empty() => Known::Events(events),
            Some(_) if newest.writer == Writer::Here => Known::Nothing,
            _ if newest.head > seq => Known::Grown,
            _ => Known::Silent,
        }
    }

    /// Who can append to the log. A reader that waits although the log is at its end knows better: it was reopened.
    fn writer_of_more(&self) -> Writer {
        let mut newest = self.log.newest();
        let writer = newest.writer;
        if writer == Writer::Done {
            newest.writer = Writer::Anywhere;
            drop(newest);
            self.watchers.poll(self.id);
            return Writer::Anywhere;
        }
        writer
    }

    /// Waits until the log may go further than this number.
    ///
    /// # Errors
    /// When the engine shuts down and this process does not write the log.
    pub(crate) async fn beyond(&self, seq: u64) -> Result<(), Error> {
        let writer = self.writer_of_more();
        loop {
            // Before the look, so that no change is missed in between.
            let changed = self.log.changed.notified();
            {
                let newest = self.log.newest();
                if newest.head > seq || newest.writer != writer {
                    return Ok(());
                }
            }
            if writer != Writer::Here && self.watchers.closed.load(Ordering::Acquire) {
                return Err(Error::ShuttingDown);
            }
            changed.await;
        }
    }
}

impl<E> Drop for Watcher<E> {
    fn drop(&mut self) {
        let mut logs = self.watchers.logs();
        if let Some(entry) = logs.entries.get_mut(&self.id) {
            entry.users -= 1;
            if entry.users == 0 {
                logs.entries.remove(&self.id);
                logs.idle.remove(&self.id);
            }
        }
    }
}

/// The one writer of a log, in this process.
pub(crate) struct LogWriter<E>(Watcher<E>);

impl<E: LogEvent> LogWriter<E> {
    /// Passes on events that are on disk.
    pub(crate) fn wrote(&self, events: Vec<E>) {
        let Some(last) = events.last().map(LogEvent::seq) else { return };
        self.0.log.update(|newest| {
            newest.head = newest.head.max(last);
            newest.recent.push(events, KEPT_OF_WRITER);
        });
    }

    /// The log goes as far as this; its events were read, and written before.
    pub(crate) fn advanced_to(&self, seq: u64) {
        self.0.log.update(|newest| newest.head = newest.head.max(seq));
    }

    /// The first event, while it is kept.
    pub(crate) fn beginning(&self) -> Option<E> {
        self.0.log.newest().recent.beginning().cloned()
    }

    /// Writes no more: because the log is at its end, or because others may go on.
    pub(crate) fn release(&self, is_at_end: bool) {
        self.0.log.update(|newest| {
            newest.writer = if is_at_end { Writer::Done } else { Writer::Anywhere };
            if !is_at_end {
                newest.recent.clear();
            }
        });
        let Watcher { watchers, id, .. } = &self.0;
        let has_readers = || watchers.logs().entries.get(id).is_some_and(|entry| entry.users > 1);
        if !is_at_end && has_readers() {
            watchers.poll(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use backstitch_kernel::Timestamp;
    use backstitch_kernel::saga::{Event, Recorded};
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    const ONE: SagaId = SagaId(Uuid::from_u128(1));
    const OTHER: SagaId = SagaId(Uuid::from_u128(2));

    fn watchers() -> Arc<Watchers<Recorded>> {
        Arc::new(Watchers::new(Arc::default()))
    }

    fn event(seq: u64) -> Recorded {
        Recorded { seq, at: Timestamp::from_micros(0), event: Event::SagaSucceeded }
    }

    fn is_beyond(watcher: &Watcher<Recorded>, seq: u64) -> bool {
        watcher.beyond(seq).now_or_never().is_some()
    }

    fn events(known: Known<Recorded>) -> Option<Vec<u64>> {
        let Known::Events(events) = known else { return None };
        Some(events.iter().map(|event| event.seq).collect())
    }

    #[test]
    fn readers_are_woken_by_their_log_only() {
        let watchers = watchers();
        let (one, other) = (watchers.watch(ONE), watchers.watch(OTHER));
        watchers.notify(ONE, &[event(3)]);
        assert!(is_beyond(&one, 2) && !is_beyond(&one, 3));
        assert!(!is_beyond(&other, 0));
        assert_eq!(events(one.after(2)), Some(vec![3]), "without reading the log");
        assert!(matches!(one.after(1), Known::Grown), "number 2 is only in the log");
        assert!(matches!(other.after(0), Known::Silent));
    }

    #[test]
    fn logs_without_users_are_forgotten() {
        let watchers = watchers();
        let (one, same, writer) = (watchers.watch(ONE), watchers.watch(ONE), watchers.write(OTHER));
        drop((one, writer));
        assert_eq!(watchers.logs().entries.keys().copied().collect::<Vec<_>>(), [ONE]);
        assert_eq!(watchers.idle(), [ONE]);
        drop(same);
        assert!(watchers.logs().entries.is_empty() && watchers.idle().is_empty());
    }

    #[test]
    fn logs_that_this_process_writes_are_not_polled() {
        let watchers = watchers();
        let (reader, writer) = (watchers.watch(ONE), watchers.write(ONE));
        assert_eq!(watchers.idle(), []);
        writer.wrote(vec![event(1), event(2)]);
        assert_eq!(events(reader.after(0)), Some(vec![1, 2]));
        assert!(matches!(reader.after(2), Known::Nothing));
        writer.release(false);
        assert_eq!(watchers.idle(), [ONE]);
        assert!(matches!(reader.after(1), Known::Grown), "others may have written since");
        watchers.advance(ONE, 5);
        assert!(is_beyond(&reader, 4));
    }

    #[test]
    fn end_of_a_log_stays_readable_and_is_not_polled() {
        let watchers = watchers();
        let (reader, writer) = (watchers.watch(ONE), watchers.write(ONE));
        writer.wrote(vec![event(1)]);
        writer.release(true);
        drop(writer);
        assert_eq!(watchers.idle(), []);
        assert_eq!(events(reader.after(0)), Some(vec![1]));
        assert!(!is_beyond(&reader, 1));
        assert_eq!(watchers.idle(), [ONE], "a reader waits for more");
    }

    #[tokio::test]
    async fn shutdown_wakes_readers_of_logs_that_others_write() {
        let watchers = watchers();
        let (reader, writer) = (watchers.watch(ONE), watchers.write(OTHER));
        let own = watchers.watch(OTHER);
        let (read, ()) = tokio::join!(reader.beyond(0), async { watchers.close() });
        assert!(matches!(read, Err(Error::ShuttingDown)));
        assert!(!is_beyond(&own, 0), "what runs here is read to its end");
        writer.release(false);
        assert!(is_beyond(&own, 0));
    }
}
