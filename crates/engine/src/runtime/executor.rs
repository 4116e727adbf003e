//! Executes sagas. Live, after a crash and for operators, a saga takes the same way:
//!
//! ```text
//! begin, load ─▶ decide ─▶ plan ─▶ commit ─▶ publish ─▶ act
//!                  ▲                                     │
//!                  └──────────────── wait ◀──────────────┘
//! ```

mod act;
mod commit;
mod plan;
mod wait;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstitch_kernel::saga::{
    self, Decision, Definition, Effect, Event, Input, Now, Outcome, Recorded, Rejected, Resolution, Start,
    State, Status, decide_within,
};
use backstitch_kernel::{ErrorKind, SagaId, StepError, StepId, Timestamp};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::attempts::Attempts;
use super::failpoints::{Bug, is_enabled};
use super::room::{HeldSlot, Reservation, decide_within_room, starts_attempts};
use super::{ActiveSaga, End, RunSlot, Shared, StoreBackoff, Waiter, catch_panic};
use crate::error::Error;
use crate::group_commit::ItemResult;
use crate::inbox::Received;
use crate::registry::Registered;
use crate::run::{Accepted, Run};
use crate::start::check_note;
use crate::store::nodes::Epoch;
use crate::store::outbox::NewMessage;
use crate::store::product::ProductRow;
use crate::store::{self, Claim, Commit, Stored, Verdict};
use act::{RunningAttempt, TaskEnd};
pub(crate) use commit::Committer;
use commit::LoggedCommit;
use plan::{CommitContext, InboxPosition, Planned, WhenIdle, plan};

// ---- Begin -----------------------------------------------------------------------------------------------------------

/// A saga to begin, and what its start writes beside it.
pub(crate) struct NewSaga {
    pub(crate) at: Timestamp,
    pub(crate) start: Start,
    pub(crate) claim: Option<Claim>,
    pub(crate) rows: Vec<ProductRow>,
}

/// Begins a saga here. Its start is durable when this returns `Applied`; other verdicts leave nothing behind.
pub(crate) async fn begin(
    shared: &Arc<Shared>,
    definition: Arc<Registered>,
    new: NewSaga,
) -> Result<(Run, Verdict), Error> {
    let NewSaga { at, start, claim, rows } = new;
    let saga = shared.options.ids.next(at);
    // A full engine accepts the saga, which then waits for a slot.
    let slot = shared.slots.clone().try_acquire_owned().ok();
    let now = Now { at, draining: slot.is_none() };
    let mut reserved = Vec::new();
    let mut decision = decide_start(&definition, start, now, &mut reserved);
    let epoch = shared.epoch();
    let when_idle = if now.draining { WhenIdle::Keep } else { WhenIdle::Release };
    let context = CommitContext::new(shared, saga, &definition, epoch).when_idle(when_idle);
    let mut planned = plan(&context, &mut decision, Vec::new());
    (planned.commit.claim, planned.commit.rows) = (claim, rows);
    let run_slot = RunSlot::take(shared, saga).ok_or(Error::Raced(saga))?;
    let accepted = Accepted {
        definition: definition.name.clone(),
        version: definition.definition.version(),
        status: decision.state.status,
    };
    let run = Run::watching(shared.clone(), saga, run_slot.active(), accepted);
    let first =
        FirstDecision { run_slot, definition, decision, planned, epoch, inbox_seen: 0, slot, reserved };
    let verdict = first.commit(shared).await?;
    Ok((run, verdict))
}

/// The start of a saga for a transaction of the caller. No node owns the saga, and it is due at once: the node that finds
/// it decides everything else, even that it is late already.
pub(crate) fn accept(shared: &Shared, definition: &Registered, new: NewSaga) -> Commit {
    let NewSaga { at, start, claim, rows } = new;
    let saga = shared.options.ids.next(at);
    let mut decision = saga::accept(&definition.definition, start, at);
    let context = CommitContext::new(shared, saga, definition, shared.epoch()).when_idle(WhenIdle::Unowned);
    Commit { rows, claim, ..plan(&context, &mut decision, Vec::new()).commit }
}

