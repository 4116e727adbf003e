//! Plan: the commit of a decision, with every row that follows from its events.

use std::time::Duration;

use backstitch_kernel::saga::state::Progress;
use backstitch_kernel::saga::{Decision, Definition, Event, Phase, Recorded, State};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use serde_json::json;

use crate::jobs::NewJob;
use crate::jobs::worker::{self, OfferedAttempt};
use crate::outbox::Announced;
use crate::registry::{HookKind, Registered};
use crate::runtime::Shared;
use crate::runtime::failpoints::{Bug, is_enabled};
use crate::store::nodes::Epoch;
use crate::store::outbox::{ALERTS, NewMessage};
use crate::store::{Commit, NewRow, RowUpdate, RowWrite};

/// A saga that waits for a worker is woken by the lease. Its row has a due time all the same: one without an owner, a due time
/// and a pause is taken for lost.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// A commit, and whether it releases the saga.
pub(super) struct Planned {
    pub(super) commit: Commit,
    pub(super) releases: bool,
}

/// What a decision was made on. A new one is for a start by this node; the methods say what is different.
pub(super) struct CommitContext<'a> {
    saga: SagaId,
    definition: &'a Registered,
    announced: &'a Announced,
    release_after: Duration,
    epoch: Epoch,
    /// The saga before the decision; `None` for a start.
    before: Option<&'a State>,
    inbox: InboxPosition,
    when_idle: WhenIdle,
}

/// How far a saga's inbox has been read, and what the decision answers of it.
#[derive(Clone, Copy, Default)]
pub(super) struct InboxPosition {
    /// The number of the newest message that was read.
    pub(super) seen: u64,
    /// The decision consumes the messages up to this number; none where there is nothing to consume.
    pub(super) answered: Option<u64>,
    /// Whether messages were read and are not answered yet; the end of the saga answers them all.
    pub(super) waiting: bool,
    /// Whether an unread message refuses the commit: time ends what the message could have ended.
    pub(super) all_read: bool,
}

/// Who owns a saga that has nothing to do now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenIdle {
    /// This node: work is in progress that the log does not show.
    Keep,
    /// This node, or none if nothing is due soon.
    Release,
    /// No node: the saga is due at once, for the node that finds it.
    Unowned,
}

impl<'a> CommitContext<'a> {
    pub(super) fn new(shared: &'a Shared, saga: SagaId, definition: &'a Registered, epoch: Epoch) -> Self {
        Self {
            saga,
            definition,
            announced: &shared.options.announced,
            release_after: shared.options.release_after,
            epoch,
            before: None,
            inbox: InboxPosition::default(),
            when_idle: WhenIdle::Release,
        }
    }

    pub(super) fn after(self, before: &'a State, inbox: InboxPosition) -> Self {
        Self { before: Some(before), inbox, ..self }
    }

    pub(super) fn when_idle(self, when_idle: WhenIdle) -> Self {
        Self { when_idle, ..self }
    }
}

/// Works out everything that a decision changes. The decision's events become the commit's.
pub(super) fn plan(
    on: &CommitContext<'_>,
    decision: &mut Decision,
    mut messages: Vec<NewMessage>,
) -> Planned {
    let ownership = on.ownership(decision);
    let mut jobs = Vec::new();
    for recorded in &decision.events {
        // Operators are alerted of each step that could not be undone, while the others are still being undone.
        if let Event::StepCompensationFailed { step, error, .. } = &recorded.event {
            let body = json!({
                "alert": "rollback_failed",
                "saga_id": on.saga,
                "definition": &*on.definition.name,
                "step": step,
                "error": error,
                "at": recorded.at,
            });
            messages.push(alert(format!("{}:{}", on.saga, recorded.seq), body));
        }
        messages.extend(on.announced.message(on.saga, &on.definition.name, recorded));
        jobs.extend(hook(on, recorded));
        jobs.extend(offer(recorded));
    }
    let commit = Commit {
        saga: on.saga,
        events: std::mem::take(&mut decision.events),
        row: row(on, &decision.state, ownership),
        consume_inbox_through: match ownership {
            Ownership::End if on.inbox.waiting => Some(on.inbox.seen),
            Ownership::End | Ownership::Keep | Ownership::Release { .. } => on.inbox.answered,
        },
        jobs,
        withdrawn_jobs: on.before.map(|before| withdrawn(on, before, &decision.state)).unwrap_or_default(),
        messages,
        rows: Vec::new(),
        claim: None,
    };
    Planned { commit, releases: matches!(ownership, Ownership::Release { .. }) }
}

/// Who owns a saga after a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This node, which goes on with it.
    Keep,
    /// No node: it has nothing to do for long. A paused saga without a deadline has no due time: it waits for a message.
    Release { wake_at: Option<Timestamp> },
    /// No node: the saga has ended.
    End,
}

impl CommitContext<'_> {
    fn ownership(&self, decision: &Decision) -> Ownership {
        let state = &decision.state;
        match self.when_idle {
            _ if state.status.is_terminal() => Ownership::End,
            WhenIdle::Unowned => Ownership::Release { wake_at: Some(state.at) },
            WhenIdle::Release if decision.effects.is_empty() => {
                ownership_at_rest(&self.definition.definition, state, self.release_after, state.at)
            }
            WhenIdle::Release | WhenIdle::Keep => Ownership::Keep,
        }
    }
}

