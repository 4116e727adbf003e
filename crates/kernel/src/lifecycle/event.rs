//! What can happen to an instance of a machine: its part of the log's vocabulary.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::instance::Failure;
use crate::error::StepError;
use crate::payload::Payload;
use crate::time::Timestamp;

/// One thing that happened. Its name in the log is [`Event::name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It began, in the machine's initial state.
    Started(Arc<Started>),
    /// Somebody began again; where it stands is another matter.
    Restarted {
        /// How often it was begun by now.
        attempt: u32,
        /// Whatever was given this time.
        given: Given,
    },
    /// It went from one state to another.
    Transitioned {
        /// From here.
        from: Arc<str>,
        /// To there.
        to: Arc<str>,
        /// How often it was begun by then.
        attempt: u32,
        /// What came with it.
        data: Option<Payload>,
        /// The error of an action that led there.
        error: Option<Failure>,
    },
    /// It came to its bad end.
    Failed {
        /// From here.
        from: Arc<str>,
        /// How often it was begun by then.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// An attempt of a state's action failed, and another one follows.
    ActionRetry {
        /// The state.
        state: Arc<str>,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// How many there can be.
        max_attempts: u32,
        /// Why it failed.
        error: StepError,
        /// When the next one is due.
        retry_at: Timestamp,
    },
    /// An outside worker has leased an attempt of a state's action: its time begins.
    ActionLeased {
        /// The state.
        state: Arc<str>,
        /// The attempt, from 1.
        attempt: u32,
        /// Without an answer by then it has timed out.
        until: Timestamp,
    },
    /// It ended in a pause state without a transition.
    Abandoned {
        /// The pause state, which it stays in.
        state: Arc<str>,
        /// How often it was begun by then.
        attempt: u32,
        /// Why.
        reason: AbandonReason,
    },
}

/// Why an instance was abandoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum AbandonReason {
    /// An operator asked for it.
    Requested {
        /// What the operator wrote.
        note: String,
    },
    /// The pause lasted for as long as the machine allows.
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

    /// What the operator wrote, if one asked for it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Requested { note } => Some(note),
            Self::Expired => None,
        }
    }
}

/// What a first start is remembered by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The machine's name.
    pub machine: String,
    /// The machine's version; the instance keeps it to its end.
    pub version: u32,
    /// Which one of this machine it is.
    pub key: String,
    /// Where it begins.
    pub state: Arc<str>,
    /// What links traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What actions can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

/// What a start can bring along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// What links traces; the first one of all starts counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What actions can read; the newest one counts.
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
    /// What happened.
    pub event: Event,
}

impl Event {
    /// The names of all events there are.
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

    /// The state it is about: the one it led to, the one whose action is leased or tried again, or the one it was abandoned in.
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

    /// The attempt it is about: of the state's action for a lease or a retry, and of the whole for everything else.
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
