//! Who does what a definition asks for.

use serde::{Deserialize, Serialize};

use crate::payload::Payload;

/// Who performs an action or a compensation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Performer {
    /// Code of the program that registers it.
    #[default]
    Code,
    /// The engine, as this says; what it says is for whoever performs declared calls to read.
    Call(Payload),
    /// An outside worker that takes it from this queue.
    Worker {
        /// The queue.
        queue: String,
    },
}

impl Performer {
    pub(crate) fn is_code(&self) -> bool {
        *self == Self::Code
    }

    /// The queue that an outside worker takes it from, if one does.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match self {
            Self::Worker { queue } => Some(queue),
            Self::Code | Self::Call(_) => None,
        }
    }
}
