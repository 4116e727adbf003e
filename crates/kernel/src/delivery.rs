//! Delivery of one message to one destination: it completes or becomes a dead letter.
//!
//! Webhook deliveries (seed 000) and messages of the outbox (seed 003) share this machine. An attempt is a job, and its
//! result is reported under the job's number, so a repeated report, or one about an abandoned attempt, changes nothing.

use std::time::Duration;

use crate::retry::{Backoff, Retry};
use crate::time::Timestamp;

/// The status of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// No attempt has been made, and none is running.
    Pending,
    /// An attempt is running.
    InProgress,
    /// The last attempt failed; the next one waits for its backoff.
    PendingRetry,
    /// The receiver has the message.
    Completed,
    /// No further attempts: a dead letter.
    DeadLettered,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::InProgress, Self::PendingRetry, Self::Completed, Self::DeadLettered];

    /// Whether the status is final.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::DeadLettered)
    }
}

/// The state of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its status.
    pub status: Status,
    /// Results counted so far, a success included.
    pub attempt_count: u32,
    /// The earliest time of the next attempt.
    pub next_attempt_at: Timestamp,
    /// The job of the newest attempt; 0 before the first.
    pub job: i64,
    /// The error code of the last failure; none after a success.
    pub final_error_code: Option<String>,
}

/// How often and when a delivery is attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Total attempts; none means unlimited.
    pub max_attempts: Option<u32>,
    /// The backoff between attempts.
    pub retry: Retry,
    /// The longest delay that a receiver may request.
    pub max_delay: Duration,
}

/// An input to a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Starts the next attempt as this job, if it is due.
    Wake {
        /// The job of the next attempt.
        job: i64,
    },
    /// An attempt has a result.
    Reported {
        /// The attempt.
        job: i64,
        /// Its result.
        outcome: Outcome,
    },
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has the message.
    Arrived,
    /// The attempt failed, or its outcome is unknown.
    Failed {
        /// A stable error code, such as `http_503`.
        code: String,
        /// The receiver's `Retry-After`.
        retry_after: Option<Duration>,
    },
}

/// The error code of a delivery that expired before it was sent.
pub const EXPIRED: &str = "EXPIRED";

/// Why an input changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The delivery has ended.
    #[error("the delivery has ended: nothing changes it any more")]
    Ended,
    /// An attempt is running.
    #[error("an attempt is running; only one runs at a time")]
    UnderWay,
    /// The backoff has not passed.
    #[error("the next attempt is not due yet")]
    NotDue,
    /// The report is about another attempt than the running one.
    #[error("the report is about another attempt, which was abandoned or already has a result")]
    NotThisAttempt,
}

/// Decides the next state of a delivery.
///
/// # Errors
/// When the input changes nothing.
pub fn decide(
    delivery: &Delivery,
    input: Input,
    policy: &Policy,
    seed: u64,
    now: Timestamp,
) -> Result<Delivery, Rejected> {
    match (delivery.status, input) {
        (Status::Completed | Status::DeadLettered, _) => Err(Rejected::Ended),
        (Status::Pending | Status::PendingRetry, Input::Wake { .. }) if delivery.next_attempt_at > now => {
            Err(Rejected::NotDue)
        }
        (Status::Pending | Status::PendingRetry, Input::Wake { job }) => Ok(attempted(delivery, job, policy)),
        (Status::InProgress, Input::Wake { .. }) => Err(Rejected::UnderWay),
        (Status::InProgress, Input::Reported { job, .. }) if job != delivery.job => {
            Err(Rejected::NotThisAttempt)
        }
        (Status::InProgress, Input::Reported { outcome: Outcome::Arrived, .. }) => Ok(Delivery {
            status: Status::Completed,
            attempt_count: delivery.attempt_count.saturating_add(1),
            final_error_code: None,
            ..delivery.clone()
        }),
        (Status::InProgress, Input::Reported { outcome: Outcome::Failed { code, retry_after }, .. }) => {
            Ok(failed(delivery, code, retry_after, policy, seed, now))
        }
        (Status::Pending | Status::PendingRetry, Input::Reported { .. }) => Err(Rejected::NotThisAttempt),
    }
}

/// Starts the next attempt, unless the limit was lowered meanwhile.
fn attempted(delivery: &Delivery, job: i64, policy: &Policy) -> Delivery {
    if policy.is_exhausted(delivery.attempt_count) {
        return Delivery { status: Status::DeadLettered, ..delivery.clone() };
    }
    Delivery { status: Status::InProgress, job, ..delivery.clone() }
}

