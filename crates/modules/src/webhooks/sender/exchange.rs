//! What came of an attempt.

use std::time::Duration;

use backstitch::delivery::limiter::Verdict;
use backstitch::kernel::delivery::Outcome;

use super::Answer;
use super::failure::{Failure, code};

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Whether the receiver has it. The status alone decides: whoever answered 2xx has it, although the body of the
    /// answer may break off or not end in time.
    pub outcome: Outcome,
    /// Why not, for people.
    pub error: Option<String>,
    /// The status, if one came.
    pub status: Option<u16>,
    /// How the body of the answer begins, as text and without NUL.
    pub body_start: String,
    /// How long the attempt took.
    pub duration: Duration,
    /// The receiver says that it wants no more webhooks, ever (410).
    pub gone: bool,
    /// Nothing was sent: there was not even a connection.
    pub unsent: bool,
}

impl Exchange {
    pub(super) fn of(answered: Result<Answer, Failure>, duration: Duration) -> Self {
        let unsent = answered.as_ref().is_err_and(|failure| failure.is_unsent);
        let (outcome, error, answer) = match answered {
            Ok(answer) => {
                let failure = Failure::of_status(answer.status);
                let (outcome, error) = failed(failure, answer.retry_after);
                (outcome, error, Some(answer))
            }
            Err(failure) => {
                let (outcome, error) = failed(Some(failure), None);
                (outcome, error, None)
            }
        };
        let status = answer.as_ref().map(|answer| answer.status);
        let body_start = answer.map(|answer| answer.body_start).unwrap_or_default();
        Self { outcome, error, status, body_start, duration, gone: status.is_some_and(is_gone), unsent }
    }

    /// Why the receiver does not have it, for programs; see [`code`].
    #[must_use]
    pub fn error_code(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Arrived => None,
            Outcome::Failed { code, .. } => Some(code),
        }
    }

    /// How long the receiver asked to wait before this event comes again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.outcome {
            Outcome::Arrived => None,
            Outcome::Failed { retry_after, .. } => *retry_after,
        }
    }

    /// How long the receiver wants to be left alone: all of it, and not only with this event.
    #[must_use]
    pub fn quiet_for(&self) -> Option<Duration> {
        self.retry_after().filter(|_| self.status.is_some_and(wants_quiet))
    }

    /// What the attempt tells about the endpoint. One that refuses this very event is there and does its work.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.error_code() {
            None => Verdict::Healthy,
            Some(code::NO_SECRET | code::BAD_REQUEST) => Verdict::Unknown,
            Some(_) if self.status.is_some_and(refuses_one_event) => Verdict::Healthy,
            Some(_) => Verdict::Failing,
        }
    }
}

/// Whoever answers so is there and does its work: it is this event that it does not want.
pub(in crate::webhooks) fn refuses_one_event(status: u16) -> bool {
    matches!(status, 400 | 409 | 413 | 415 | 422)
}

/// Whoever answers so can ask to be left alone as a whole.
pub(in crate::webhooks) fn wants_quiet(status: u16) -> bool {
    matches!(status, 429 | 503)
}

/// Whoever answers so wants no more webhooks, ever.
pub(in crate::webhooks) fn is_gone(status: u16) -> bool {
    status == 410
}

fn failed(failure: Option<Failure>, retry_after: Option<Duration>) -> (Outcome, Option<String>) {
    match failure {
        None => (Outcome::Arrived, None),
        Some(Failure { code, message, .. }) => {
            (Outcome::Failed { code: code.into_owned(), retry_after }, Some(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Exchange {
        let retry_after = Some(Duration::from_secs(7));
        Exchange::of(Ok(Answer { status, retry_after, body_start: String::new() }), Duration::ZERO)
    }

    #[test]
    fn every_status_is_a_success_or_has_its_code() {
        for status in 200..300 {
            assert_eq!(answered(status).outcome, Outcome::Arrived, "{status}");
        }
        for (status, code) in [
            (101, "protocol"),
            (301, "redirect"),
            (304, "redirect"),
            (308, "redirect"),
            (400, "http_400"),
            (404, "http_404"),
            (410, "http_410"),
            (429, "http_429"),
            (500, "http_500"),
            (599, "http_599"),
            (999, "http_999"),
        ] {
            let exchange = answered(status);
            assert_eq!(exchange.error_code(), Some(code), "{status}");
            assert_eq!((exchange.status, exchange.gone), (Some(status), status == 410));
        }
    }

    #[test]
    fn only_who_is_busy_is_left_alone_as_a_whole() {
        for status in [429, 503] {
            assert_eq!(answered(status).quiet_for(), Some(Duration::from_secs(7)), "{status}");
        }
        for status in [200, 302, 400, 500] {
            assert_eq!(answered(status).quiet_for(), None, "{status}");
        }
    }

    #[test]
    fn a_refusal_of_one_event_says_nothing_against_the_endpoint() {
        for (status, verdict) in [
            (204, Verdict::Healthy),
            (302, Verdict::Failing),
            (400, Verdict::Healthy),
            (401, Verdict::Failing),
            (404, Verdict::Failing),
            (410, Verdict::Failing),
            (422, Verdict::Healthy),
            (429, Verdict::Failing),
            (500, Verdict::Failing),
        ] {
            assert_eq!(answered(status).verdict(), verdict, "{status}");
        }
        let late = Exchange::of(Err(Failure::late(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!((late.verdict(), late.status), (Verdict::Failing, None));
        let ours = Exchange::of(Err(Failure::unsigned()), Duration::ZERO);
        assert_eq!(ours.verdict(), Verdict::Unknown, "it was never asked");
    }
}
