//! The invariant checker for instances, which reads only their log.
//!
//! It keeps its own state and shares no code with [`decide`](super::decide) or the fold.

use super::draft::{Draft, FAILED, INTERNAL};
use super::event::{AbandonReason, Event, Recorded};
use super::machine::Machine;
use crate::performer::Performer;
use crate::saga::Violation;
use crate::time::Timestamp;

/// Every violation in this log, in the order of the log. The log need not have ended.
#[must_use]
pub fn audit(machine: &Machine, log: &[Recorded]) -> Vec<Violation> {
    let mut audit = Audit { draft: machine.draft(), books: None, seq: 0, at: None, found: Vec::new() };
    if log.is_empty() {
        audit.blame(1, "the log is empty");
    }
    for recorded in log {
        audit.take(recorded);
    }
    audit.found
}

struct Books {
    state: String,
    starts: u32,
    failures: u32,
    /// A worker has leased the attempt.
    leased: bool,
    /// The instance was started again in a pause state, so the next event must leave it.
    goes_on: bool,
    abandoned: bool,
}

struct Audit<'a> {
    draft: &'a Draft,
    books: Option<Books>,
    seq: u64,
    at: Option<Timestamp>,
    found: Vec<Violation>,
}

impl Audit<'_> {
    fn blame(&mut self, invariant: u8, message: impl Into<String>) {
        self.found.push(Violation { invariant, seq: self.seq, message: message.into() });
    }

    fn take(&mut self, recorded: &Recorded) {
        let expected = self.seq + 1;
        self.seq = recorded.seq;
        if recorded.seq != expected {
            self.blame(2, format!("the log has a gap: {expected} was expected"));
        }
        if self.at.is_some_and(|before| before > recorded.at) {
            self.blame(3, "time goes back");
        }
        self.at = Some(recorded.at);
        let Some(books) = self.books.take() else {
            return self.open(&recorded.event);
        };
        self.books = Some(self.next(books, &recorded.event));
    }

    fn open(&mut self, event: &Event) {
        let Event::Started(started) = event else {
            return self.blame(1, "the log does not begin with a start");
        };
        if *started.state != *self.draft.initial {
            self.blame(1, format!("it begins in `{}`", started.state));
        }
        let state = started.state.to_string();
        self.books =
            Some(Books { state, starts: 1, failures: 0, leased: false, goes_on: false, abandoned: false });
    }

    fn next(&mut self, mut books: Books, event: &Event) -> Books {
        let state = books.state.clone();
        if self.draft.terminal.contains(&state) || state == FAILED {
            self.blame(4, format!("something follows `{state}`, which is terminal"));
        }
        if books.abandoned {
            self.blame(4, format!("something follows `{state}`, in which it was abandoned"));
        }
        let goes_on = std::mem::take(&mut books.goes_on);
        let again = self.draft.pause.get(&state);
        match event {
            Event::Started(_) => self.blame(1, "it is started twice"),
            Event::Restarted { attempt, .. } => {
                books.starts += 1;
                if *attempt != books.starts {
                    self.blame(5, format!("start {} is counted as {attempt}", books.starts));
                }
                books.goes_on = again.is_some();
                return books;
            }
            Event::Transitioned { from, to, attempt, .. } => {
                self.counted(&books, *attempt);
                let edge = (from.to_string(), to.to_string());
                let re_entered = goes_on && again.is_some_and(|again| **again == **to);
                let failed = **to == *FAILED && self.draft.can_fail.contains(&state);
                if **from != *state {
                    self.blame(6, format!("it goes from `{from}`, but is in `{state}`"));
                } else if !self.draft.edges.contains(&edge) && !re_entered && !failed {
                    self.blame(6, format!("nothing leads from `{from}` to `{to}`"));
                }
                books.state = to.to_string();
                books.failures = 0;
                books.leased = false;
            }
            Event::Failed { from, attempt, failure } => {
                self.counted(&books, *attempt);
                let edge = (state.clone(), FAILED.to_owned());
                if **from != *state {
                    self.blame(6, format!("it fails from `{from}`, but is in `{state}`"));
                } else if !self.draft.can_fail.contains(&state) && !self.draft.edges.contains(&edge) {
                    self.blame(7, format!("it fails from `{state}`, which cannot"));
                }
                if failure.kind != INTERNAL && !self.draft.error_kinds.contains(&failure.kind) {
                    self.blame(7, format!("it fails with the kind `{}`, which is none", failure.kind));
                }
                FAILED.clone_into(&mut books.state);
                books.failures = 0;
                books.leased = false;
            }
            Event::ActionRetry { state: of, attempt, max_attempts, .. } => {
                books.failures += 1;
                books.leased = false;
                if **of != *state || !self.draft.actions.contains_key(&state) {
                    self.blame(8, format!("an attempt of `{of}` fails, but it is in `{state}`"));
                } else if *attempt != books.failures || attempt >= max_attempts {
                    self.blame(
                        8,
                        format!("attempt {} is counted as {attempt} of {max_attempts}", books.failures),
                    );
                }
            }
            Event::ActionLeased { state: of, attempt, .. } => {
                let action = self.draft.actions.get(&state).and_then(|action| action.performer.as_ref());
                if **of != *state || action.and_then(Performer::queue).is_none() {
                    self.blame(11, format!("a worker leases `{of}`, but it is in `{state}`"));
                } else if *attempt != books.failures + 1 || books.leased {
                    self.blame(
                        11,
                        format!("attempt {} is leased as {attempt}, or twice", books.failures + 1),
                    );
                }
                books.leased = true;
            }
            Event::Abandoned { state: of, attempt, reason } => {
                self.counted(&books, *attempt);
                books.abandoned = true;
                if **of != *state {
                    self.blame(10, format!("it is abandoned in `{of}`, but is in `{state}`"));
                } else if again.is_none() {
                    self.blame(10, format!("it is abandoned in `{state}`, which is no pause state"));
                } else if *reason == AbandonReason::Expired && !self.draft.pause_expires.contains_key(&state)
                {
                    self.blame(10, format!("its pause in `{state}` expires, which has no limit"));
                }
            }
        }
        if goes_on && !matches!(event, Event::Transitioned { .. }) {
            self.blame(9, format!("a start in `{state}` did not go on"));
        }
        books
    }

    fn counted(&mut self, books: &Books, attempt: u32) {
        if attempt != books.starts {
            self.blame(5, format!("it was started {} times, but the event says {attempt}", books.starts));
        }
    }
}
