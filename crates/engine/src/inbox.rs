//! Messages for a saga from whoever does not own it.

use serde::{Deserialize, Serialize};

use backstitch_kernel::saga::{Input, Status};

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
}

impl Message {
    /// Who asked, and why.
    #[must_use]
    pub fn note(&self) -> &str {
        match self {
            Self::Cancel { note } | Self::Pause { note } | Self::Resume { note } => note,
        }
    }
}

impl From<Message> for Input {
    fn from(message: Message) -> Self {
        match message {
            Message::Cancel { note } => Self::Cancel { note },
            Message::Pause { note } => Self::Pause { note },
            Message::Resume { note } => Self::Resume { note },
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
