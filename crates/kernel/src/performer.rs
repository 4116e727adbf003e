//! Who performs an action.

use serde::{Deserialize, Serialize};

use crate::payload::Payload;

/// Who performs an action or a compensation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Performer {
    /// Code of the registering program.
    #[default]
    Code,
    /// A declared call by the engine; the payload is for the caller that performs it.
    Call(Payload),
    /// An outside worker that leases it from this queue.
    Worker {
        /// The queue.
        queue: String,
    },
}

impl Performer {
    pub(crate) fn is_code(&self) -> bool {
        *self == Self::Code
    }

    /// The queue of an outside worker, if there is one.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match self {
            Self::Worker { queue } => Some(queue),
            Self::Code | Self::Call(_) => None,
        }
    }
}
