//! What a connection is busy with, and when patience with it ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use tokio::time::{Instant, Sleep};

use super::socket::Held;
use super::version::Version;
use crate::config::Limits;

/// What a connection is busy with.
pub(super) struct Activity(Mutex<State>);

struct State {
    phase: Phase,
    /// Something has arrived besides the request that is being answered, or may have.
    more: bool,
    long_answer: LongAnswer,
    /// On HTTP/2 bytes between requests are no sign of a request to come.
    multiplexed: bool,
}

/// An answer that is to be written elsewhere.
enum LongAnswer {
    /// There is none.
    None,
    /// Its head is on its way out.
    Asked(Body),
    /// The rest can be written.
    Ready(Held, Body),
}

#[derive(Clone, Copy)]
enum Phase {
    /// No request.
    Idle { since: Instant },
    /// Part of a request's head is there, or about to come.
    Head { since: Instant },
    /// So many requests are being answered.
    Busy { requests: usize },
}

impl Activity {
    /// A connection that was opened then.
    pub(super) fn new(version: Version, since: Instant) -> Arc<Self> {
        let multiplexed = version == Version::Http2;
        let phase = if multiplexed { Phase::Idle { since } } else { Phase::Head { since } };
        Arc::new(Self(Mutex::new(State { phase, more: false, long_answer: LongAnswer::None, multiplexed })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes have arrived.
    pub(super) fn received(&self, bytes: &[u8]) {
        let mut state = self.state();
        let is_busy = matches!(state.phase, Phase::Busy { .. });
        state.more = is_busy || !ends_with_its_head(bytes);
        if matches!(state.phase, Phase::Idle { .. }) && !state.multiplexed {
            state.phase = Phase::Head { since: Instant::now() };
        }
    }

    /// A request is complete up to its body; it is being answered until the guard is dropped.
    pub(super) fn answering(self: &Arc<Self>) -> Answering {
        let mut state = self.state();
        state.phase = match state.phase {
            Phase::Busy { requests } => Phase::Busy { requests: requests + 1 },
            _ => Phase::Busy { requests: 1 },
        };
        Answering(self.clone())
    }

    /// Has the answer to the one request at hand written elsewhere, once its head is out; gives it back where that cannot
    /// be, because hyper has read part of another request.
    pub(super) fn write_elsewhere(&self, body: Body) -> Result<(), Body> {
        let mut state = self.state();
        if state.multiplexed || state.more {
            return Err(body);
        }
        state.long_answer = LongAnswer::Asked(body);
        Ok(())
    }

    pub(super) fn goes_on_elsewhere(&self) -> bool {
        !matches!(self.state().long_answer, LongAnswer::None)
    }

    /// The head is out.
    pub(super) fn hand_over(&self, held: Held) {
        let mut state = self.state();
        state.long_answer = match std::mem::replace(&mut state.long_answer, LongAnswer::None) {
            LongAnswer::Asked(body) => LongAnswer::Ready(held, body),
            other => other,
        };
    }

    /// Waits for an answer whose rest can be written. To be polled after the connection, by the same task.
    pub(super) async fn long_answer(&self) -> (Held, Body) {
        poll_fn(|_| {
            let mut state = self.state();
            match std::mem::replace(&mut state.long_answer, LongAnswer::None) {
                LongAnswer::Ready(held, body) => Poll::Ready((held, body)),
                other => {
                    state.long_answer = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// When patience ends; `None` while something is being answered.
    fn due(&self, limits: &Limits) -> Option<Instant> {
        match self.state().phase {
            Phase::Head { since } => Some(since + limits.header_timeout),
            Phase::Idle { since } => Some(since + limits.idle_timeout),
            Phase::Busy { .. } => None,
        }
    }
}

/// Whether the head that ends in these bytes, as an empty line, ends with them. Its lines may end without a carriage
/// return. Bytes that begin with the end of a line may hold the rest of the empty line, and what follows may be anything.
fn ends_with_its_head(bytes: &[u8]) -> bool {
    let after_an_empty_line = |at: usize| match &bytes[at + 1..] {
        [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => Some(rest),
        _ => None,
    };
    let line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    !matches!(bytes.first(), Some(b'\r' | b'\n'))
        && line_ends.into_iter().find_map(after_an_empty_line).is_some_and(<[u8]>::is_empty)
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.phase = match state.phase {
            Phase::Busy { requests } if requests > 1 => Phase::Busy { requests: requests - 1 },
            _ => Phase::Idle { since: Instant::now() },
        };
    }
}

/// Ends when patience with a connection does. It is polled together with the connection, by the one task in which the
/// activity changes, so nobody has to wake it.
pub(super) struct Patience {
    activity: Arc<Activity>,
    limits: Arc<Limits>,
    sleep: Pin<Box<Sleep>>,
}

impl Patience {
    pub(super) fn new(activity: Arc<Activity>, limits: Arc<Limits>) -> Self {
        let sleep = Box::pin(tokio::time::sleep(limits.header_timeout));
        Self { activity, limits, sleep }
    }
}

impl Future for Patience {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let due = self.activity.due(&self.limits);
            // A timer that goes off too early costs less than one that is set anew for every request.
            if let Some(due) = due
                && due < self.sleep.deadline()
            {
                self.sleep.as_mut().reset(due);
            }
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            match due {
                Some(due) if due <= now => return Poll::Ready(()),
                Some(due) => self.sleep.as_mut().reset(due),
                None => {
                    let later = now + self.limits.idle_timeout;
                    self.sleep.as_mut().reset(later);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn connection() -> (Arc<Activity>, Patience) {
        connection_of(Version::Http1)
    }

    fn connection_of(version: Version) -> (Arc<Activity>, Patience) {
        let activity = Activity::new(version, Instant::now());
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            ..Limits::default()
        };
        (activity.clone(), Patience::new(activity, Arc::new(limits)))
    }

    async fn ends_after(patience: Patience) -> u64 {
        let began = Instant::now();
        patience.await;
        began.elapsed().as_secs()
    }

    #[test]
    fn only_a_head_with_nothing_after_it_is_one() {
        for alone in ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "GET / HTTP/1.1\nhost: x\n\n", "st: x\r\n\r\n"] {
            assert!(ends_with_its_head(alone.as_bytes()), "{alone:?}");
        }
        for with_more in [
            "GET / HTTP/1.1\r\n\r\nG",
            "GET / HTTP/1.1\n\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            // The first head ended in what came before.
            "\nGET / HTTP/1.1\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "\r\n",
            "GET / HT",
        ] {
            assert!(!ends_with_its_head(with_more.as_bytes()), "{with_more:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_not_written_elsewhere_while_another_request_is_there() {
        let head = b"GET / HTTP/1.1\r\n\r\n";
        let (activity, _) = connection();
        activity.received(head);
        let answering = activity.answering();
        assert!(activity.write_elsewhere(Body::empty()).is_ok());
        activity.received(head);
        assert!(activity.write_elsewhere(Body::empty()).is_err(), "it came meanwhile");
        drop(answering);
        assert!(activity.write_elsewhere(Body::empty()).is_err(), "it is being answered now");
        activity.received(head);
        assert!(activity.write_elsewhere(Body::empty()).is_ok(), "the next one came by itself");
        let (multiplexed, _) = connection_of(Version::Http2);
        assert!(multiplexed.write_elsewhere(Body::empty()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_no_more_is_given_up_like_a_slow_head() {
        let (_, patience) = connection();
        assert_eq!(ends_after(patience).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_in_is_given_up_however_many_bytes_come() {
        let (activity, patience) = connection();
        activity.received(b"GET");
        activity.received(b"GET");
        assert_eq!(ends_after(patience).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_for_longer_than_a_slow_head() {
        let (activity, patience) = connection();
        activity.received(b"GET");
        drop(activity.answering());
        assert_eq!(ends_after(patience).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_head_has_its_own_time() {
        let (activity, patience) = connection();
        activity.received(b"GET");
        drop(activity.answering());
        activity.received(b"GET");
        assert_eq!(ends_after(patience).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_as_long_as_it_takes() {
        let (activity, mut patience) = connection();
        let one = activity.answering();
        let other = activity.answering();
        drop(one);
        let an_hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(an_hour, &mut patience).await.is_err());
        drop(other);
        assert_eq!(ends_after(patience).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_between_requests_do_not_end_an_http_2_connection_early() {
        let (activity, patience) = connection_of(Version::Http2);
        drop(activity.answering());
        activity.received(b"GET");
        assert_eq!(ends_after(patience).await, 60);
    }
}
