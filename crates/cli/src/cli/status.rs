//! Where something stands: a word, a shape and, where there are colours, a colour. Never a colour alone.

use comfy_table::Color;

use super::text::shown;

/// How a status is meant, whatever product it is of.
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
    /// What a word of the API means.
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

/// The word with its shape before it; whatever the word is, it stays text.
pub(crate) fn worded(status: &str) -> String {
    format!("{} {}", Meaning::of(status).shape(), shown(&status.replace('_', " ")))
}