fn failed(
    delivery: &Delivery,
    code: String,
    retry_after: Option<Duration>,
    policy: &Policy,
    seed: u64,
    now: Timestamp,
) -> Delivery {
    let attempt_count = delivery.attempt_count.saturating_add(1);
    let status = if policy.is_exhausted(attempt_count) { Status::DeadLettered } else { Status::PendingRetry };
    let next_attempt_at = match status {
        Status::DeadLettered => delivery.next_attempt_at,
        _ => now.plus(policy.wait(attempt_count, retry_after, seed)),
    };
    Delivery { status, attempt_count, next_attempt_at, final_error_code: Some(code), ..delivery.clone() }
}

impl Policy {
    /// `base_delay * 2^(attempt_count - 1)`, at most `max_delay`, for so many attempts.
    #[must_use]
    pub fn exponential(max_attempts: u32, base_delay: Duration, max_delay: Duration) -> Self {
        let retry = Retry::exponential(max_attempts.saturating_sub(1), base_delay).with_cap(max_delay);
        Self { max_attempts: Some(max_attempts), retry, max_delay }
    }

    /// The listed waits in turn, for this many attempts; the last wait repeats.
    #[must_use]
    pub fn after_each(max_attempts: Option<u32>, waits: Vec<Duration>) -> Self {
        let max_delay = waits.iter().max().copied().unwrap_or(Duration::ZERO);
        let count = max_attempts.map_or(u32::MAX, |attempts| attempts.saturating_sub(1));
        let retry = Retry { count, backoff: Backoff::List(waits), jitter_percent: 0, within: None };
        Self { max_attempts, retry, max_delay }
    }

    fn is_exhausted(&self, attempt_count: u32) -> bool {
        self.max_attempts.is_some_and(|limit| attempt_count >= limit)
    }