/// Decide, for a start.
fn decide_start(
    definition: &Registered,
    start: Start,
    now: Now,
    reserved: &mut Vec<Reservation>,
) -> Decision {
    if !definition.is_limited() {
        return saga::start(&definition.definition, start, now);
    }
    let start = |full: &[usize]| {
        Ok::<_, Infallible>(saga::start_within(&definition.definition, start.clone(), now, full))
    };
    match decide_within_room(definition, &[], reserved, start) {
        Ok(decision) => decision,
        Err(never) => match never {},
    }
}

// ---- Load ------------------------------------------------------------------------------------------------------------

/// A saga that this node owns, about to be loaded.
pub(super) struct Resumption {
    pub(super) run_slot: RunSlot,
    pub(super) slot: OwnedSemaphorePermit,
    /// The room it waited for.
    pub(super) reservation: Option<Reservation>,
    /// The number of an adoption by this node that is not published yet.
    pub(super) adoption: Option<u64>,
}

/// Executes a saga on from its log, if this node owns it.
pub(super) fn resume(shared: &Arc<Shared>, stored: Stored, resumption: Resumption) {
    let row = &stored.summary;
    let epoch = shared.epoch();
    if row.status.is_terminal() || row.owner != Some(epoch) {
        return;
    }
    let Some(definition) = shared.registry.version(&row.definition, row.version) else {
        let (name, version) = (&row.definition, row.version);
        shared.cannot_execute(row.id, format!("version {version} of `{name}` is not registered here"));
        return;
    };
    let state = match State::fold(&definition.definition, &stored.log) {
        Ok(state) => Arc::new(state),
        Err(error) => {
            shared.cannot_execute(row.id, format!("its log does not fit its definition: {error}"));
            return;
        }
    };
    let Resumption { run_slot, slot, reservation, adoption } = resumption;
    match stored.log.last() {
        Some(adopted) if adoption == Some(adopted.seq) => {
            shared.publish_events(row.id, &definition, &state, vec![adopted.clone()], run_slot.active());
        }
        _ => run_slot.active().log().advanced_to(state.seq),
    }
    let reserved = reservation.into_iter().collect();
    let executor = Executor::new(shared.clone(), definition, state, epoch, run_slot, slot, reserved);
    shared.execute(row.id, executor.run_loaded(stored.inbox, stored.inbox_seq));
}

/// Goes on with a failed rollback as an operator decided. No node owns such a saga; this one does from then on.
pub(crate) async fn resolve(
    shared: &Arc<Shared>,
    saga: SagaId,
    seen: Option<u64>,
    step: &str,
    action: Resolution,
    note: &str,
) -> Result<(), Error> {
    check_note(note)?;
    if note.trim().is_empty() {
        return Err(Error::NoteMissing);
    }
    let stored = shared.store.load(&[saga]).await?.into_iter().next().ok_or(Error::NotFound(saga))?;
    let row = &stored.summary;
    let definition = shared
        .registry
        .version(&row.definition, row.version)
        .ok_or_else(|| Error::UnknownDefinition(format!("{} version {}", row.definition, row.version)))?;
    definition.keep(&*shared.store).await?;
    let refused = |error| store::Error::Refused(format!("the log does not fit the definition: {error}"));
    let state = State::fold(&definition.definition, &stored.log).map_err(refused)?;
    // The commit is fenced by what was folded, so nothing comes between this and the decision.
    if seen.is_some_and(|seen| seen != state.seq) {
        return Err(Error::Raced(saga));
    }
    let now = Now { at: shared.options.clock.now(), draining: shared.is_stopping() };
    let input = Input::Resolve { step: StepId::from(step), action, note: note.to_owned() };
    let decided = saga::decide(&definition.definition, saga, &state, input, now);
    let decision = decided.map_err(|why| Error::Rejected { saga, why })?;
    let mut decision = first_event_only(&definition.definition, &state, decision).map_err(refused)?;
    let (epoch, inbox_seen) = (shared.epoch(), stored.inbox_seq);
    let answered = (!stored.inbox.is_empty()).then_some(inbox_seen);
    let inbox = InboxPosition { seen: inbox_seen, answered, ..InboxPosition::default() };
    let when_idle = if now.draining { WhenIdle::Keep } else { WhenIdle::Release };
    let context =
        CommitContext::new(shared, saga, &definition, epoch).after(&state, inbox).when_idle(when_idle);
    let planned = plan(&context, &mut decision, Vec::new());
    // A full engine accepts the decision; the saga then waits for a slot.
    let slot = shared.slots.clone().try_acquire_owned().ok();
    let run_slot = RunSlot::take(shared, saga).ok_or(Error::Raced(saga))?;
    let reserved = Vec::new();
    let first = FirstDecision { run_slot, definition, decision, planned, epoch, inbox_seen, slot, reserved };
    match first.commit(shared).await? {
        Verdict::Applied => Ok(()),
        Verdict::Rejected(why) => Err(store::Error::Rejected(why).into()),
        _ => Err(Error::Raced(saga)),
    }
}

