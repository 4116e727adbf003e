//! From a decision to a commit: which rows follow from it.

use std::time::Duration;

use backstitch_kernel::saga::state::Progress;
use backstitch_kernel::saga::{Decision, Definition, Event, Phase, Recorded, State};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use serde_json::json;

use crate::outbox::Announced;
use crate::planting::{Bug, is_planted};
use crate::registry::{HookKind, Registered};
use crate::store::jobs::NewJob;
use crate::store::nodes::Epoch;
use crate::store::outbox::{ALERTS, NewMessage};
use crate::store::{Claim, Commit, NewRow, RowUpdate, RowWrite};
use crate::work::{self, Offered};

/// A saga that waits for a worker is woken by the lease. Its row has a due time all the same: one without an owner, a due time
/// and a pause is taken for lost.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// A commit, and whether the saga is let go with it.
pub(crate) struct Planned {
    pub(crate) commit: Commit,
    pub(crate) released: bool,
}

/// What the decision was made on.
pub(crate) struct Circumstances<'a> {
    pub(crate) saga: SagaId,
    pub(crate) definition: &'a Registered,
    pub(crate) announced: &'a Announced,
    /// The saga before the decision; `None` for a start.
    pub(crate) before: Option<&'a State>,
    pub(crate) epoch: Epoch,
    /// Messages answered so far.
    pub(crate) inbox_seen: u64,
    /// Messages up to this number are answered with this decision; none when there is nothing to strike off.
    pub(crate) inbox_answered: Option<u64>,
    /// Whether messages wait that were seen and not answered yet; the end of the saga answers them all.
    pub(crate) inbox_waiting: bool,
    /// Whether no message may be on disk that was not seen: time ends what an answer could have ended.
    pub(crate) after_all_mail: bool,
    pub(crate) release_after: Duration,
    /// Whether something is being done for it, or is held back, that the log does not speak of.
    pub(crate) busy: bool,
}

/// Works out everything that a decision changes. The decision's events become the commit's.
pub(crate) fn plan(
    on: &Circumstances<'_>,
    decision: &mut Decision,
    messages: Vec<NewMessage>,
    claim: Option<Claim>,
) -> Planned {
    let tenure = if decision.state.status.is_terminal() {
        Tenure::End
    } else if decision.effects.is_empty() && !on.busy {
        tenure(&on.definition.definition, &decision.state, on.release_after, decision.state.at)
    } else {
        Tenure::Keep
    };
    let mut messages = messages;
    let mut jobs = Vec::new();
    for recorded in &decision.events {
        // Whoever looks after this hears of each step that could not be undone, and while the others are still at it.
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
        row: row(on, &decision.state, tenure),
        consume_inbox_through: match tenure {
            Tenure::End if on.inbox_waiting => Some(on.inbox_seen),
            Tenure::End | Tenure::Keep | Tenure::LetGo { .. } => on.inbox_answered,
        },
        jobs,
        withdrawn_jobs: on.before.map(|before| withdrawn(on, before, &decision.state)).unwrap_or_default(),
        messages,
        rows: Vec::new(),
        claim,
    };
    Planned { commit, released: matches!(tenure, Tenure::LetGo { .. }) }
}

/// Whether a saga stays with its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tenure {
    /// It goes on here.
    Keep,
    /// It has nothing to do for long. A paused saga without a deadline has no due time: it waits for a message.
    LetGo { wake_at: Option<Timestamp> },
    /// It is over.
    End,
}

/// Of a saga that is not over and for which nothing is to be done at once.
pub(super) fn tenure(
    definition: &Definition,
    state: &State,
    release_after: Duration,
    now: Timestamp,
) -> Tenure {
    if state.anything_runs_here() || expects_a_worker_soon(definition, state, release_after, now) {
        return Tenure::Keep;
    }
    match state.next_due() {
        Some(due) if due > now.plus(release_after) => Tenure::LetGo { wake_at: Some(due) },
        None if state.paused => Tenure::LetGo { wake_at: None },
        None if state.anything_is_queued() => Tenure::LetGo { wake_at: Some(now.plus(LOOK_AGAIN)) },
        Some(_) | None => Tenure::Keep,
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

fn row(on: &Circumstances<'_>, after: &State, tenure: Tenure) -> Option<RowWrite> {
    let failed_step = after.cause.as_ref().and_then(|cause| cause.failed_step.clone());
    let (owner, wake_at) = match tenure {
        Tenure::Keep => (Some(on.epoch), None),
        Tenure::LetGo { wake_at } => (None, wake_at),
        Tenure::End => (None, None),
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
    let after_all_mail = owner.is_none() || on.after_all_mail;
    (shows_something_new || after_all_mail).then(|| {
        RowWrite::Update(RowUpdate {
            status: after.status,
            paused: after.paused,
            failed_step,
            owner,
            wake_at,
            updated_at: after.at,
            inbox_seen: (after_all_mail && !is_planted(Bug::InboxUnguarded)).then_some(on.inbox_seen),
        })
    })
}

fn hook(on: &Circumstances<'_>, recorded: &Recorded) -> Option<NewJob> {
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
    // A saga can come to an end twice, the second time while somebody is still being told of the first.
    let subject = format!("{hook}@{}", recorded.seq);
    let payload = Payload::from(json!(recorded.seq));
    Some(NewJob { queue, subject, payload, due_at: recorded.at, alert })
}

/// Work for outside workers.
fn offer(recorded: &Recorded) -> Option<NewJob> {
    let (step, phase, attempt, outside) = match &recorded.event {
        Event::StepStarted { step, attempt, outside } => (step, Phase::Do, *attempt, outside.as_ref()?),
        Event::StepCompensating { step, attempt, outside } => {
            (step, Phase::Undo, *attempt, outside.as_ref()?)
        }
        _ => return None,
    };
    let offered = Offered { step: step.clone(), phase, attempt };
    let (queue, subject, payload) = (work::queue(&outside.queue), offered.subject(), offered.payload());
    Some(NewJob { queue, subject, payload, due_at: recorded.at, alert: None })
}

/// The jobs of attempts that ended while they waited for a worker: no worker is to lease them any more.
fn withdrawn(on: &Circumstances<'_>, before: &State, after: &State) -> Vec<String> {
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
            Offered { step, phase, attempt: was.attempts }.subject()
        })
    });
    ended.collect()
}

/// A message to whoever looks after this installation.
fn alert(key: String, body: serde_json::Value) -> NewMessage {
    NewMessage {
        topic: ALERTS.to_owned(),
        idempotency_key: key,
        ordering_key: None,
        payload: body.into(),
        expires_at: None,
    }
}
