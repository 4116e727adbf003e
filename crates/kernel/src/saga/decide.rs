//! The decision of every input in every state of a saga: start reading here.

use std::sync::Arc;

use super::advance::{advance, advance_by_the_clock, begin_rollback, fail_step};
use super::definition::Definition;
use super::event::{Event, Phase, Resolution};
use super::input::{Decision, Input, Now, Outcome, Rejected, Start};
use super::state::{PhaseState, Progress, State, Status};
use super::transition::Transition;
use crate::error::{ErrorKind, StepError};
use crate::id::{SagaId, StepId};
use crate::time::Timestamp;

/// Starts a new saga and the steps that can run.
#[must_use]
pub fn start(definition: &Definition, start: Start, now: Now) -> Decision {
    start_within(definition, start, now, &[])
}

/// The same when the steps at the positions in `full` have no room: they ask for room instead of starting.
#[must_use]
pub fn start_within(definition: &Definition, start: Start, now: Now, full: &[usize]) -> Decision {
    let mut next = begin(definition, start, now, full);
    advance_by_the_clock(&mut next);
    next.into_decision()
}

/// Accepts a new saga without starting steps; the node that adopts it decides the rest.
#[must_use]
pub fn accept(definition: &Definition, start: Start, at: Timestamp) -> Decision {
    begin(definition, start, Now::at(at), &[]).into_decision()
}

fn begin<'a>(definition: &'a Definition, start: Start, now: Now, full: &'a [usize]) -> Transition<'a> {
    let started = Arc::new(start.of(definition));
    let state = State::begin(definition, started.clone(), now.at);
    let mut next = Transition::from(definition, state, now, full);
    next.recorded_start(Event::SagaStarted(started));
    next
}

/// Decides an input: the events to append, and the effects to perform once they are durable.
///
/// # Errors
/// When the saga's state forbids the input; then nothing changes.
pub fn decide(
    definition: &Definition,
    saga: SagaId,
    state: &State,
    input: Input,
    now: Now,
) -> Result<Decision, Rejected> {
    decide_within(definition, saga, state, input, now, &[])
}

/// The same when the steps at the positions in `full` have no room: they ask for room instead of starting.
///
/// # Errors
/// When the saga's state forbids the input; then nothing changes.
pub fn decide_within(
    definition: &Definition,
    saga: SagaId,
    state: &State,
    input: Input,
    now: Now,
    full: &[usize],
) -> Result<Decision, Rejected> {
    use Status::{Compensated, Compensating, Failed, Pending, Running, Succeeded};

    let mut next = Transition::from(definition, state.clone(), now, full);
    match (state.status, input) {
        (Failed, Input::Resolve { step, action, note }) => resolve(&mut next, &step, action, note)?,
        (Succeeded | Compensated | Failed, _) => return Err(Rejected::Ended(state.status)),
        (Pending | Running | Compensating, Input::Resolve { .. }) => {
            return Err(Rejected::NotFailed(state.status));
        }

        // Time is judged only here, so a result that arrived before counts.
        (Pending | Running | Compensating, Input::Wake) => {
            time_out_the_outside(&mut next, saga);
            advance_by_the_clock(&mut next);
            return Ok(next.into_decision());
        }
        (Pending | Running | Compensating, Input::Adopted { node, epoch }) => {
            next.emit(Event::adopted(node, epoch));
        }

        (Pending | Running | Compensating, Input::Finished { step, phase: Phase::Do, attempt, outcome }) => {
            finish_action(&mut next, saga, &step, attempt, outcome)?;
        }
        (
            Pending | Running | Compensating,
            Input::Finished { step, phase: Phase::Undo, attempt, outcome },
        ) => {
            finish_compensation(&mut next, saga, &step, attempt, outcome)?;
        }

        (Pending | Running | Compensating, Input::Leased { step, phase, attempt, at }) => {
            lease_attempt(&mut next, &step, phase, attempt, at)?;
        }

        (Pending | Running, Input::Admitted { step }) => {
            let position = position(&next, &step)?;
            // Past its deadline the saga starts nothing; the next check of the clock begins the rollback.
            if !next.is_late() && !next.start_admitted(position) {
                return Err(Rejected::NotWaiting(step));
            }
        }
        (Compensating, Input::Admitted { step }) => {
            let position = position(&next, &step)?;
            if !next.start_admitted_compensation(position) {
                return Err(Rejected::NotWaiting(step));
            }
        }

        (Pending | Running, Input::Cancel { note }) => {
            // The error is shown as the reason of the rollback, so it is never empty.
            let reason = if note.trim().is_empty() { "cancelled without a note".to_owned() } else { note };
            begin_rollback(&mut next, None, StepError::new(ErrorKind::Cancelled, reason));
        }
        (Compensating, Input::Cancel { .. }) => return Err(Rejected::RollingBack),

        (Pending | Running | Compensating, Input::Pause { note }) => {
            if state.paused {
                return Err(Rejected::Paused);
            }
            next.emit(Event::SagaPaused { note });
        }
        (Pending | Running | Compensating, Input::Resume { note }) => {
            if !state.paused {
                return Err(Rejected::NotPaused);
            }
            next.emit(Event::SagaResumed { note });
        }
    }
    advance(&mut next);
    Ok(next.into_decision())
}

