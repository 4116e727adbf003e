//! The invariant checker for sagas, which reads only their log.
//!
//! It keeps its own state and shares no code with [`decide`](super::decide) or the fold, so it does not repeat their
//! errors. Tests and
//! the simulator use it.

mod books;
#[cfg(test)]
mod tests;

use std::fmt;

use self::books::{AttemptStatus, Books, Ending, Fate};
use super::MAX_INTERRUPTIONS;
use super::definition::Definition;
use super::event::{Event, Phase, Recorded, Resolution};
use crate::error::StepError;
use crate::time::Timestamp;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant.
    pub invariant: u8,
    /// The event that violates it; zero for an empty log.
    pub seq: u64,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} breaks invariant {}: {}", self.seq, self.invariant, self.message)
    }
}

/// Every violation in this log, in the order of the log. The log need not have ended: the check is whether it is valid
/// so far.
#[must_use]
pub fn audit(definition: &Definition, log: &[Recorded]) -> Vec<Violation> {
    let mut audit = Audit { definition, books: Books::open(definition), last: None, violations: Vec::new() };
    if log.is_empty() {
        audit.blame(1, "the log is empty");
    }
    for recorded in log {
        audit.take(recorded);
    }
    audit.violations
}

struct Audit<'a> {
    definition: &'a Definition,
    books: Books,
    last: Option<(u64, Timestamp)>,
    violations: Vec<Violation>,
}

