//! Compares one saga's row with its log, and its log with the services' calls.

use std::collections::{HashMap, HashSet};

use backstitch::Status;
use backstitch::kernel::saga::{Definition, Event, Phase, Recorded, State};
use backstitch::store::Stored;

use super::ledger::{Answer, RawCall};

/// Differences between row and log, and whether the saga has ended.
pub(super) fn row(definition: &Definition, saga: &Stored) -> Vec<String> {
    let row = &saga.summary;
    let state = match State::fold(definition, &saga.log) {
        Ok(state) => state,
        Err(misfit) => return vec![format!("its log cannot be folded: {misfit}")],
    };
    let mut found = Vec::new();
    let failed_step = state.cause.as_ref().and_then(|cause| cause.failed_step.clone());
    if (row.status, row.paused, &row.failed_step) != (state.status, state.paused, &failed_step) {
        found.push(format!(
            "its row says {}, paused {}, failed step {:?}; its log says {}, {}, {failed_step:?}",
            row.status, row.paused, row.failed_step, state.status, state.paused
        ));
    }
    if row.status.is_terminal() {
        if row.owner.is_some() {
            found.push("it has ended and still has an owner".to_owned());
        }
        if !saga.inbox.is_empty() {
            found.push(format!("it has ended, and {} messages were never answered", saga.inbox.len()));
        }
        return found;
    }
    if row.owner.is_none() && row.wake_at.is_none() && !row.paused {
        found.push(format!("it is {} with no owner, no due time and no pause", row.status));
    }
    if !row.paused {
        let last = saga.log.last().map_or("nothing", |recorded| recorded.event.name());
        found.push(format!("it is still {} (owner {:?}, last event {last})", row.status, row.owner));
    }
    found
}

/// Differences between calls and log.
pub(super) fn calls(definition: &Definition, saga: &Stored, calls: &[RawCall]) -> Vec<String> {
    let mut found = Vec::new();
    let logged = attempts(&saga.log);
    let mut seen: HashMap<(&str, Phase, u32), &RawCall> = HashMap::new();
    for call in calls {
        let attempt = (call.step.as_str(), call.phase, call.attempt);
        if !logged.contains(&attempt) {
            found.push(format!("{} called without a logged attempt: {call}", call.caller));
        }
        if let Some(before) = seen.insert(attempt, call) {
            found.push(format!("{} and {} made the same attempt: {call}", before.caller, call.caller));
        }
        let key = format!("{}:{}:{}", call.saga, call.step, call.phase.as_str());
        if call.key != key {
            found.push(format!("the key of a call is {}, not {key}", call.key));
        }
    }
    for recorded in &saga.log {
        let answered = match &recorded.event {
            Event::StepSucceeded { step, attempt, .. } => (step.as_str(), Phase::Do, *attempt),
            Event::StepCompensated { step, attempt, .. } => (step.as_str(), Phase::Undo, *attempt),
            _ => continue,
        };
        if seen.get(&answered).is_none_or(|call| call.answer != Answer::Done) {
            let (step, phase, attempt) = answered;
            let phase = phase.as_str();
            found.push(format!("{phase} {attempt} of {step} is logged as done, and no call did it"));
        }
    }
    let took_effect = |step: &str, phase: Phase| {
        calls.iter().any(|call| call.step == step && call.phase == phase && call.answer.took_effect())
    };
    for step in definition.steps() {
        let id = step.id.as_str();
        let (done, undone) = (took_effect(id, Phase::Do), took_effect(id, Phase::Undo));
        match saga.summary.status {
            Status::Succeeded if !done => found.push(format!("it succeeded, and {id} was never done")),
            Status::Succeeded if undone => found.push(format!("it succeeded, and {id} was undone")),
            Status::Compensated if done && !undone && step.compensation.is_some() => {
                found.push(format!("it is compensated, and {id} was done and never undone"));
            }
            _ => {}
        }
    }
    found
}

fn attempts(log: &[Recorded]) -> HashSet<(&str, Phase, u32)> {
    let attempts = log.iter().filter_map(|recorded| match &recorded.event {
        Event::StepStarted { step, attempt, .. } => Some((step.as_str(), Phase::Do, *attempt)),
        Event::StepCompensating { step, attempt, .. } => Some((step.as_str(), Phase::Undo, *attempt)),
        _ => None,
    });
    attempts.collect()
}

/// Attempts that were running when their node ended.
pub(super) fn interrupted(log: &[Recorded]) -> usize {
    let mut in_flight: HashSet<(&str, Phase)> = HashSet::new();
    let mut interrupted = 0;
    for recorded in log {
        match &recorded.event {
            Event::StepStarted { step, .. } => {
                in_flight.insert((step.as_str(), Phase::Do));
            }
            Event::StepCompensating { step, .. } => {
                in_flight.insert((step.as_str(), Phase::Undo));
            }
            Event::StepSucceeded { step, .. }
            | Event::StepFailed { step, .. }
            | Event::StepTimedOut { step, .. } => {
                in_flight.remove(&(step.as_str(), Phase::Do));
            }
            Event::StepRetry { step, phase, .. } => {
                in_flight.remove(&(step.as_str(), *phase));
            }
            Event::StepCompensated { step, .. } | Event::StepCompensationFailed { step, .. } => {
                in_flight.remove(&(step.as_str(), Phase::Undo));
            }
            Event::SagaAdopted { .. } => {
                interrupted += in_flight.len();
                in_flight.clear();
            }
            _ => {}
        }
    }
    interrupted
}
