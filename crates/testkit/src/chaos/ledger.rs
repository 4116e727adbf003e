//! What the outside world saw: one line for every raw call of an action or a compensation.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use backstitch::SagaId;
use backstitch::kernel::saga::Phase;

use super::lines::{self, Lines};

/// How a service answered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did what was asked.
    Done,
    /// It did nothing; another try may help.
    Failed,
    /// It did nothing and never will.
    Refused,
    /// It did what was asked, and its answer got lost.
    Silent,
}

impl Answer {
    /// Whether the service did what was asked, told or not.
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

/// One raw call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCall {
    /// The incarnation of the node that called.
    pub caller: String,
    /// The saga it called for.
    pub saga: SagaId,
    /// The step.
    pub step: String,
    /// Action or compensation.
    pub phase: Phase,
    /// Which attempt.
    pub attempt: u32,
    /// The key by which the service tells a repeated call.
    pub key: String,
    /// What the service answered.
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

/// Writes calls down.
#[derive(Debug)]
pub struct Ledger {
    lines: Lines,
    caller: String,
}

impl Ledger {
    /// Goes on with the ledger in this folder, or begins it, for this incarnation of a node.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(folder: &Path, caller: &str) -> io::Result<Self> {
        Ok(Self { lines: Lines::open(&path(folder))?, caller: caller.to_owned() })
    }

    /// The incarnation that writes here.
    #[must_use]
    pub fn caller(&self) -> &str {
        &self.caller
    }

    /// Writes one call down.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, call: &RawCall) -> io::Result<()> {
        self.lines.append(&call.to_string())
    }
}

/// All calls so far, in the order in which they were made.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read(folder: &Path) -> io::Result<Vec<RawCall>> {
    lines::read(&path(folder))?.iter().map(|line| line.parse().map_err(io::Error::other)).collect()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("calls")
}