    /// The wait after this failure. A receiver may ask for more time, up to the longest delay, and never for less.
    fn wait(&self, attempt_count: u32, retry_after: Option<Duration>, seed: u64) -> Duration {
        let asked = retry_after.unwrap_or(Duration::ZERO).min(self.max_delay);
        self.retry.wait(attempt_count, seed).max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn policy() -> Policy {
        Policy::exponential(3, secs(5), secs(12))
    }

    fn delivery(status: Status) -> Delivery {
        Delivery { status, attempt_count: 0, next_attempt_at: NOW, job: 7, final_error_code: None }
    }

    fn failure(code: &str, retry_after: Option<Duration>) -> Outcome {
        Outcome::Failed { code: code.to_owned(), retry_after }
    }

    fn reported(job: i64, outcome: Outcome) -> Input {
        Input::Reported { job, outcome }
    }

    fn inputs() -> Vec<Input> {
        vec![
            Input::Wake { job: 8 },
            reported(7, Outcome::Arrived),
            reported(7, failure("http_500", None)),
            reported(6, Outcome::Arrived),
        ]
    }

    fn becomes(status: Status, input: Input) -> Result<Status, Rejected> {
        decide(&delivery(status), input, &policy(), 0, NOW).map(|next| next.status)
    }

    #[test]
    fn every_input_has_an_answer_in_every_status() {
        use Rejected::{Ended, NotThisAttempt, UnderWay};
        use Status::{Completed, DeadLettered, InProgress, Pending, PendingRetry};
        let waiting = [Ok(InProgress), Err(NotThisAttempt), Err(NotThisAttempt), Err(NotThisAttempt)];
        let under_way = [Err(UnderWay), Ok(Completed), Ok(PendingRetry), Err(NotThisAttempt)];
        for (status, expected) in [
            (Pending, waiting),
            (PendingRetry, waiting),
            (InProgress, under_way),
            (Completed, [Err(Ended); 4]),
            (DeadLettered, [Err(Ended); 4]),
        ] {
            let found: Vec<_> = inputs().into_iter().map(|input| becomes(status, input)).collect();
            assert_eq!(found, expected, "{status:?}");
        }
    }

    #[test]
    fn two_statuses_are_terminal() {
        let terminal: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
        assert_eq!(terminal, [Status::Completed, Status::DeadLettered]);
    }

    #[test]
    fn nothing_is_attempted_before_its_time() {
        for status in [Status::Pending, Status::PendingRetry] {
            let waiting =
                Delivery { next_attempt_at: NOW.plus(Duration::from_micros(1)), ..delivery(status) };
            let early = decide(&waiting, Input::Wake { job: 8 }, &policy(), 0, NOW);
            assert_eq!(early, Err(Rejected::NotDue));
            let due =
                decide(&waiting, Input::Wake { job: 8 }, &policy(), 0, waiting.next_attempt_at).unwrap();
            assert_eq!((due.status, due.job, due.attempt_count), (Status::InProgress, 8, 0));
        }
    }

    #[test]
    fn attempts_are_counted_and_waits_double_up_to_the_longest() {
        let mut delivery = delivery(Status::InProgress);
        let policy = Policy::exponential(9, secs(5), secs(12));
        for (count, wait) in [(1, 5), (2, 10), (3, 12), (4, 12)] {
            delivery = decide(&delivery, reported(7, failure("http_503", None)), &policy, 0, NOW).unwrap();
            assert_eq!((delivery.status, delivery.attempt_count), (Status::PendingRetry, count));
            assert_eq!(delivery.next_attempt_at, NOW.plus(secs(wait)));
            assert_eq!(delivery.final_error_code.as_deref(), Some("http_503"));
            delivery.status = Status::InProgress;
        }
    }

    #[test]
    fn last_failure_ends_the_delivery_and_keeps_its_error() {
        let last = Delivery { attempt_count: 2, ..delivery(Status::InProgress) };
        let ended = decide(&last, reported(7, failure("timeout", None)), &policy(), 0, NOW).unwrap();
        assert_eq!((ended.status, ended.attempt_count), (Status::DeadLettered, 3));
        assert_eq!(ended.final_error_code.as_deref(), Some("timeout"));
        assert_eq!(ended.next_attempt_at, NOW, "nothing comes next");
    }

    #[test]
    fn a_success_counts_and_clears_the_error() {
        let second = Delivery {
            attempt_count: 1,
            final_error_code: Some("http_500".to_owned()),
            ..delivery(Status::InProgress)
        };
        let arrived = decide(&second, reported(7, Outcome::Arrived), &policy(), 0, NOW).unwrap();
        assert_eq!((arrived.status, arrived.attempt_count), (Status::Completed, 2));
        assert_eq!(arrived.final_error_code, None);
        assert_eq!(arrived.next_attempt_at, second.next_attempt_at);
    }

    #[test]
    fn receiver_may_delay_the_next_attempt_up_to_the_limit() {
        let after = |asked: u64| {
            let input = reported(7, failure("http_429", Some(secs(asked))));
            decide(&delivery(Status::InProgress), input, &policy(), 0, NOW).unwrap().next_attempt_at
        };
        assert_eq!(after(1), NOW.plus(secs(5)));
        assert_eq!(after(8), NOW.plus(secs(8)));
        assert_eq!(after(99), NOW.plus(secs(12)));
    }

    #[test]
    fn lowered_limit_ends_a_waiting_delivery_when_it_is_due() {
        for (count, status) in [(2, Status::InProgress), (3, Status::DeadLettered), (4, Status::DeadLettered)]
        {
            let waiting = Delivery { attempt_count: count, ..delivery(Status::PendingRetry) };
            let woken = decide(&waiting, Input::Wake { job: 8 }, &policy(), 0, NOW).unwrap();
            assert_eq!((woken.status, woken.attempt_count), (status, count));
        }
    }

    #[test]
    fn last_listed_wait_repeats_without_a_limit() {
        let policy = Policy::after_each(None, vec![secs(5), secs(10)]);
        let mut delivery = delivery(Status::InProgress);
        for wait in [5, 10, 10, 10] {
            delivery = decide(&delivery, reported(7, failure("refused", None)), &policy, 0, NOW).unwrap();
            assert_eq!(
                (delivery.status, delivery.next_attempt_at),
                (Status::PendingRetry, NOW.plus(secs(wait)))
            );
            delivery.status = Status::InProgress;
        }
        let limited = Policy::after_each(Some(2), vec![secs(5)]);
        let second = Delivery { attempt_count: 1, ..super::tests::delivery(Status::InProgress) };
        let ended = decide(&second, reported(7, failure("refused", None)), &limited, 0, NOW).unwrap();
        assert_eq!(ended.status, Status::DeadLettered);
    }

    #[test]
    fn jitter_spreads_deliveries_and_is_the_same_each_time() {
        let mut policy = policy();
        policy.retry = policy.retry.with_jitter(50);
        let due = |seed: u64| {
            let input = reported(7, failure("timeout", None));
            decide(&delivery(Status::InProgress), input, &policy, seed, NOW).unwrap().next_attempt_at
        };
        assert_eq!(due(1), due(1));
        assert_ne!(due(1), due(2));
    }
}
