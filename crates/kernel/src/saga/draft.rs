//! A definition as written, before validation.

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::mistakes::{
    MAX_CALL_LEN, MAX_DURATION, MAX_ID_LEN, MAX_RETRIES, MAX_TITLE_LEN, Problem, Problems, retry_problems,
};
use crate::payload::Payload;
pub use crate::performer::Performer;
use crate::retry::Retry;
use crate::time::text;

/// The default time limit of an action's attempt.
pub const DEFAULT_STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// The default time limit of a compensation's attempt.
pub const DEFAULT_COMPENSATION_TIMEOUT: Duration = Duration::from_secs(120);
/// The most steps a definition may have.
pub const MAX_STEPS: usize = 500;
/// The largest metadata, in bytes of JSON.
pub const MAX_METADATA_LEN: usize = 16 * 1024;

/// The default retry policy of an action: two retries, 5 s apart.
#[must_use]
pub fn default_retry() -> Retry {
    Retry::fixed(2, Duration::from_secs(5))
}

/// The default retry policy of a compensation: five retries, from 1 s up to a minute apart.
#[must_use]
pub fn default_compensation_retry() -> Retry {
    Retry::exponential(5, Duration::from_secs(1)).with_cap(Duration::from_secs(60))
}

/// A definition before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default = "one")]
    pub version: u32,
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Any JSON of its author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Payload>,
    /// Whether the other compensations still run after one has run out of retries.
    #[serde(default)]
    pub continue_on_compensation_failure: bool,
    /// How many compensations may run at once.
    #[serde(default = "one_at_a_time")]
    pub compensation_concurrency: usize,
    /// Whether a hook is called when a saga succeeded.
    #[serde(default)]
    pub on_success: bool,
    /// Whether a hook is called when a saga was rolled back or its rollback failed.
    #[serde(default)]
    pub on_failure: bool,
    /// The steps, by default in sequence.
    pub steps: Vec<DraftStep>,
}

/// A step before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftStep {
    /// Its id, unique in its definition.
    pub id: String,
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The steps that must succeed first; `None` means the previous step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    /// Who performs its action.
    #[serde(default, skip_serializing_if = "Performer::is_code")]
    pub action: Performer,
    /// Time limit of one attempt; for an outside worker from its lease on.
    #[serde(default = "default_step_timeout", with = "text")]
    pub timeout: Duration,
    /// How long it may wait for an outside worker; none means no limit.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Duration>,
    /// The retry policy.
    #[serde(default = "default_retry")]
    pub retry: Retry,
    /// How it is undone; none without a compensation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<DraftCompensation>,
    /// Concurrent attempts per engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// A compensation before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftCompensation {
    /// Who performs it.
    #[serde(default, skip_serializing_if = "Performer::is_code")]
    pub action: Performer,
    /// Time limit of one attempt; for an outside worker from its lease on.
    #[serde(default = "default_compensation_timeout", with = "text")]
    pub timeout: Duration,
    /// How long it may wait for an outside worker; none means no limit.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Duration>,
    /// The retry policy.
    #[serde(default = "default_compensation_retry")]
    pub retry: Retry,
}

impl Default for DraftCompensation {
    fn default() -> Self {
        Self {
            action: Performer::Code,
            timeout: DEFAULT_COMPENSATION_TIMEOUT,
            queue_timeout: None,
            retry: default_compensation_retry(),
        }
    }
}

fn one() -> u32 {
    1
}

fn one_at_a_time() -> usize {
    1
}

fn default_step_timeout() -> Duration {
    DEFAULT_STEP_TIMEOUT
}

fn default_compensation_timeout() -> Duration {
    DEFAULT_COMPENSATION_TIMEOUT
}

impl Draft {
    /// An empty definition of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
            title: None,
            metadata: None,
            continue_on_compensation_failure: false,
            compensation_concurrency: 1,
            on_success: false,
            on_failure: false,
            steps: Vec::new(),
        }
    }
}