/// The row of a failed rollback may change to `compensating` and to nothing else, so the resolution is committed by
/// itself; what follows from it is the next decision, even if it is the end.
fn first_event_only(
    definition: &Definition,
    state: &State,
    mut decision: Decision,
) -> Result<Decision, saga::state::ReplayError> {
    decision.events.truncate(1);
    decision.effects.clear();
    decision.state = state.clone();
    for recorded in &decision.events {
        decision.state.append(definition, recorded)?;
    }
    Ok(decision)
}

// ---- The first commit of this process --------------------------------------------------------------------------------

/// The first decision of this process about a saga that it did not own before.
struct FirstDecision {
    run_slot: RunSlot,
    definition: Arc<Registered>,
    decision: Decision,
    planned: Planned,
    epoch: Epoch,
    inbox_seen: u64,
    /// Without a slot the saga waits for one in the run queue.
    slot: Option<OwnedSemaphorePermit>,
    /// Room for the attempts that the decision starts.
    reserved: Vec<Reservation>,
}

impl FirstDecision {
    /// Commits and executes on. If the caller goes away meanwhile, the sweep finds the saga.
    async fn commit(self, shared: &Arc<Shared>) -> Result<Verdict, Arc<store::Error>> {
        let Self { run_slot, definition, decision, planned, epoch, inbox_seen, slot, reserved } = self;
        let saga = run_slot.saga();
        let Ok(ItemResult { item: commit, result: verdict }) = shared.committer.commit(planned.commit).await
        else {
            return Err(Arc::new(store::Error::Unavailable("the engine has stopped".to_owned())));
        };
        let state = Arc::new(decision.state);
        let unanswered = match &verdict {
            Ok(Verdict::Applied) => {
                shared.publish(&definition, &state, commit, run_slot.active());
                None
            }
            Ok(_) => return verdict,
            // It may be written all the same: the executor looks it up in the log.
            Err(_) => Some(Box::new(commit)),
        };
        match slot {
            // Written or not, no node owns the saga: it is found when it is due.
            _ if planned.releases => {}
            Some(slot) => {
                let executor =
                    Executor::new(shared.clone(), definition, state, epoch, run_slot, slot, reserved);
                shared.execute(saga, executor.run_begun(unanswered, decision.effects, inbox_seen));
            }
            None => {
                let is_rollback = state.status == Status::Compensating;
                let definition = Some(definition.name.clone());
                drop(run_slot);
                shared.run_queue.push(saga, Waiter { definition, is_rollback, adoption: None });
            }
        }
        verdict
    }
}

// ---- A saga under way ------------------------------------------------------------------------------------------------

