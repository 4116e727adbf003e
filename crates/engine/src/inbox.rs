//! Messages for a saga from whoever does not own it.

use serde::{Deserialize, Serialize};

use backstitch_kernel::saga::{Input, Outcome, Phase, Status};
use backstitch_kernel::{ErrorKind, Payload, StepError, StepId, Timestamp};

/// Something asked of a saga from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Message {
    /// Roll back.
    Cancel {
        /// Who asked, and why.
        note: String,
    },
    /// Start nothing new.
    Pause {
        /// Who asked, and why.
        note: String,
    },
    /// Go on.
    Resume {
        /// Who asked, and why.
        note: String,
    },
    /// An outside worker has leased an attempt.
    Leased {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// When, by the store's clock, in microseconds.
        at: Timestamp,
    },
    /// An outside worker has answered.
    Answered {
        /// The step.
        step: StepId,
        /// Action or compensation.
        phase: Phase,
        /// Which attempt.
        attempt: u32,
        /// How it ended.
        answer: Answer,
    },
}

/// How an outside worker's attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// With this result, as JSON text.
    Succeeded(String),
    /// With this error.
    Failed(StepError),
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Succeeded(result) => match Payload::parse(result) {
                Ok(result) => Self::Succeeded(result),
                Err(why) => {
                    let message = format!("the worker's result is no JSON: {why}");
                    Self::Failed(StepError::new(ErrorKind::Unusable, message))
                }
            },
            Answer::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<Message> for Input {
    fn from(message: Message) -> Self {
        match message {
            Message::Cancel { note } => Self::Cancel { note },
            Message::Pause { note } => Self::Pause { note },
            Message::Resume { note } => Self::Resume { note },
            Message::Leased { step, phase, attempt, at } => Self::Leased { step, phase, attempt, at },
            Message::Answered { step, phase, attempt, answer } => {
                Self::Finished { step, phase, attempt, outcome: answer.into() }
            }
        }
    }
}

/// A message that waits for its saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number in the saga's inbox, from 1.
    pub seq: u64,
    /// What it says.
    pub message: Message,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is on disk and will be answered.
    Accepted,
    /// There is no such saga.
    Unknown,
    /// The saga is at its end and takes no messages.
    Ended(Status),
}
