//! Logs written by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::super::draft::{Draft, DraftCompensation, DraftStep, Performer};
use super::super::super::event::{Outside, Started};
use super::super::*;
use crate::error::ErrorKind;
use crate::id::StepId;
use crate::payload::Payload;
use crate::retry::Retry;

/// A step with two retries 10 s apart, for its action and its compensation alike.
pub(super) fn step(id: &str, after: &[&str]) -> DraftStep {
    let retry = Retry::fixed(2, Duration::from_secs(10));
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: Some(after.iter().map(|&id| id.to_owned()).collect()),
        action: Performer::Code,
        timeout: Duration::from_secs(1),
        queue_timeout: None,
        retry: retry.clone(),
        compensate: Some(DraftCompensation {
            timeout: Duration::from_secs(1),
            retry,
            ..DraftCompensation::default()
        }),
        concurrency: None,
    }
}

pub(super) fn draft(steps: Vec<DraftStep>) -> Draft {
    Draft { steps, ..Draft::new("audited") }
}

/// `a`, then `b`.
pub(super) fn pair() -> Definition {
    draft(vec![step("a", &[]), step("b", &["a"])]).check().unwrap()
}

/// `a`, then `b`, which cannot be undone, then `c`.
pub(super) fn bridged() -> Definition {
    let mut bridge = step("b", &["a"]);
    bridge.compensate = None;
    draft(vec![step("a", &[]), bridge, step("c", &["b"])]).check().unwrap()
}

/// `a` and `b` side by side.
pub(super) fn siblings() -> Definition {
    draft(vec![step("a", &[]), step("b", &[])]).check().unwrap()
}

pub(super) fn going_on(definition: &Definition) -> Definition {
    Draft { continue_on_compensation_failure: true, ..definition.draft().clone() }.check().unwrap()
}

pub(super) fn error(kind: ErrorKind) -> StepError {
    StepError::new(kind, "")
}

pub(super) fn begun() -> Event {
    Event::SagaStarted(Arc::new(Started {
        definition: "audited".to_owned(),
        version: 1,
        input: Payload::null(),
        correlation_id: None,
        deadline: None,
        attributes: std::collections::BTreeMap::default(),
    }))
}

pub(super) fn starts(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepStarted { step, attempt, outside: None }
}

fn outside() -> Outside {
    Outside { queue: "q".into(), queue_until: None, until: None }
}

/// The same, left to an outside worker.
pub(super) fn starts_outside(step: &str, attempt: u32) -> Event {
    Event::StepStarted { step: StepId::from(step), attempt, outside: Some(outside()) }
}

pub(super) fn undoes_outside(step: &str, attempt: u32) -> Event {
    Event::StepCompensating { step: StepId::from(step), attempt, outside: Some(outside()) }
}

pub(super) fn succeeds(step: &str, attempt: u32) -> Event {
    Event::StepSucceeded { step: step.into(), attempt, result: Payload::null() }
}

pub(super) fn fails(step: &str, attempt: u32) -> Event {
    Event::StepFailed { step: step.into(), attempt, error: error(ErrorKind::Refused), in_doubt: false }
}

pub(super) fn fails_in_doubt(step: &str, attempt: u32) -> Event {
    Event::StepFailed { step: step.into(), attempt, error: error(ErrorKind::Interrupted), in_doubt: true }
}

pub(super) fn times_out(step: &str, attempt: u32) -> Event {
    Event::StepTimedOut { step: step.into(), attempt, error: error(ErrorKind::TimedOut) }
}

pub(super) fn retries(step: &str, phase: Phase, attempt: u32, kind: ErrorKind, at: i64) -> Event {
    Event::StepRetry {
        step: step.into(),
        phase,
        attempt,
        max_attempts: 100,
        error: error(kind),
        retry_at: seconds(at),
    }
}

pub(super) fn turns() -> Event {
    Event::SagaCompensating { failed_step: None, error: error(ErrorKind::Cancelled) }
}

pub(super) fn undoes(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepCompensating { step, attempt, outside: None }
}

pub(super) fn undone(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepCompensated { step, attempt, result: Payload::null() }
}

pub(super) fn undone_saga() -> Event {
    Event::SagaCompensated { results: BTreeMap::new() }
}

pub(super) fn stuck(step: &str, attempt: u32) -> Event {
    Event::StepCompensationFailed { step: step.into(), attempt, error: error(ErrorKind::Failed) }
}

pub(super) fn gives_up(step: &str) -> Event {
    Event::SagaFailed { step: step.into(), error: error(ErrorKind::Failed) }
}

pub(super) fn resolves(step: &str, action: Resolution) -> Event {
    Event::StepResolved { step: step.into(), action, note: "looked at".to_owned() }
}

pub(super) fn adopted() -> Event {
    Event::SagaAdopted { node: "n".to_owned(), epoch: 1 }
}

pub(super) fn seconds(at: i64) -> Timestamp {
    Timestamp::from_micros(at * 1_000_000)
}

/// These events after `saga.started`, one every ten seconds.
pub(super) fn log(events: &[Event]) -> Vec<Recorded> {
    let events = std::iter::once(begun()).chain(events.iter().cloned());
    (1..)
        .zip(events)
        .map(|(seq, event)| Recorded { seq, at: seconds(10 * i64::try_from(seq).unwrap()), event })
        .collect()
}

/// The violated invariants, each with its event.
pub(super) fn broken(definition: &Definition, events: &[Event]) -> Vec<(u8, u64)> {
    audit(definition, &log(events)).iter().map(|found| (found.invariant, found.seq)).collect()
}

/// Every prefix of the log is clean as well.
pub(super) fn assert_clean(definition: &Definition, events: &[Event]) {
    let log = log(events);
    for end in 1..=log.len() {
        assert_eq!(audit(definition, &log[..end]), [], "the first {end} events");
    }
}

/// `a` and `b` have succeeded and the rollback has begun: seven events.
pub(super) fn both_done_and_turned() -> Vec<Event> {
    vec![starts("a", 1), succeeds("a", 1), starts("b", 1), succeeds("b", 1), turns()]
}

/// The same, and more.
pub(super) fn after_turning(more: &[Event]) -> Vec<Event> {
    [both_done_and_turned(), more.to_vec()].concat()
}