/// Executes one saga that this node owns.
struct Executor {
    shared: Arc<Shared>,
    saga: SagaId,
    definition: Arc<Registered>,
    state: Arc<State>,
    epoch: Epoch,
    /// What the saga waits for besides its attempts.
    tasks: FuturesUnordered<BoxFuture<'static, TaskEnd>>,
    /// Before the run slot: fields drop in this order, and attempts are aborted before another executor may take the saga.
    attempts: Attempts<TaskEnd>,
    run_slot: RunSlot,
    rollback: watch::Sender<bool>,
    /// Attempts that run here.
    running: Vec<RunningAttempt>,
    /// Positions of steps whose attempts wait for room.
    admitting: Vec<usize>,
    /// Room for attempts that are about to be decided.
    reserved: Vec<Reservation>,
    /// Outside attempts that are being withdrawn.
    withdrawing: usize,
    /// The newest message that was read.
    inbox_seen: u64,
    /// Messages up to this number are consumed.
    inbox_consumed: u64,
    /// The saga was woken for something that changed nothing, and can be released again.
    may_rest: bool,
    backoff: StoreBackoff,
    slot: AttemptSlot,
    /// Held while the saga waits in memory.
    resting: Option<OwnedSemaphorePermit>,
}

/// The slot that a saga holds while its attempts run here, and no longer.
enum AttemptSlot {
    Held(#[expect(dead_code, reason = "held until it is dropped")] HeldSlot),
    NotNeeded,
    /// Attempts could start if there was one.
    Wanted,
    /// The saga waits for one in the run queue.
    Queued,
}

/// An input that waits to be decided.
struct QueuedInput {
    input: Input,
    /// Messages that the attempt published; they are written with the decision.
    outgoing: Vec<NewMessage>,
    /// Its number in the inbox, if it is a message.
    inbox_seq: Option<u64>,
}

impl From<Received> for QueuedInput {
    fn from(received: Received) -> Self {
        let inbox_seq = Some(received.seq);
        Self { input: received.message.into(), outgoing: Vec::new(), inbox_seq }
    }
}

/// What becomes of an executor.
#[derive(PartialEq, Eq)]
enum Flow {
    /// It goes on, or its saga has ended.
    Owned,
    /// It stops: the saga was released, belongs to another node, or the engine stops.
    Stop,
    /// It stops, and a record in the run queue says when the saga goes on here.
    Parked,
}

impl Executor {
    fn new(
        shared: Arc<Shared>,
        definition: Arc<Registered>,
        state: Arc<State>,
        epoch: Epoch,
        run_slot: RunSlot,
        slot: OwnedSemaphorePermit,
        reserved: Vec<Reservation>,
    ) -> Self {
        let held = HeldSlot::new(slot, run_slot.active());
        Self {
            shared,
            saga: run_slot.saga(),
            definition,
            state,
            epoch,
            run_slot,
            tasks: FuturesUnordered::new(),
            attempts: Attempts::default(),
            rollback: watch::Sender::new(false),
            running: Vec::new(),
            admitting: Vec::new(),
            reserved,
            withdrawing: 0,
            inbox_seen: 0,
            inbox_consumed: 0,
            may_rest: false,
            backoff: StoreBackoff::default(),
            slot: AttemptSlot::Held(held),
            resting: None,
        }
    }

    /// Executes on from a first decision. If its commit was not answered, nothing happens unless the log has it.
    async fn run_begun(mut self, unanswered: Option<Box<Commit>>, effects: Vec<Effect>, inbox_seen: u64) {
        if let Some(commit) = unanswered {
            if self.look_up_commit(&commit.events).await != LoggedCommit::Applied {
                return;
            }
            self.shared.publish(&self.definition, &self.state, *commit, self.run_slot.active());
        }
        self.saw_inbox(inbox_seen);
        self.inbox_consumed = inbox_seen;
        // Where nothing follows at once, something may be due.
        let is_idle = effects.is_empty();
        self.act(effects);
        let flow = if is_idle { self.wake_and_run().await } else { self.run().await };
        self.finish(&flow).await;
    }

