//! The decision of every input in every state of an instance: start reading here.

use std::sync::Arc;
use std::time::Duration;

use super::draft::{DraftAction, FAILED};
use super::event::{AbandonReason, Event, Given, Recorded, Started};
use super::instance::{Failure, Instance, due_at};
use super::machine::{Kind, Machine, after_error, after_success};
use crate::error::StepError;
use crate::payload::Payload;
use crate::time::Timestamp;

/// An input to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Start it, or start it again.
    Start(Given),
    /// Move it to another state.
    Transition {
        /// The next state.
        to: String,
        /// Data for the log and for later actions.
        data: Option<Payload>,
    },
    /// Fail it.
    Fail(Failure),
    /// Abandon it in its pause state.
    Abandon {
        /// The reason.
        note: String,
    },
    /// Its pause has expired.
    PauseExpired {
        /// The pause; see [`Instance::entry`].
        entry: u64,
    },
    /// An outside worker has leased an attempt of the state's action.
    Leased {
        /// The entry into the state; see [`Instance::entry`].
        entry: u64,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// A worker's timeout, or the queue timeout, has passed.
    WorkerTimedOut {
        /// The entry into the state; see [`Instance::entry`].
        entry: u64,
        /// The attempt, from 1.
        attempt: u32,
        /// The claim of the node that noticed it; see [`Instance::token`].
        token: u64,
    },
    /// An attempt of the state's action has a result.
    Answered {
        /// The entry into the state; see [`Instance::entry`].
        entry: u64,
        /// The attempt, from 1.
        attempt: u32,
        /// The claim of the performing node, if it needed one; see [`Instance::token`].
        token: Option<u64>,
        /// The result.
        outcome: Result<Payload, StepError>,
    },
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The previous state; none for a new instance.
    pub from: Option<Arc<str>>,
    /// The events to append, at least one.
    pub events: Vec<Recorded>,
    /// The instance afterwards.
    pub instance: Instance,
    /// The attempt for an outside worker, if there is one.
    pub offer: Option<Offer>,
}

/// An attempt for an outside worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The queue that workers lease it from.
    pub queue: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The earliest time of a lease.
    pub due_at: Timestamp,
}

/// Why an input changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The instance does not exist.
    #[error("it was never started: start it first")]
    NeverStarted,
    /// The instance has ended.
    #[error("no non-terminal row to transition: it ended in `{state}`, and nothing changes that any more")]
    Ended {
        /// Its state.
        state: Arc<str>,
    },
    /// It was abandoned.
    #[error("it was abandoned in `{state}`, and nothing changes that any more: use another key")]
    Abandoned {
        /// The pause state that it stays in.
        state: Arc<str>,
    },
    /// Only an instance in a pause state can be abandoned.
    #[error(
        "`{state}` is no pause state, and only a paused lifecycle can be abandoned: fail it, or let it go on"
    )]
    NotPaused {
        /// Its state.
        state: Arc<str>,
    },
    /// It is already in that state.
    #[error("it is in `{state}` already: there is nothing to do")]
    SameState {
        /// The state.
        state: Arc<str>,
    },
    /// The machine has no such state.
    #[error("the machine has no state `{0}`")]
    UnknownState(String),
    /// The machine has no such edge.
    #[error("nothing leads from `{from}` to `{to}`: {}", listed(.instead))]
    NoEdge {
        /// The current state.
        from: Arc<str>,
        /// The requested state.
        to: String,
        /// The allowed states.
        instead: Vec<String>,
    },
    /// It waits for a start.
    #[error("`{from}` waits for a start, which leads to `{to}`: start it again")]
    WaitsForStart {
        /// The current state.
        from: Arc<str>,
        /// The state after a start.
        to: Arc<str>,
    },
    /// The machine does not declare this kind of error.
    #[error("the machine declares no error kind `{0}`")]
    UnknownErrorKind(String),
    /// The current state cannot fail.
    #[error(
        "it cannot fail while it is in `{from}`: let it go on first, or declare a version that has it in `can_fail`"
    )]
    CannotFail {
        /// The current state.
        from: Arc<str>,
    },
    /// The attempt was leased before, and its timeout is running.
    #[error("a worker already leased this attempt of `{state}`; its timeout is running")]
    LeasedBefore {
        /// The current state.
        state: Arc<str>,
    },
    /// The result is late: the instance has moved on.
    #[error(
        "the result is late: the instance is now in `{state}`, or another worker has this attempt; discard it"
    )]
    Late {
        /// The current state.
        state: Arc<str>,
    },
}

