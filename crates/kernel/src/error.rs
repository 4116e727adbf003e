//! Errors of attempts, classified by what may follow.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Classifies a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No effect; a retry may succeed.
    Failed,
    /// The service refused: no effect, and a retry will not help.
    Refused,
    /// The outcome is unknown.
    InDoubt,
    /// No response in time, so the outcome is unknown.
    TimedOut,
    /// The step's code panicked, so the outcome is unknown.
    Panicked,
    /// The result cannot be stored (too large, not JSON). The step may have taken effect, and a retry would return the
    /// same result.
    Unusable,
    /// The node that ran the attempt is gone, so the outcome is unknown.
    Interrupted,
    /// An operator or a program requested the rollback.
    Cancelled,
    /// The saga's deadline passed.
    DeadlineExceeded,
}

impl ErrorKind {
    /// Whether the step may have taken effect.
    #[must_use]
    pub fn leaves_doubt(self) -> bool {
        match self {
            Self::InDoubt | Self::TimedOut | Self::Panicked | Self::Unusable | Self::Interrupted => true,
            Self::Failed | Self::Refused | Self::Cancelled | Self::DeadlineExceeded => false,
        }
    }

    /// Whether the action may be retried.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Refused | Self::Unusable)
    }
}

/// The error of a step or a saga, as stored in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// Its class.
    pub kind: ErrorKind,
    /// A stable code for programs, such as `CARD_DECLINED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The message for people.
    pub message: String,
    /// The service's `Retry-After`.
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

    /// No outside worker reported in time.
    pub(crate) fn unanswered_by_workers() -> Self {
        Self::new(ErrorKind::TimedOut, "no worker answered in time")
    }

    /// No outside worker leased the job within its queue timeout.
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

    /// The same error with a stable code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same error with the service's `Retry-After`.
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
