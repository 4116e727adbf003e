//! From when on something is worth a word of the doctor.

use std::time::Duration;

use backstitch::STUCK_AFTER;
use serde::{Deserialize, Serialize};

use super::text;

/// The shortest time between two looks: each costs the database some questions.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// From when on something is worth a word of the doctor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Doctor {
    /// How often is looked for the metric.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// How long a saga may be active with nothing due, a webhook be due and a message not be out.
    #[serde(with = "text::duration")]
    pub stuck_after: Duration,
    /// How long a job may wait for a worker, and an attempt for room at a host or a step.
    #[serde(with = "text::duration")]
    pub queued_after: Duration,
    /// How long what is due, or was left behind, may lie before somebody takes it.
    #[serde(with = "text::duration")]
    pub unclaimed_after: Duration,
    /// How long an alert may take to reach everybody.
    #[serde(with = "text::duration")]
    pub undelivered_after: Duration,
    /// How far the clocks of node and database may be apart.
    #[serde(with = "text::duration")]
    pub clock_skew: Duration,
    /// A node whose clock is further from the database's is not ready.
    #[serde(with = "text::duration")]
    pub max_clock_skew: Duration,
    /// How long the write-ahead log of a `SQLite` file may be.
    pub wal_bytes: u64,
    /// Less room than this on the disk of a `SQLite` file is a warning.
    pub disk_warning_bytes: u64,
    /// And a smaller part of the disk than this.
    pub disk_warning_percent: u64,
    /// Less room than this is an error.
    pub disk_error_bytes: u64,
    /// And a smaller part of the disk than this.
    pub disk_error_percent: u64,
}

impl Default for Doctor {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            stuck_after: STUCK_AFTER,
            queued_after: Duration::from_secs(60),
            unclaimed_after: Duration::from_secs(120),
            undelivered_after: Duration::from_secs(300),
            clock_skew: Duration::from_secs(1),
            max_clock_skew: Duration::from_secs(60),
            wal_bytes: 256 << 20,
            disk_warning_bytes: 1 << 30,
            disk_warning_percent: 10,
            disk_error_bytes: 100 << 20,
            disk_error_percent: 1,
        }
    }
}

impl Doctor {
    /// Everything that could not work.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.interval < SHORTEST_INTERVAL {
            mistakes.push("doctor.interval must be at least 1s".to_owned());
        }
        for (name, percent) in [
            ("disk_warning_percent", self.disk_warning_percent),
            ("disk_error_percent", self.disk_error_percent),
        ] {
            if percent > 100 {
                mistakes.push(format!("doctor.{name} must be at most 100"));
            }
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(Doctor::default().mistakes().is_empty());
        let wrong = Doctor { interval: Duration::ZERO, disk_error_percent: 101, ..Doctor::default() };
        assert_eq!(
            wrong.mistakes(),
            ["doctor.interval must be at least 1s", "doctor.disk_error_percent must be at most 100"]
        );
    }
}
