//! Statuses of sagas and steps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; no step has started.
    Pending,
    /// Steps are running.
    Running,
    /// Every step succeeded.
    Succeeded,
    /// The rollback failed.
    Failed,
    /// Rolling back.
    Compensating,
    /// Everything that had to be undone is undone.
    Compensated,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Compensating, Self::Compensated];

    /// Its name in the database, in responses and filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether it is terminal: only a failed rollback can be resolved and continue.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Compensated)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    Pending,
    /// Its action waits for an outside worker.
    Waiting,
    /// Its action is running or waits for a retry.
    Running,
    /// Its action succeeded.
    Succeeded,
    /// Its action failed without effect.
    Failed,
    /// The outcome of its action is unknown.
    InDoubt,
    /// Its compensation is running or waits for a retry.
    Compensating,
    /// It is undone.
    Compensated,
    /// Its compensation failed.
    CompensationFailed,
    /// An operator skipped its compensation.
    Skipped,
}
