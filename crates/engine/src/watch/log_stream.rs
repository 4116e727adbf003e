//! One log from a position on: what is in it, then each event as it is written.

use std::vec;

use futures::Stream;

use super::watchers::{Known, Watcher};
use super::{LogEnd, LogEvent as _, LogSource};
use crate::error::Error;

/// Events that are read at once.
const PAGE: usize = 256;

pub(super) struct LogStream<S: LogSource> {
    watcher: Watcher<S::Event>,
    source: S,
    /// The number of the newest event that the reader has.
    after: u64,
    /// The number of the newest event that was looked at, which begins one before the reader's: whether that one ended the
    /// log is seen from itself.
    position: u64,
    /// Whether there was an event of that number.
    has_position: bool,
    page: vec::IntoIter<S::Event>,
    /// Whether the log was read as far as it went, so that its readers are woken for all that follows.
    is_caught_up: bool,
    /// How the event at `position` ends the log.
    end: Option<LogEnd>,
}

impl<S: LogSource> LogStream<S> {
    /// The watcher was there before anything is read, so nothing is missed in between.
    pub(super) fn new(watcher: Watcher<S::Event>, source: S, after: u64) -> Self {
        let position = after.saturating_sub(1);
        let page = Vec::new().into_iter();
        Self { watcher, source, after, position, has_position: false, page, is_caught_up: false, end: None }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<S::Event, Error>> + Send + use<S> {
        futures::stream::unfold(Some(self), |stream| async move {
            let mut stream = stream?;
            let next = stream.next().await.transpose()?;
            // Nothing comes after an error.
            let stream = next.is_ok().then_some(stream);
            Some((next, stream))
        })
    }

    async fn next(&mut self) -> Result<Option<S::Event>, Error> {
        loop {
            for event in self.page.by_ref() {
                self.position = event.seq();
                self.has_position = true;
                self.end = self.source.end(&event);
                if self.position > self.after {
                    return Ok(Some(event));
                }
            }
            if self.end == Some(LogEnd::Final) {
                return Ok(None);
            }
            match self.watcher.after(self.position) {
                Known::Events(events) => {
                    // After an end, only the log knows whether it was reopened elsewhere.
                    self.is_caught_up &= events.iter().all(|event| self.source.end(event).is_none());
                    self.page = events.into_iter();
                }
                Known::Grown => self.read(true).await?,
                Known::Silent if !self.is_caught_up => self.read(false).await?,
                Known::Nothing | Known::Silent if self.end.is_some() => return Ok(None),
                Known::Nothing | Known::Silent => self.watcher.beyond(self.position).await?,
            }
        }
    }

    async fn read(&mut self, is_grown: bool) -> Result<(), Error> {
        let events = self.source.read(self.position, PAGE).await?;
        if events.is_empty() && (is_grown || self.position == 0) {
            return Err(Error::NotFound(self.watcher.id()));
        }
        if events.is_empty() && !self.has_position {
            // The log does not go as far as the reader says: it is read from its beginning, for its end.
            self.position = 0;
            return Ok(());
        }
        self.is_caught_up = events.len() < PAGE;
        self.page = events.into_iter();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use backstitch_kernel::saga::{Event, Recorded};
    use backstitch_kernel::{SagaId, StepError, Timestamp};
    use futures::{FutureExt as _, StreamExt as _};
    use uuid::Uuid;

    use super::super::Watchers;
    use super::super::poll::{PolledLogs as _, Polls};
    use super::*;
    use crate::store;

    const ID: SagaId = SagaId(Uuid::nil());

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<Recorded>>>);

    impl Log {
        fn append(&self, event: Event) -> Recorded {
            let mut log = self.0.lock().unwrap();
            let recorded = Recorded { seq: log.len() as u64 + 1, at: Timestamp::from_micros(0), event };
            log.push(recorded.clone());
            recorded
        }

        fn of(count: usize) -> Self {
            let log = Self::default();
            (0..count).for_each(|_| drop(log.append(paused())));
            log
        }
    }

    impl LogSource for Log {
        type Event = Recorded;

        async fn read(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, store::Error> {
            let log = self.0.lock().unwrap();
            Ok(log.iter().filter(|event| event.seq > after).take(limit).cloned().collect())
        }

        fn end(&self, event: &Recorded) -> Option<LogEnd> {
            match event.event {
                Event::SagaSucceeded => Some(LogEnd::Final),
                Event::SagaFailed { .. } => Some(LogEnd::Reopenable),
                _ => None,
            }
        }
    }

    fn paused() -> Event {
        Event::SagaPaused { note: String::new() }
    }

    fn failed() -> Event {
        Event::SagaFailed { step: "a".into(), error: StepError::refused("no") }
    }

    fn watchers() -> Arc<Watchers<Recorded>> {
        Polls::default().add()
    }

    type Events = futures::stream::BoxStream<'static, Result<Recorded, Error>>;

    /// The events that can be had without waiting, and whether the stream is at its end.
    fn ready(events: &mut Events) -> (Vec<u64>, bool) {
        let mut read = Vec::new();
        while let Some(next) = events.next().now_or_never() {
            match next {
                Some(event) => read.push(event.unwrap().seq),
                None => return (read, true),
            }
        }
        (read, false)
    }

    #[test]
    fn long_log_is_read_to_its_end() {
        let log = Log::of(PAGE + 1);
        log.append(Event::SagaSucceeded);
        let (read, is_over) = ready(&mut watchers().follow(ID, log, 1).boxed());
        assert_eq!((read.first(), read.len(), is_over), (Some(&2), PAGE + 1, true));
    }

    #[test]
    fn reader_that_has_the_end_gets_nothing() {
        let log = Log::of(1);
        log.append(failed());
        assert_eq!(ready(&mut watchers().follow(ID, log.clone(), 2).boxed()), (vec![], true));
        assert_eq!(ready(&mut watchers().follow(ID, log, 7).boxed()), (vec![], true), "or more than that");
    }

    #[test]
    fn gap_in_notifications_is_filled_from_the_log() {
        let (watchers, log) = (watchers(), Log::of(1));
        let mut events = watchers.follow(ID, log.clone(), 0).boxed();
        assert_eq!(ready(&mut events), (vec![1], false));
        log.append(paused());
        let third = log.append(paused());
        assert_eq!(ready(&mut events), (vec![], false), "it is not woken");
        watchers.notify(ID, &[third]);
        assert_eq!(ready(&mut events), (vec![2, 3], false));
        log.append(Event::SagaSucceeded);
        watchers.advance(ID, 4);
        assert_eq!(ready(&mut events), (vec![4], true));
    }

    #[test]
    fn log_that_is_reopened_goes_on() {
        let (watchers, log) = (watchers(), Log::of(1));
        let mut events = watchers.follow(ID, log.clone(), 0).boxed();
        assert_eq!(ready(&mut events), (vec![1], false));
        let failed = log.append(failed());
        watchers.notify(ID, &[failed]);
        log.append(paused());
        assert_eq!(ready(&mut events), (vec![2, 3], false), "another node has resumed it");
    }

    #[test]
    fn removed_log_ends_its_streams_with_an_error() {
        let (watchers, log) = (watchers(), Log::of(1));
        let mut events = watchers.follow(ID, log, 0).boxed();
        assert_eq!(ready(&mut events), (vec![1], false));
        watchers.advance(ID, super::super::watchers::REMOVED);
        let error = events.next().now_or_never().unwrap();
        assert!(matches!(error, Some(Err(Error::NotFound(ID)))));
        assert_eq!(ready(&mut events), (vec![], true));
    }
}