/// Decides an input to the instance of this key, which may not exist yet.
///
/// # Errors
/// When nothing changes; the instance stays as it is.
pub fn decide(
    machine: &Machine,
    key: &str,
    instance: Option<&Instance>,
    input: Input,
    now: Timestamp,
) -> Result<Decision, Refused> {
    let Some(instance) = instance else {
        return match input {
            Input::Start(given) => Ok(begin(machine, key, given, now)),
            Input::Transition { .. }
            | Input::Fail(_)
            | Input::Abandon { .. }
            | Input::PauseExpired { .. }
            | Input::Leased { .. }
            | Input::WorkerTimedOut { .. }
            | Input::Answered { .. } => Err(Refused::NeverStarted),
        };
    };
    let from = &instance.state;
    let mut course = Course::of(machine, instance, now);
    match (machine.kind(from), input) {
        (_, Input::Answered { entry, attempt, token, outcome }) => {
            let is_awaited = instance.entry == entry
                && instance.failures + 1 == attempt
                && token.is_none_or(|token| token == instance.token);
            match machine.action(from).filter(|action| is_awaited && action.performer.is_some()) {
                Some(action) => course.answered(action, attempt, outcome),
                None => return Err(Refused::Late { state: from.clone() }),
            }
        }
        (_, Input::Leased { entry, attempt }) => {
            let (_, timeout) = waiting_attempt(machine, instance, entry, attempt)?;
            if instance.leased {
                return Err(Refused::LeasedBefore { state: from.clone() });
            }
            course.lease(attempt, timeout);
        }
        (_, Input::WorkerTimedOut { entry, attempt, token }) => {
            let (action, _) = waiting_attempt(machine, instance, entry, attempt)?;
            if token != instance.token {
                return Err(Refused::Late { state: from.clone() });
            }
            let error = if instance.leased {
                StepError::unanswered_by_workers()
            } else {
                StepError::not_taken_by_workers()
            };
            course.answered(action, attempt, Err(error));
        }
        (_, Input::PauseExpired { entry }) => {
            let is_awaited = instance.entry == entry && !instance.abandoned;
            if !is_awaited || machine.pause_expires(from).is_none() {
                return Err(Refused::Late { state: from.clone() });
            }
            course.abandon(AbandonReason::Expired);
        }
        // An ended instance refuses every input.
        _ if instance.abandoned => return Err(Refused::Abandoned { state: from.clone() }),
        (Some(Kind::Terminal) | None, _) => return Err(Refused::Ended { state: from.clone() }),
        (Some(Kind::Passing), Input::Start(given)) => course.restart(given),
        (Some(Kind::Pause(again)), Input::Start(given)) => {
            course.restart(given);
            course.go(again, None, None);
        }
        (Some(Kind::Passing | Kind::Pause(_)), Input::Transition { to, data }) => {
            may_follow(machine, from, &to)?;
            course.go(&to, data, None);
        }
        (Some(Kind::Passing | Kind::Pause(_)), Input::Fail(failure)) => {
            if !machine.knows_error(&failure.kind) {
                return Err(Refused::UnknownErrorKind(failure.kind));
            }
            if !machine.can_fail(from) {
                return Err(Refused::CannotFail { from: from.clone() });
            }
            course.fail(failure);
        }
        (Some(Kind::Passing), Input::Abandon { .. }) => {
            return Err(Refused::NotPaused { state: from.clone() });
        }
        (Some(Kind::Pause(_)), Input::Abandon { note }) => course.abandon(AbandonReason::Requested { note }),
    }
    Ok(course.decision(Some(from.clone())))
}

/// The worker's action of this state and its timeout, if this is the awaited attempt.
fn waiting_attempt<'m>(
    machine: &'m Machine,
    instance: &Instance,
    entry: u64,
    attempt: u32,
) -> Result<(&'m DraftAction, Duration), Refused> {
    let is_awaited = instance.entry == entry && instance.failures + 1 == attempt;
    let outside = machine.outside(&instance.state).filter(|_| is_awaited);
    let action = machine.action(&instance.state).zip(outside).map(|(action, (_, time))| (action, time));
    action.ok_or_else(|| Refused::Late { state: instance.state.clone() })
}

fn begin(machine: &Machine, key: &str, given: Given, now: Timestamp) -> Decision {
    let draft = machine.draft();
    let started = Started {
        machine: draft.name.clone(),
        version: draft.version,
        key: key.to_owned(),
        state: machine.named(&draft.initial),
        correlation_id: given.correlation_id,
        input: given.input,
    };
    let mut course = Course::of(machine, &Instance::begun(machine, &started, now), now);
    course.events.push(Recorded { seq: 1, at: now, event: Event::Started(Arc::new(started)) });
    course.pass_on();
    course.decision(None)
}

fn may_follow(machine: &Machine, from: &Arc<str>, to: &str) -> Result<(), Refused> {
    if machine.kind(to).is_none() {
        return Err(Refused::UnknownState(to.to_owned()));
    }
    if **from == *to {
        return Err(Refused::SameState { state: from.clone() });
    }
    if machine.follows(from).any(|next| next == to) {
        return Ok(());
    }
    Err(match machine.kind(from) {
        Some(Kind::Pause(again)) if **again == *to => {
            Refused::WaitsForStart { from: from.clone(), to: again.clone() }
        }
        _ => Refused::NoEdge {
            from: from.clone(),
            to: to.to_owned(),
            instead: machine.follows(from).map(str::to_owned).collect(),
        },
    })
}

