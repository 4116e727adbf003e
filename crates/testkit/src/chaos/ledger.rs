//! The services' ledger: one line for every call of an action or a compensation.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use backstitch::SagaId;
use backstitch::kernel::saga::Phase;

use super::lines::{self, Lines};

/// The response of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It took effect.
    Done,
    /// No effect; a retry may help.
    Failed,
    /// No effect, and a retry will not help.
    Refused,
    /// It took effect, and the response is lost.
    Silent,
}

impl Answer {
    /// Whether the call took effect.
    #[must_use]
    pub fn took_effect(self) -> bool {
        matches!(self, Self::Done | Self::Silent)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Silent => "silent",
        }
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCall {
    /// The epoch of the calling node.
    pub caller: String,
    /// The saga.
    pub saga: SagaId,
    /// The step.
    pub step: String,
    /// Action or compensation.
    pub phase: Phase,
    /// The attempt.
    pub attempt: u32,
    /// The idempotency key.
    pub key: String,
    /// The response.
    pub answer: Answer,
}

impl fmt::Display for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, saga, step, phase, attempt, key, answer } = self;
        write!(f, "{caller} {saga} {step} {} {attempt} {key} {}", phase.as_str(), answer.as_str())
    }
}

impl FromStr for RawCall {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let misread = || format!("`{line}` is not a line of the ledger");
        let fields: Vec<&str> = line.split(' ').collect();
        let [caller, saga, step, phase, attempt, key, answer] = fields[..] else {
            return Err(misread());
        };
        Ok(Self {
            caller: caller.to_owned(),
            saga: SagaId(saga.parse().map_err(|_| misread())?),
            step: step.to_owned(),
            phase: match phase {
                "do" => Phase::Do,
                "undo" => Phase::Undo,
                _ => return Err(misread()),
            },
            attempt: attempt.parse().map_err(|_| misread())?,
            key: key.to_owned(),
            answer: match answer {
                "done" => Answer::Done,
                "failed" => Answer::Failed,
                "refused" => Answer::Refused,
                "silent" => Answer::Silent,
                _ => return Err(misread()),
            },
        })
    }
}

/// Appends calls.
#[derive(Debug)]
pub struct Ledger {
    lines: Lines,
    caller: String,
}

impl Ledger {
    /// Opens or creates the ledger in this directory for this epoch of a node.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(folder: &Path, caller: &str) -> io::Result<Self> {
        Ok(Self { lines: Lines::open(&path(folder))?, caller: caller.to_owned() })
    }

    /// The epoch that writes here.
    #[must_use]
    pub fn caller(&self) -> &str {
        &self.caller
    }

    /// Appends one call.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, call: &RawCall) -> io::Result<()> {
        self.lines.append(&call.to_string())
    }
}

/// All calls in order.
///
/// # Errors
/// When the file cannot be read or contains something else.
pub fn read(folder: &Path) -> io::Result<Vec<RawCall>> {
    lines::read(&path(folder))?.iter().map(|line| line.parse().map_err(io::Error::other)).collect()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("calls")
}