    /// Executes on from the log, with the messages that wait in the inbox.
    async fn run_loaded(mut self, inbox: Vec<Received>, inbox_seq: u64) {
        self.saw_inbox(inbox_seq);
        self.inbox_consumed = inbox_seq - inbox.len() as u64;
        let mut flow = Flow::Owned;
        // For what the saga waited for, and not for what its messages lead to.
        let reserved = std::mem::take(&mut self.reserved);
        // The node that began the rollback may have stopped before it withdrew them.
        if self.state.status == Status::Compensating {
            self.withdraw_unleased_attempts();
        }
        // The process that ran these attempts is gone, and no adoption has said so.
        if self.state.anything_runs_here() {
            let node = self.shared.node().name.clone();
            flow = self.process(Input::Adopted { node, epoch: self.epoch }, Vec::new()).await;
        }
        if flow == Flow::Owned {
            flow = self.process_all(inbox.into_iter().map(QueuedInput::from).collect()).await;
        }
        if flow == Flow::Owned {
            // If the wait for a worker goes on, the saga is released again.
            self.may_rest |= self.state.anything_is_queued();
            self.reserved.extend(reserved);
            flow = self.wake_and_run().await;
        }
        self.finish(&flow).await;
    }

    async fn wake_and_run(&mut self) -> Flow {
        match self.process(Input::Wake, Vec::new()).await {
            Flow::Owned => self.run().await,
            stopped @ (Flow::Stop | Flow::Parked) => stopped,
        }
    }