/// A decision in progress.
struct Course<'m> {
    machine: &'m Machine,
    instance: Instance,
    events: Vec<Recorded>,
    /// The time of new events, never before the last event's time.
    now: Timestamp,
    /// The clock's time, also after it was set back: waits use it.
    clock: Timestamp,
}

impl<'m> Course<'m> {
    fn of(machine: &'m Machine, instance: &Instance, now: Timestamp) -> Self {
        // A clock that was set back must not reorder the log.
        let (clock, now) = (now, now.max(instance.updated_at));
        Self { machine, instance: instance.clone(), events: Vec::new(), now, clock }
    }

    fn append(&mut self, event: Event) {
        let recorded = Recorded { seq: self.instance.seq + 1, at: self.now, event };
        self.instance.apply(self.machine, &recorded);
        if self.instance.entry == recorded.seq {
            self.instance.due_at = due_at(self.machine, &self.instance.state, self.clock);
        }
        self.events.push(recorded);
    }

    fn restart(&mut self, given: Given) {
        let attempt = self.instance.attempt.saturating_add(1);
        self.append(Event::Restarted { attempt, given });
    }

    fn go(&mut self, to: &str, data: Option<Payload>, error: Option<Failure>) {
        let (from, to) = (self.instance.state.clone(), self.machine.named(to));
        self.append(Event::Transitioned { from, to, attempt: self.instance.attempt, data, error });
        self.pass_on();
    }

    /// Passes through states without an action. The check guarantees that they lead to one that waits or ends.
    fn pass_on(&mut self) {
        while let Some(action) = self.machine.action(&self.instance.state)
            && action.performer.is_none()
        {
            let (from, to) = (self.instance.state.clone(), self.machine.named(after_success(action)));
            let attempt = self.instance.attempt;
            self.append(Event::Transitioned { from, to, attempt, data: None, error: None });
        }
    }

    fn fail(&mut self, failure: Failure) {
        let (from, attempt) = (self.instance.state.clone(), self.instance.attempt);
        self.append(Event::Failed { from, attempt, failure });
    }

    fn abandon(&mut self, reason: AbandonReason) {
        let (state, attempt) = (self.instance.state.clone(), self.instance.attempt);
        self.append(Event::Abandoned { state, attempt, reason });
    }

    fn lease(&mut self, attempt: u32, timeout: Duration) {
        let state = self.instance.state.clone();
        self.append(Event::ActionLeased { state, attempt, until: self.clock.plus(timeout) });
    }

    fn answered(&mut self, action: &DraftAction, attempt: u32, outcome: Result<Payload, StepError>) {
        let error = match outcome {
            Ok(result) => {
                let data = Some(result).filter(|result| !result.is_null() || result.is_unparsed());
                return self.go(after_success(action), data, None);
            }
            Err(error) => error,
        };
        if error.kind.is_retryable() && action.retry.allows_another(attempt) {
            let wish = error.retry_after.unwrap_or_default().min(action.retry.longest_wish());
            let retry_at = self.clock.plus(action.retry.wait(attempt, self.seed()).max(wish));
            let state = self.instance.state.clone();
            let max_attempts = action.retry.count.saturating_add(1);
            return self.append(Event::ActionRetry { state, attempt, max_attempts, error, retry_at });
        }
        let failure = self.machine.failure(error);
        match after_error(action, &failure.kind) {
            FAILED => self.fail(failure),
            other => self.go(other, None, Some(failure)),
        }
    }

    /// Varies the jitter between instances.
    fn seed(&self) -> u64 {
        self.instance.entered_at.as_micros().unsigned_abs() ^ self.instance.entry
    }

    fn decision(self, from: Option<Arc<str>>) -> Decision {
        let offer = self.offer();
        Decision { from, events: self.events, instance: self.instance, offer }
    }

    /// The attempt for a worker, if this decision starts one.
    fn offer(&self) -> Option<Offer> {
        let (queue, _) = self.machine.outside(&self.instance.state)?;
        let due_at = self.events.iter().find_map(|recorded| match recorded.event {
            Event::ActionRetry { retry_at, .. } => Some(retry_at),
            _ => (recorded.seq == self.instance.entry).then_some(recorded.at),
        })?;
        Some(Offer { queue: queue.to_owned(), attempt: self.instance.failures + 1, due_at })
    }
}

fn listed(states: &[String]) -> String {
    if states.is_empty() {
        "no transition leads on from there".to_owned()
    } else {
        format!("choose from {}", states.join(", "))
    }
}
