//! Where sagas and steps stand, in one word each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a saga stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; no step has started.
    Pending,
    /// Going forward.
    Running,
    /// Every step succeeded.
    Succeeded,
    /// The rollback could not be finished.
    Failed,
    /// Rolling back.
    Compensating,
    /// Everything that had to be undone is undone.
    Compensated,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Compensating, Self::Compensated];

    /// Its name in the database, in answers and filters.
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

    /// Whether it is an end: only a failed rollback can be taken up again, by a person.
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

/// Where a step stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    Pending,
    /// Its action waits for an outside worker.
    Waiting,
    /// Its action is in flight or waits for its next attempt.
    Running,
    /// Its action succeeded.
    Succeeded,
    /// Its action failed and left nothing behind.
    Failed,
    /// Nobody knows whether its action took effect.
    InDoubt,
    /// Its compensation is in flight or waits for its next attempt.
    Compensating,
    /// It is undone.
    Compensated,
    /// It could not be undone.
    CompensationFailed,
    /// A person decided to leave it undone.
    Skipped,
}
