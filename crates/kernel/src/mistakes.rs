//! Validation errors of definitions, all reported together.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::performer::Performer;
use crate::retry::{Backoff, Retry};

/// The longest name or id, in bytes.
pub const MAX_ID_LEN: usize = 128;
/// The longest title, in bytes.
pub const MAX_TITLE_LEN: usize = 512;
/// The largest declaration of a call, in bytes of JSON.
pub const MAX_CALL_LEN: usize = 16 * 1024;
/// The most retries a policy may ask for.
pub const MAX_RETRIES: u32 = 1_000;
/// The longest timeout or wait.
pub const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// One validation error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its path, such as `steps[2].timeout`.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// All validation errors of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the definition has {} mistake(s)", self.0.len())?;
        for problem in &self.0 {
            write!(f, "; {}: {}", problem.place, problem.message)?;
        }
        Ok(())
    }
}

/// The errors of a retry policy at this path.
#[must_use]
pub fn retry_problems(place: &str, retry: &Retry) -> Vec<Problem> {
    let mut mistakes = Mistakes::default();
    mistakes.retry(place, retry);
    mistakes.found
}

/// Collects errors; checks that all kinds of definitions share.
#[derive(Default)]
pub(crate) struct Mistakes {
    found: Vec<Problem>,
}

impl Mistakes {
    pub(crate) fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        let problem = Problem { place: place.into(), message: message.into() };
        // An edge from an unknown state to itself names the state twice.
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    pub(crate) fn id(&mut self, place: &str, id: &str) {
        if id.is_empty() {
            self.problem(place, "is empty");
        } else if id.len() > MAX_ID_LEN {
            self.problem(place, format!("is {} bytes long; the limit is {MAX_ID_LEN}", id.len()));
        } else if let Some(odd) = id.chars().find(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
            self.problem(place, format!("contains {odd:?}: use letters, digits, `-`, `_` and `.`"));
        } else if id == "." || id == ".." {
            // In a URL path these mean the current and the parent directory.
            self.problem(place, format!("is `{id}`, which no address can end in: add a letter or a digit"));
        }
    }

    pub(crate) fn title(&mut self, place: &str, title: Option<&str>) {
        if title.is_some_and(|title| title.len() > MAX_TITLE_LEN) {
            self.problem(place, format!("is longer than {MAX_TITLE_LEN} bytes"));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the errors, if there are any.
    pub(crate) fn none(self) -> Result<(), Problems> {
        if self.found.is_empty() { Ok(()) } else { Err(Problems(self.found)) }
    }

    pub(crate) fn performer(&mut self, place: &str, performer: &Performer) {
        match performer {
            Performer::Call(call) if call.len() > MAX_CALL_LEN => {
                self.problem(place, format!("is larger than {MAX_CALL_LEN} bytes"));
            }
            Performer::Code | Performer::Call(_) => {}
            Performer::Worker { queue } => self.id(&format!("{place}.worker.queue"), queue),
        }
    }

    pub(crate) fn timeout(&mut self, place: &str, timeout: Duration) {
        if timeout.is_zero() {
            self.problem(place, "is zero: every attempt would time out at once");
        } else if timeout > MAX_DURATION {
            self.problem(place, "is longer than 366 days");
        }
    }

    pub(crate) fn retry(&mut self, place: &str, retry: &Retry) {
        if retry.count > MAX_RETRIES {
            self.problem(format!("{place}.count"), format!("is {}; the limit is {MAX_RETRIES}", retry.count));
        }
        let longest = match &retry.backoff {
            Backoff::Fixed(delay) => *delay,
            Backoff::Exponential { base, cap } => {
                if base > cap {
                    self.problem(format!("{place}.delay"), "is longer than max_delay");
                }
                *cap
            }
            Backoff::List(waits) => {
                if waits.is_empty() && retry.count > 0 {
                    self.problem(format!("{place}.delays"), "is empty: give one wait at least");
                }
                waits.iter().max().copied().unwrap_or_default()
            }
        };
        if longest > MAX_DURATION {
            self.problem(place, "waits longer than 366 days");
        }
        if let Some(time) = retry.within {
            self.timeout(&format!("{place}.within"), time);
        }
    }
}