fn position(next: &Transition<'_>, step: &StepId) -> Result<usize, Rejected> {
    next.definition.position(step).ok_or_else(|| Rejected::UnknownStep(step.clone()))
}

/// Only the result of the running attempt counts; any other is late.
fn in_flight(next: &Transition<'_>, step: &StepId, phase: Phase, attempt: u32) -> Result<usize, Rejected> {
    let position = position(next, step)?;
    let current = next.state.steps[position].phase(phase);
    if current.in_flight() && current.attempts == attempt {
        Ok(position)
    } else {
        Err(Rejected::Stale { step: step.clone(), attempt })
    }
}

fn finish_action(
    next: &mut Transition<'_>,
    saga: SagaId,
    step: &StepId,
    attempt: u32,
    outcome: Outcome,
) -> Result<(), Rejected> {
    let position = in_flight(next, step, Phase::Do, attempt)?;
    match outcome {
        Outcome::Succeeded(result) => {
            next.emit_at(position, Event::StepSucceeded { step: step.clone(), attempt, result });
        }
        Outcome::Failed(error) => action_failed(next, saga, position, error),
    }
    Ok(())
}

fn action_failed(next: &mut Transition<'_>, saga: SagaId, position: usize, error: StepError) {
    // Once the rollback has begun, no action gets a new attempt.
    let goes_forward = next.state.status != Status::Compensating;
    if goes_forward && error.kind.is_retryable() && next.may_retry(saga, position, Phase::Do, &error) {
        next.retry_later(saga, position, Phase::Do, error);
        return;
    }
    fail_step(next, position, error.clone());
    if goes_forward {
        let step = next.definition.steps()[position].id.clone();
        begin_rollback(next, Some(step), error);
    }
}

fn finish_compensation(
    next: &mut Transition<'_>,
    saga: SagaId,
    step: &StepId,
    attempt: u32,
    outcome: Outcome,
) -> Result<(), Rejected> {
    let position = in_flight(next, step, Phase::Undo, attempt)?;
    let step = step.clone();
    match outcome {
        Outcome::Succeeded(result) => {
            next.emit_at(position, Event::StepCompensated { step, attempt, result });
        }
        Outcome::Failed(error) => compensation_failed(next, saga, position, error),
    }
    Ok(())
}

fn compensation_failed(next: &mut Transition<'_>, saga: SagaId, position: usize, error: StepError) {
    // A compensation is owed, so even a refusal is retried.
    if next.may_retry(saga, position, Phase::Undo, &error) {
        next.retry_later(saga, position, Phase::Undo, error);
        return;
    }
    let step = next.definition.steps()[position].id.clone();
    let attempt = next.state.steps[position].undo.attempts;
    next.emit_at(position, Event::StepCompensationFailed { step, attempt, error });
}

/// An attempt's timeout begins when a worker leases it, not when it is offered.
fn lease_attempt(
    next: &mut Transition<'_>,
    step: &StepId,
    phase: Phase,
    attempt: u32,
    at: Timestamp,
) -> Result<(), Rejected> {
    let position = in_flight(next, step, phase, attempt)?;
    let state = &next.state.steps[position];
    let queued = matches!(state.phase(phase).progress, Progress::Queued { .. });
    let timeout = next.definition.steps()[position].time_of_attempt(phase, state, at).filter(|_| queued);
    let timeout = timeout.ok_or_else(|| Rejected::NotQueued(step.clone()))?;
    // The store's clock and this node's may differ, and this node judges the end: the later time gives the worker its
    // whole timeout.
    let until = at.max(next.now.at).plus(timeout);
    next.emit_at(position, Event::StepLeased { step: step.clone(), phase, attempt, until });
    Ok(())
}

/// Ends attempts that no outside worker leased or finished in time. No worker can lease one while the saga is paused.
fn time_out_the_outside(next: &mut Transition<'_>, saga: SagaId) {
    let paused = next.state.paused;
    let late = |phase: &PhaseState, now: Timestamp| match phase.progress {
        Progress::Outside { until } if until <= now => Some(StepError::unanswered_by_workers()),
        Progress::Queued { until: Some(until) } if until <= now && !paused => {
            Some(StepError::not_taken_by_workers())
        }
        Progress::Outside { .. }
        | Progress::Queued { .. }
        | Progress::Idle
        | Progress::Running
        | Progress::Interrupted
        | Progress::Waiting { .. }
        | Progress::Done
        | Progress::Failed
        | Progress::Skipped => None,
    };
    for position in 0..next.state.steps.len() {
        let step = &next.state.steps[position];
        let (action, compensation) = (late(&step.forward, next.now.at), late(&step.undo, next.now.at));
        if let Some(error) = action {
            action_failed(next, saga, position, error);
        }
        if let Some(error) = compensation {
            compensation_failed(next, saga, position, error);
        }
    }
}

fn resolve(
    next: &mut Transition<'_>,
    step: &StepId,
    action: Resolution,
    note: String,
) -> Result<(), Rejected> {
    let position = position(next, step)?;
    if next.state.steps[position].undo.progress != Progress::Failed {
        return Err(Rejected::NotStuck(step.clone()));
    }
    next.emit_at(position, Event::StepResolved { step: step.clone(), action, note });
    Ok(())
}