/// Who owns an active saga for which nothing is to be done at once: the one rule that releases sagas.
pub(super) fn ownership_at_rest(
    definition: &Definition,
    state: &State,
    release_after: Duration,
    now: Timestamp,
) -> Ownership {
    if state.anything_runs_here() || expects_a_worker_soon(definition, state, release_after, now) {
        return Ownership::Keep;
    }
    match state.next_due() {
        Some(due) if due > now.plus(release_after) => Ownership::Release { wake_at: Some(due) },
        None if state.paused => Ownership::Release { wake_at: None },
        None if state.anything_is_queued() => Ownership::Release { wake_at: Some(now.plus(LOOK_AGAIN)) },
        Some(_) | None => Ownership::Keep,
    }
}

/// Whether a worker has had little time to lease an attempt that will not take long: such a saga is not released and
/// adopted again for every step.
fn expects_a_worker_soon(
    definition: &Definition,
    state: &State,
    release_after: Duration,
    now: Timestamp,
) -> bool {
    let is_short = |position: usize, phase: Phase| {
        let step = &state.steps[position];
        let timeout = definition.steps()[position].time_of_attempt(phase, step, now);
        matches!(step.phase(phase).progress, Progress::Queued { .. })
            && timeout.is_some_and(|timeout| timeout <= release_after)
    };
    now < state.at.plus(release_after)
        && (0..state.steps.len())
            .any(|position| [Phase::Do, Phase::Undo].into_iter().any(|phase| is_short(position, phase)))
}

fn row(on: &CommitContext<'_>, after: &State, ownership: Ownership) -> Option<RowWrite> {
    let failed_step = after.cause.as_ref().and_then(|cause| cause.failed_step.clone());
    let (owner, wake_at) = match ownership {
        Ownership::Keep => (Some(on.epoch), None),
        Ownership::Release { wake_at } => (None, wake_at),
        Ownership::End => (None, None),
    };
    let Some(before) = on.before else {
        return Some(RowWrite::Insert(NewRow {
            definition: on.definition.name.clone(),
            version: on.definition.definition.version(),
            status: after.status,
            owner,
            wake_at,
            failed_step,
            correlation_id: after.started.correlation_id.clone(),
            attributes: after.started.attributes.clone(),
            created_at: after.at,
        }));
    };
    let shows_something_new = before.status != after.status || before.paused != after.paused;
    let all_read = owner.is_none() || on.inbox.all_read;
    (shows_something_new || all_read).then(|| {
        RowWrite::Update(RowUpdate {
            status: after.status,
            paused: after.paused,
            failed_step,
            owner,
            wake_at,
            updated_at: after.at,
            inbox_seen: (all_read && !is_enabled(Bug::InboxUnguarded)).then_some(on.inbox.seen),
        })
    })
}

/// The job that calls a hook at the end of the saga.
fn hook(on: &CommitContext<'_>, recorded: &Recorded) -> Option<NewJob> {
    let kind = match &recorded.event {
        Event::SagaSucceeded => HookKind::Success,
        Event::SagaCompensated { .. } | Event::SagaFailed { .. } => HookKind::Failure,
        _ => return None,
    };
    if !on.definition.wants_hook(kind) {
        return None;
    }
    let (queue, hook) = (on.definition.hook_queue(kind), kind.as_str());
    let alert = json!({
        "alert": "hook_failed",
        "saga_id": on.saga,
        "definition": &*on.definition.name,
        "hook": hook,
    });
    let alert = Some(Payload::from(alert));
    // A saga can end twice: a failed rollback is resolved while the hook of the first end is still to be called.
    let subject = format!("{hook}@{}", recorded.seq);
    let payload = Payload::from(json!(recorded.seq));
    Some(NewJob { queue, subject, payload, due_at: recorded.at, alert })
}

/// The job that offers an attempt to outside workers.
fn offer(recorded: &Recorded) -> Option<NewJob> {
    let (step, phase, attempt, outside) = match &recorded.event {
        Event::StepStarted { step, attempt, outside } => (step, Phase::Do, *attempt, outside.as_ref()?),
        Event::StepCompensating { step, attempt, outside } => {
            (step, Phase::Undo, *attempt, outside.as_ref()?)
        }
        _ => return None,
    };
    let offered = OfferedAttempt { step: step.clone(), phase, attempt };
    let (queue, subject, payload) = (worker::queue(&outside.queue), offered.subject(), offered.payload());
    Some(NewJob { queue, subject, payload, due_at: recorded.at, alert: None })
}

/// The jobs of attempts that ended while they waited for a worker: no worker is to lease them any more.
fn withdrawn(on: &CommitContext<'_>, before: &State, after: &State) -> Vec<String> {
    if !before.anything_is_queued() {
        return Vec::new();
    }
    let phases =
        (0..before.steps.len()).flat_map(|position| [(position, Phase::Do), (position, Phase::Undo)]);
    let ended = phases.filter_map(|(position, phase)| {
        let (was, is) = (before.steps[position].phase(phase), after.steps[position].phase(phase));
        let was_queued = matches!(was.progress, Progress::Queued { .. });
        let is_in_flight = is.in_flight() && is.attempts == was.attempts;
        (was_queued && !is_in_flight).then(|| {
            let step = on.definition.definition.steps()[position].id.clone();
            OfferedAttempt { step, phase, attempt: was.attempts }.subject()
        })
    });
    ended.collect()
}

/// A message to the operators of this installation.
fn alert(key: String, body: serde_json::Value) -> NewMessage {
    NewMessage {
        topic: ALERTS.to_owned(),
        idempotency_key: key,
        ordering_key: None,
        payload: body.into(),
        expires_at: None,
    }
}