    /// Waits for the next input and decides it, until the saga has ended or leaves this process.
    async fn run(&mut self) -> Flow {
        while !self.state.status.is_terminal() {
            if self.must_stop() || self.release_at_rest().await {
                return Flow::Stop;
            }
            if self.parks() {
                return Flow::Parked;
            }
            let wakeup = self.wait().await;
            if self.handle(wakeup).await == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Owned
    }

    async fn finish(mut self, flow: &Flow) {
        // Before another executor in this process can take the saga, which would run the same attempts a second time.
        self.attempts.abort().await;
        let (shared, saga) = (self.shared.clone(), self.saga);
        if *flow == Flow::Parked {
            let active = self.run_slot.active().clone();
            drop(self);
            // No other task is notified of a message that arrives while the executor ends.
            if active.take_inbox_flag() {
                shared.run_queue.wake(saga);
            }
            return;
        }
        shared.run_queue.forget_room(saga);
        if *flow == Flow::Owned {
            self.run_slot.end(End::Final(self.definition, self.state));
        }
    }

    /// Takes an input through all steps. Messages that arrived in between are decided first.
    async fn process(&mut self, input: Input, outgoing: Vec<NewMessage>) -> Flow {
        self.process_all(VecDeque::from([QueuedInput { input, outgoing, inbox_seq: None }])).await
    }

    async fn process_all(&mut self, inputs: VecDeque<QueuedInput>) -> Flow {
        let flow = self.take_steps(inputs).await;
        // Room that no attempt wanted.
        self.reserved.clear();
        flow
    }

    /// Decide, plan, commit, publish, act: each input in turn.
    async fn take_steps(&mut self, mut inputs: VecDeque<QueuedInput>) -> Flow {
        while let Some(next) = inputs.pop_front() {
            let (now, decided) = self.decide(&next.input);
            let Some(mut decision) = self.worth_writing(&next, decided) else { continue };
            if self.may_time_out(&next.input) {
                tokio::select! {
                    () = self.shared.arriving.written_everywhere() => {}
                    () = self.shared.stopped() => return Flow::Stop,
                }
            }
            let Planned { commit, releases } = self.plan(&next, &inputs, now, &mut decision);
            if is_enabled(Bug::EffectBeforeCommit) {
                self.act(std::mem::take(&mut decision.effects));
            }
            let Some((commit, verdict)) = self.commit(commit).await else {
                return Flow::Stop;
            };
            self.store_answered();
            match verdict {
                Verdict::Applied => {
                    let effects = self.publish(&next, decision, commit);
                    self.act(effects);
                }
                Verdict::InboxChanged => {
                    inputs = self.after_inbox(next, inputs).await;
                    continue;
                }
                Verdict::Refused(why) | Verdict::Rejected(why) => {
                    let Some(failed) = unusable(next, &why) else {
                        self.shared.cannot_execute(self.saga, format!("a decision cannot be kept: {why}"));
                        return Flow::Stop;
                    };
                    inputs.push_front(failed);
                    continue;
                }
                Verdict::Fenced | Verdict::Replay(_) | Verdict::Conflict { .. } | Verdict::KeyHeld(_) => {
                    self.shared.counters.fenced.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(saga = %self.saga, "another node owns this saga now");
                    return Flow::Stop;
                }
            }
            if releases {
                self.shared.adoption.wake();
                return Flow::Stop;
            }
        }
        Flow::Owned
    }

    /// Decide. Attempts start only in a slot, and where there is room for them.
    fn decide(&mut self, input: &Input) -> (Now, Result<Decision, Rejected>) {
        let mut now = Now { at: self.shared.options.clock.now(), draining: self.shared.is_stopping() };
        let decided = self.decide_within_room(input, now);
        if matches!(self.slot, AttemptSlot::Held(_)) || !decided.as_ref().is_ok_and(starts_attempts) {
            return (now, decided);
        }
        if let Ok(slot) = self.shared.slots.clone().try_acquire_owned() {
            self.take_slot(slot);
            return (now, decided);
        }
        if !matches!(self.slot, AttemptSlot::Queued) {
            self.slot = AttemptSlot::Wanted;
        }
        now.draining = true;
        self.reserved.clear();
        (now, self.decide_within_room(input, now))
    }

    fn decide_within_room(&mut self, input: &Input, now: Now) -> Result<Decision, Rejected> {
        let Self { definition, saga, state, admitting, reserved, .. } = self;
        decide_within_room(definition, admitting, reserved, |full| {
            decide_within(&definition.definition, *saga, state, input.clone(), now, full)
        })
    }

    /// A decision without events is acted on at once; one that was rejected changes nothing.
    fn worth_writing(&mut self, of: &QueuedInput, decided: Result<Decision, Rejected>) -> Option<Decision> {
        match decided {
            Ok(decision) if !decision.events.is_empty() => return Some(decision),
            Ok(decision) => self.act(decision.effects),
            Err(rejected) => {
                if matches!(rejected, Rejected::Stale { .. }) {
                    self.shared.counters.stale_answers.fetch_add(1, Ordering::Relaxed);
                }
                tracing::debug!(saga = %self.saga, %rejected, "nothing to do");
            }
        }
        self.may_rest |= of.inbox_seq.is_some();
        None
    }

    /// Whether a worker's answer that has arrived must come first: before the end of its time, or of the saga's.
    fn may_time_out(&self, input: &Input) -> bool {
        *input == Input::Wake && self.state.anything_is_outside()
    }

    /// Plan, with the inputs that wait behind this one.
    fn plan(
        &self,
        of: &QueuedInput,
        waiting: &VecDeque<QueuedInput>,
        now: Now,
        decision: &mut Decision,
    ) -> Planned {
        // A message is consumed by the decision that answers it, and not before.
        let first_waiting = waiting.iter().filter_map(|waiting| waiting.inbox_seq).min();
        let answered = first_waiting.map_or(self.inbox_seen, |first| first - 1);
        let inbox = InboxPosition {
            seen: self.inbox_seen,
            answered: Some(answered).filter(|answered| *answered > self.inbox_consumed),
            waiting: first_waiting.is_some(),
            all_read: self.may_time_out(&of.input),
        };
        let is_busy = self.withdrawing > 0 || !waiting.is_empty() || now.draining;
        let when_idle = if is_busy { WhenIdle::Keep } else { WhenIdle::Release };
        let context = CommitContext::new(&self.shared, self.saga, &self.definition, self.epoch);
        let context = context.after(&self.state, inbox).when_idle(when_idle);
        plan(&context, decision, of.outgoing.clone())
    }

    /// Publish: everything that must know of a decision learns of it once it is durable.
    fn publish(&mut self, of: &QueuedInput, decision: Decision, commit: Commit) -> Vec<Effect> {
        self.inbox_consumed = commit.consume_inbox_through.unwrap_or(self.inbox_consumed);
        // An adoption, or another start of what was tried before, is no progress.
        if of.inbox_seq.is_some() || matches!(of.input, Input::Finished { .. }) {
            self.shared.stalled.progressed(self.saga);
        }
        self.shared.stalled.executed(self.saga);
        let status = std::mem::replace(&mut self.state, Arc::new(decision.state)).status;
        self.shared.publish(&self.definition, &self.state, commit, self.run_slot.active());
        if status != self.state.status && self.state.status == Status::Compensating {
            self.admitting.clear();
            self.shared.run_queue.forget_room(self.saga);
            if matches!(self.slot, AttemptSlot::Queued) {
                self.shared.run_queue.push(self.saga, self.waiter());
            }
        }
        decision.effects
    }

    /// The inputs in the order in which they are decided when a commit found new messages. Messages are decided in the order
    /// in which they came, and before anything else.
    async fn after_inbox(
        &mut self,
        refused: QueuedInput,
        mut inputs: VecDeque<QueuedInput>,
    ) -> VecDeque<QueuedInput> {
        let new = self.read_inbox().await.into_iter().map(QueuedInput::from);
        if refused.inbox_seq.is_some() {
            inputs.push_front(refused);
            inputs.extend(new);
            return inputs;
        }
        new.chain([refused]).chain(inputs).collect()
    }
}

/// An answer that the store cannot hold counts as one that cannot be used; no other input can be replaced so.
fn unusable(refused: QueuedInput, why: &str) -> Option<QueuedInput> {
    let QueuedInput { input, inbox_seq, .. } = refused;
    let Input::Finished { step, phase, attempt, outcome: Outcome::Succeeded(_) } = input else { return None };
    let message = format!("the step's result or messages cannot be kept: {why}");
    let outcome = Outcome::Failed(StepError::new(ErrorKind::Unusable, message));
    let input = Input::Finished { step, phase, attempt, outcome };
    Some(QueuedInput { input, outgoing: Vec::new(), inbox_seq })
}

impl Shared {
    /// Publishes a commit that is durable: wakes those that have work from it, and shows its events to their readers.
    fn publish(&self, definition: &Arc<Registered>, state: &Arc<State>, commit: Commit, active: &ActiveSaga) {
        if !commit.messages.is_empty() {
            self.outbox.wake();
        }
        // What was offered before a pause can be leased again.
        let resumes = |recorded: &Recorded| matches!(recorded.event, Event::SagaResumed { .. });
        if !commit.jobs.is_empty() || commit.events.iter().any(resumes) {
            self.work.notify_waiters();
        }
        if state.status.is_terminal() && definition.has_hooks() {
            self.jobs.wake();
        }
        self.publish_events(commit.saga, definition, state, commit.events, active);
    }

    /// Shows readers events that are durable, and the state that they lead to.
    fn publish_events(
        &self,
        saga: SagaId,
        definition: &Arc<Registered>,
        state: &Arc<State>,
        events: Vec<Recorded>,
        active: &ActiveSaga,
    ) {
        self.event_readers.publish(saga, definition, state, &events);
        active.log().wrote(events);
    }

    /// Executes a saga beside the loops. If its executor panics, the saga is stalled.
    fn execute(self: &Arc<Self>, saga: SagaId, executing: impl Future<Output = ()> + Send + 'static) {
        let shared = self.clone();
        self.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(executing).catch_unwind().await {
                let why = catch_panic::text(panic.as_ref());
                shared.cannot_execute(saga, format!("its executor panicked: {why}"));
            }
        });
    }
}