impl Audit<'_> {
    fn blame(&mut self, invariant: u8, message: impl Into<String>) {
        let seq = self.last.map_or(0, |(seq, _)| seq);
        self.violations.push(Violation { invariant, seq, message: message.into() });
    }

    fn require(&mut self, invariant: u8, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.blame(invariant, message());
        }
    }

    fn take(&mut self, recorded: &Recorded) {
        let before = self.last.replace((recorded.seq, recorded.at));
        self.check_place(before, recorded);
        let place = match recorded.event.step() {
            None => None,
            Some(step) => match self.definition.position(step) {
                Some(position) => Some(position),
                None => return self.blame(4, format!("the definition has no step `{step}`")),
            },
        };
        match (&recorded.event, place) {
            (Event::SagaStarted(_), _) => {
                self.require(1, before.is_none(), || "a second saga.started".into());
            }
            (Event::SagaPaused { .. } | Event::SagaResumed { .. }, _) => {}
            (Event::SagaAdopted { .. }, _) => self.books.interrupt(),
            (Event::SagaCompensating { .. }, _) => {
                let first = !std::mem::replace(&mut self.books.rolling_back, true);
                self.require(8, first, || "the rollback begins twice".into());
            }
            (Event::SagaSucceeded, _) => self.succeeded(),
            (Event::SagaCompensated { .. }, _) => self.compensated(),
            (Event::SagaFailed { .. }, Some(position)) => self.failed(position),
            (event, Some(position)) => self.take_step(position, event, recorded.at),
            // Every other event names its step.
            (_, None) => {}
        }
    }

    fn take_step(&mut self, position: usize, event: &Event, at: Timestamp) {
        match event {
            Event::StepStarted { attempt, outside, .. } => {
                self.action_starts(position, *attempt, at);
                self.books.line_mut(position, Phase::Do).is_outside = outside.is_some();
            }
            Event::StepLeased { phase, attempt, .. } => self.leased(position, *phase, *attempt),
            Event::StepSucceeded { attempt, .. } => {
                self.answered(position, Phase::Do, *attempt);
                self.books.end_action(position, Ending::Succeeded);
            }
            Event::StepFailed { attempt, error, in_doubt, .. } => {
                self.action_fails(position, *attempt, *in_doubt, error);
            }
            Event::StepTimedOut { attempt, error, .. } => self.action_fails(position, *attempt, true, error),
            Event::StepRetry { phase, attempt, max_attempts, error, retry_at, .. } => {
                self.answered(position, *phase, *attempt);
                self.require(17, attempt < max_attempts, || {
                    format!("attempt {attempt} of {max_attempts} cannot be followed by another")
                });
                self.retry(position, *phase, error, *retry_at, at);
            }
            Event::StepCompensating { attempt, outside, .. } => {
                self.compensation_starts(position, *attempt, at);
                self.books.line_mut(position, Phase::Undo).is_outside = outside.is_some();
            }
            Event::StepCompensated { attempt, .. } => {
                self.answered(position, Phase::Undo, *attempt);
                self.books.end_compensation(position, Fate::Undone);
            }
            Event::StepCompensationFailed { attempt, .. } => {
                let line = &self.books.steps[position].undo;
                let worn_out = line.status == AttemptStatus::Cut && line.interruptions >= MAX_INTERRUPTIONS;
                if !(worn_out && line.attempts == *attempt) {
                    self.answered(position, Phase::Undo, *attempt);
                }
                self.books.end_compensation(position, Fate::Stuck);
            }
            Event::StepResolved { action, .. } => self.resolved(position, *action),
            Event::SagaStarted(_)
            | Event::SagaSucceeded
            | Event::SagaFailed { .. }
            | Event::SagaCompensating { .. }
            | Event::SagaCompensated { .. }
            | Event::SagaPaused { .. }
            | Event::SagaResumed { .. }
            | Event::SagaAdopted { .. } => {}
        }
    }

    /// Checks numbers and times, and what may follow an end.
    fn check_place(&mut self, before: Option<(u64, Timestamp)>, recorded: &Recorded) {
        let (seq, at) = before.unwrap_or((0, recorded.at));
        self.require(3, recorded.seq == seq + 1, || format!("it follows event {seq}"));
        self.require(3, recorded.at >= at, || "it is earlier than the event before it".into());
        if before.is_none() {
            let begins = matches!(recorded.event, Event::SagaStarted(_));
            self.require(1, begins, || "the log does not begin with saga.started".into());
        }
        let resolution = matches!(recorded.event, Event::StepResolved { .. });
        match self.books.ended {
            Some(Ending::Failed) if resolution => {}
            Some(_) => self.blame(5, format!("{} follows the saga's end", recorded.event.name())),
            None => self.require(5, !resolution, || "a resolution of a saga that has not failed".into()),
        }
    }

    fn named(&self, position: usize) -> String {
        format!("step `{}`", self.definition.steps()[position].id)
    }

    fn action_starts(&mut self, position: usize, attempt: u32, at: Timestamp) {
        let name = self.named(position);
        for &parent in &self.definition.steps()[position].depends_on {
            let ready = self.books.steps[parent].ending == Some(Ending::Succeeded);
            let parent = self.named(parent);
            self.require(7, ready, || format!("{name} starts before {parent} succeeded"));
        }
        let forward = !self.books.rolling_back;
        self.require(8, forward, || format!("{name} starts after the rollback began"));
        self.starts(position, Phase::Do, attempt, at);
    }

    /// Rules for every attempt of an action or a compensation.
    fn starts(&mut self, position: usize, phase: Phase, attempt: u32, at: Timestamp) {
        let name = format!("the {} of {}", phase.as_str(), self.named(position));
        let line = self.books.line(position, phase);
        let (before, interruptions) = (line.attempts, line.interruptions);
        match line.status {
            AttemptStatus::Untouched => {}
            AttemptStatus::Running => {
                self.blame(17, format!("{name} starts while attempt {before} is in flight"));
            }
            AttemptStatus::Over => self.blame(17, format!("{name} starts again though it is over")),
            AttemptStatus::Waiting(until) => {
                self.require(17, at >= until, || format!("{name} starts before its wait is over"));
            }
            AttemptStatus::Cut => self.require(17, interruptions < MAX_INTERRUPTIONS, || {
                format!("{name} starts again after {interruptions} interruptions")
            }),
        }
        self.require(17, attempt == before + 1, || {
            format!("{name} starts attempt {attempt} after attempt {before}")
        });
        let line = self.books.line_mut(position, phase);
        line.status = AttemptStatus::Running;
        line.attempts = attempt;
    }

    fn answered(&mut self, position: usize, phase: Phase, attempt: u32) {
        let line = self.books.line(position, phase);
        let expected = line.status == AttemptStatus::Running && line.attempts == attempt;
        let name = format!("the {} of {}", phase.as_str(), self.named(position));
        self.require(14, expected, || {
            format!("{name} takes the result of attempt {attempt}, which is not in flight")
        });
    }

    fn leased(&mut self, position: usize, phase: Phase, attempt: u32) {
        self.answered(position, phase, attempt);
        let outside = self.books.line(position, phase).is_outside;
        let name = format!("the {} of {}", phase.as_str(), self.named(position));
        self.require(14, outside, || format!("{name} is leased though no worker performs it"));
    }

    fn retry(&mut self, position: usize, phase: Phase, error: &StepError, until: Timestamp, at: Timestamp) {
        let step = &self.definition.steps()[position];
        let limit = match phase {
            Phase::Do => step.retry.count,
            Phase::Undo => step.compensation.as_ref().map_or(0, |undo| undo.retry.count),
        };
        let turned = phase == Phase::Do && self.books.rolling_back;
        if phase == Phase::Do {
            self.books.steps[position].doubt |= error.kind.leaves_doubt();
        }
        let line = self.books.line_mut(position, phase);
        line.failures += 1;
        line.status = AttemptStatus::Waiting(until);
        let failures = line.failures;
        let name = format!("the {} of {}", phase.as_str(), self.named(position));
        self.require(17, failures <= limit, || {
            format!("{name} is tried again after {failures} failures; {limit} retries are allowed")
        });
        self.require(17, until >= at, || format!("{name} waits for a time that has passed"));
        self.require(8, !turned, || format!("{name} gets a new attempt after the rollback began"));
    }

    fn action_fails(&mut self, position: usize, attempt: u32, in_doubt: bool, error: &StepError) {
        let step = &self.books.steps[position];
        let given_up = match step.action.status {
            AttemptStatus::Waiting(_) => self.books.rolling_back,
            AttemptStatus::Cut => self.books.rolling_back || step.action.interruptions >= MAX_INTERRUPTIONS,
            AttemptStatus::Untouched | AttemptStatus::Running | AttemptStatus::Over => false,
        };
        if !(given_up && step.action.attempts == attempt) {
            self.answered(position, Phase::Do, attempt);
        }
        let doubt = self.books.steps[position].doubt || error.kind.leaves_doubt();
        let name = self.named(position);
        self.require(10, in_doubt || !doubt, || format!("{name} fails and forgets that it is in doubt"));
        self.books.steps[position].doubt = doubt || in_doubt;
        self.books.end_action(position, Ending::Failed);
    }

    fn compensation_starts(&mut self, position: usize, attempt: u32, at: Timestamp) {
        let name = self.named(position);
        let step = &self.books.steps[position];
        let (never_ran, done) =
            (step.action.attempts == 0, step.ending == Some(Ending::Succeeded) || step.doubt);
        let fate = step.fate;
        let fresh = step.undo.status == AttemptStatus::Untouched;
        self.require(12, !never_ran, || format!("{name} is compensated though it never started"));
        self.require(12, never_ran || done, || {
            format!("{name} is compensated though it left nothing behind")
        });
        let defined = self.definition.steps()[position].compensation.is_some();
        self.require(12, defined, || format!("{name} is compensated though it has no compensation"));
        let rolling_back = self.books.rolling_back;
        self.require(9, rolling_back, || format!("{name} is compensated before the rollback began"));
        self.require(10, fate != Fate::Undone, || format!("{name} is compensated twice"));
        if let Some(running) = self.books.action_in_flight() {
            let other = self.named(running);
            self.blame(9, format!("{name} is compensated while {other} is in flight"));
        }
        for after in self.books.after[position].clone() {
            if !self.is_out_of_the_way(after) {
                let after = self.named(after);
                self.blame(9, format!("{name} is compensated before {after}"));
            }
        }
        if fresh {
            self.check_room(position);
        }
        self.starts(position, Phase::Undo, attempt, at);
    }

    /// Whether a compensation may begin, considering the concurrency limit and failures of others.
    fn check_room(&mut self, position: usize) {
        let name = self.named(position);
        let limit = self.definition.compensation_concurrency();
        let busy = self.books.compensations_in_progress();
        self.require(9, busy < limit, || {
            format!("{name} is compensated beside {busy} others; {limit} are allowed at once")
        });
        let goes_on = self.definition.continues_past_failed_compensation()
            || self.books.steps[position].undo.attempts > 0
            || self.books.steps.iter().all(|step| step.fate != Fate::Stuck);
        self.require(9, goes_on, || {
            format!("{name} is compensated though a failed compensation stops the rollback")
        });
    }

    /// Whether a later step no longer prevents this compensation.
    fn is_out_of_the_way(&self, position: usize) -> bool {
        let step = &self.books.steps[position];
        match step.fate {
            Fate::Undone | Fate::LeftAlone => true,
            Fate::Stuck => self.definition.continues_past_failed_compensation(),
            Fate::Open => !step.is_open() && !self.is_owed(position),
        }
    }

    /// Whether a step took effect, or may have, and has a compensation.
    fn is_owed(&self, position: usize) -> bool {
        let step = &self.books.steps[position];
        let happened = step.ending == Some(Ending::Succeeded) || step.doubt;
        happened && self.definition.steps()[position].compensation.is_some()
    }

    fn resolved(&mut self, position: usize, action: Resolution) {
        let stuck = self.books.steps[position].fate == Fate::Stuck;
        let name = self.named(position);
        self.require(13, stuck, || format!("{name} is resolved though its compensation has not failed"));
        self.books.ended = None;
        match action {
            Resolution::Retry => self.books.reopen(position),
            Resolution::Skip => self.books.steps[position].fate = Fate::LeftAlone,
            Resolution::Done => self.books.steps[position].fate = Fate::Undone,
        }
    }

    fn succeeded(&mut self) {
        for position in 0..self.books.steps.len() {
            let step = &self.books.steps[position];
            let (ended, touched) = (step.ending, step.undo.attempts > 0);
            let name = self.named(position);
            self.require(11, ended == Some(Ending::Succeeded), || {
                format!("the saga succeeds, but {name} did not")
            });
            self.require(11, !touched, || format!("the saga succeeds, but {name} was compensated"));
        }
        let forward = !self.books.rolling_back;
        self.require(11, forward, || "the saga succeeds after its rollback began".into());
        self.books.ended = Some(Ending::Succeeded);
    }

    fn compensated(&mut self) {
        for position in 0..self.books.steps.len() {
            let (name, owed) = (self.named(position), self.is_owed(position));
            let step = &self.books.steps[position];
            let (fate, open) = (step.fate, step.is_open());
            self.require(10, !open, || format!("the saga is compensated before {name} ended"));
            self.require(13, fate != Fate::Stuck, || {
                format!("the saga is compensated, but the compensation of {name} failed")
            });
            self.require(10, !(owed && fate == Fate::Open), || {
                format!("the saga is compensated, but {name} is not")
            });
        }
        let turned = self.books.rolling_back;
        self.require(10, turned, || "the saga is compensated without a rollback".into());
        self.books.ended = Some(Ending::Compensated);
    }

    fn failed(&mut self, named: usize) {
        let stuck = self.books.steps[named].fate == Fate::Stuck;
        let name = self.named(named);
        self.require(13, stuck, || format!("the saga fails for {name}, whose compensation has not failed"));
        let busy = self.books.compensations_in_progress() > 0 || self.books.action_in_flight().is_some();
        self.require(13, !busy, || "the saga fails while something is in progress".into());
        for position in 0..self.books.steps.len() {
            let left = self.is_owed(position) && self.books.steps[position].fate == Fate::Open;
            let dropped = left && self.definition.continues_past_failed_compensation();
            let name = self.named(position);
            self.require(13, !dropped, || format!("the saga fails before {name} is compensated"));
        }
        self.books.ended = Some(Ending::Failed);
    }
}
