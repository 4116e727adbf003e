//! Why an attempt did not succeed, in the terms that decide what happens next.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is known about an attempt that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Not done, and worth another try.
    Failed,
    /// The service said no: not done, and trying again will not help.
    Refused,
    /// Nobody knows whether it was done.
    InDoubt,
    /// No answer in time, so nobody knows whether it was done.
    TimedOut,
    /// The code of the step panicked half-way, so nobody knows whether it was done.
    Panicked,
    /// It answered, but with something that cannot be kept (too large, not JSON): it may well have been done, and
    /// trying again would bring the same answer.
    Unusable,
    /// The node that ran the attempt went away, so nobody knows whether it was done.
    Interrupted,
    /// A person or a program asked for the rollback.
    Cancelled,
    /// The saga was not finished by its deadline.
    DeadlineExceeded,
}

impl ErrorKind {
    /// Whether the step may have taken effect all the same.
    #[must_use]
    pub fn leaves_doubt(self) -> bool {
        match self {
            Self::InDoubt | Self::TimedOut | Self::Panicked | Self::Unusable | Self::Interrupted => true,
            Self::Failed | Self::Refused | Self::Cancelled | Self::DeadlineExceeded => false,
        }
    }

    /// Whether an action may be tried again after it.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Refused | Self::Unusable)
    }
}

/// An error of a step, or of a saga, as it is kept in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// What is known.
    pub kind: ErrorKind,
    /// A code that programs can tell apart, such as `CARD_DECLINED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What people read.
    pub message: String,
    /// The service asked not to be called again sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

impl StepError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: None, message: message.into(), retry_after: None }
    }

    /// The attempt had no effect, and another one may succeed: the step is retried, and is not compensated.
    #[must_use]
    pub fn not_done(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// No outside worker answered in time.
    pub(crate) fn unanswered_by_workers() -> Self {
        Self::new(ErrorKind::TimedOut, "no worker answered in time")
    }

    /// No outside worker took the job within its queue timeout.
    pub(crate) fn not_taken_by_workers() -> Self {
        Self::not_done("no worker took the job within its queue timeout").with_code("QUEUE_TIMEOUT")
    }

    /// The service refused the request, so the attempt had no effect: the step is neither retried nor compensated.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// The outcome is unknown, for example after a lost connection: the step is retried, and compensated if no attempt
    /// succeeds.
    #[must_use]
    pub fn in_doubt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InDoubt, message)
    }

    /// The same error with a code that programs can tell apart.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same error with the service's wish not to be called again sooner.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for StepError {}
