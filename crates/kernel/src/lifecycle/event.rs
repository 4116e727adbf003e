//! Events of instances.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::instance::Failure;
use crate::error::StepError;
use crate::payload::Payload;
use crate::time::Timestamp;

/// An event. Its name in the log is [`Event::name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The instance was started in the machine's initial state.
    Started(Arc<Started>),
    /// The instance was started again.
    Restarted {
        /// The number of starts so far.
        attempt: u32,
        /// The start's input and correlation id.
        given: Given,
    },
    /// It moved from one state to another.
    Transitioned {
        /// The previous state.
        from: Arc<str>,
        /// The new state.
        to: Arc<str>,
        /// The number of starts so far.
        attempt: u32,
        /// The transition's data.
        data: Option<Payload>,
        /// The action's error that led there.
        error: Option<Failure>,
    },
    /// It failed.
    Failed {
        /// The previous state.
        from: Arc<str>,
        /// The number of starts so far.
        attempt: u32,
        /// The error.
        failure: Failure,
    },
    /// An attempt of a state's action failed, and a retry follows.
    ActionRetry {
        /// The state.
        state: Arc<str>,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The total number of attempts.
        max_attempts: u32,
        /// The error.
        error: StepError,
        /// When the retry is due.
        retry_at: Timestamp,
    },
    /// An outside worker has leased an attempt of a state's action: its timeout begins.
    ActionLeased {
        /// The state.
        state: Arc<str>,
        /// The attempt, from 1.
        attempt: u32,
        /// When the attempt times out.
        until: Timestamp,
    },
    /// It was abandoned in a pause state, without a transition.
    Abandoned {
        /// The pause state.
        state: Arc<str>,
        /// The number of starts so far.
        attempt: u32,
        /// The reason.
        reason: AbandonReason,
    },
}

/// Why an instance was abandoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum AbandonReason {
    /// An operator requested it.
    Requested {
        /// The operator's note.
        note: String,
    },
    /// The pause reached its time limit.
    Expired,
}

impl AbandonReason {
    /// The reason's name in logs, streams and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Requested { .. } => "requested",
            Self::Expired => "expired",
        }
    }

    /// The operator's note, if there is one.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Requested { note } => Some(note),
            Self::Expired => None,
        }
    }
}

/// The data of a first start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The machine's name.
    pub machine: String,
    /// The machine's version, which the instance keeps.
    pub version: u32,
    /// The instance's key.
    pub key: String,
    /// Its first state.
    pub state: Arc<str>,
    /// The correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The input of actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

/// What a start may carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The correlation id; the first start's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The input of actions; the newest start's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

/// An event at its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

impl Event {
    /// The names of all events.
    pub const NAMES: [&'static str; 7] = [
        "lifecycle.started",
        "lifecycle.restarted",
        "lifecycle.transitioned",
        "lifecycle.failed",
        "action.retry",
        "action.leased",
        "lifecycle.abandoned",
    ];

    /// The event's name in logs, streams and the database.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "lifecycle.started",
            Self::Restarted { .. } => "lifecycle.restarted",
            Self::Transitioned { .. } => "lifecycle.transitioned",
            Self::Failed { .. } => "lifecycle.failed",
            Self::ActionRetry { .. } => "action.retry",
            Self::ActionLeased { .. } => "action.leased",
            Self::Abandoned { .. } => "lifecycle.abandoned",
        }
    }

    /// The state of the event: the new state, or the one whose action is leased or retried, or in which it was
    /// abandoned.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        match self {
            Self::Started(started) => Some(&started.state),
            Self::Transitioned { to, .. } => Some(to),
            Self::Failed { .. } => Some(super::draft::FAILED),
            Self::ActionRetry { state, .. }
            | Self::ActionLeased { state, .. }
            | Self::Abandoned { state, .. } => Some(state),
            Self::Restarted { .. } => None,
        }
    }

    /// The attempt of the event: of the state's action for a lease or a retry, otherwise the number of starts.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Started(_) => 1,
            Self::Restarted { attempt, .. }
            | Self::Transitioned { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::ActionRetry { attempt, .. }
            | Self::ActionLeased { attempt, .. }
            | Self::Abandoned { attempt, .. } => *attempt,
        }
    }
}
