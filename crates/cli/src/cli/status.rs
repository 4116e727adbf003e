//! Statuses: a word with a shape, and a colour in terminals. Never a colour alone.

use comfy_table::Color;

use super::text::shown;

/// The meaning of a status in any product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Good,
    Bad,
    Busy,
    Waiting,
    Undoing,
    Undone,
    Doubtful,
    Left,
    Warning,
}

impl Meaning {
    /// The meaning of an API status.
    pub(crate) fn of(status: &str) -> Self {
        match status {
            "succeeded" | "Completed" | "ok" | "arrived" | "enabled" | "good" => Self::Good,
            "failed" | "Failed" | "compensation_failed" | "DeadLettered" | "aborted" | "error" => Self::Bad,
            "running" | "InProgress" | "sending" | "active" => Self::Busy,
            "compensating" => Self::Undoing,
            "compensated" => Self::Undone,
            "in_doubt" => Self::Doubtful,
            "skipped" | "disabled" | "expired" | "revoked" => Self::Left,
            "warning" | "attention" => Self::Warning,
            _ => Self::Waiting,
        }
    }

    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Busy => "●",
            Self::Waiting => "○",
            Self::Undoing => "◐",
            Self::Undone => "↺",
            Self::Doubtful => "?",
            Self::Left => "–",
            Self::Warning => "!",
        }
    }

    pub(crate) fn colour(self) -> Option<Color> {
        match self {
            Self::Good => Some(Color::Green),
            Self::Bad => Some(Color::Red),
            Self::Busy => Some(Color::Cyan),
            Self::Undoing | Self::Undone | Self::Doubtful | Self::Warning => Some(Color::Yellow),
            Self::Waiting | Self::Left => None,
        }
    }
}

/// The escaped word with its shape.
pub(crate) fn worded(status: &str) -> String {
    format!("{} {}", Meaning::of(status).shape(), shown(&status.replace('_', " ")))
}
