//! One saga's life in this process: wait for something to happen, decide, commit, then act.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use backstitch_kernel::saga::{
    Decision, Effect, Event, Input, Now, Outcome, Phase, Recorded, Rejected, State, Status, decide_within,
};
use backstitch_kernel::{ErrorKind, SagaId, StepError, StepId, Timestamp};
use futures::StreamExt;
use futures::future::{BoxFuture, ready};
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::attempts::Attempts;
use super::plan::{Circumstances, Planned, Tenure, plan, tenure};
use super::room::{HeldSlot, LimitedAttempt, Permits, Reservation, decide_within_room, starts_attempts};
use super::run_queue::Parked;
use super::{Grant, Patience, Seat, Shared, Waiter, attempt};
use crate::call::Call;
use crate::inbox::Received;
use crate::live::End;
use crate::planting::{self, Bug, is_planted};
use crate::registry::Registered;
use crate::store::nodes::Epoch;
use crate::store::outbox::NewMessage;
use crate::store::{self, Commit, Verdict};
use crate::work::{self, Offered};

/// An attempt that begins so soon after its decision has not waited for anything.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Runs one saga.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    saga: SagaId,
    definition: Arc<Registered>,
    state: Arc<State>,
    epoch: Epoch,
    /// What the saga waits for besides its attempts.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Before the seat: fields drop in this order, and attempts are aborted before another driver may take the saga.
    attempts: Attempts<Done>,
    seat: Seat,
    rollback: watch::Sender<bool>,
    /// Attempts that run here.
    running: Vec<Running>,
    /// Steps whose attempts wait for room.
    admitting: Vec<usize>,
    /// Room for attempts that are about to be decided.
    reserved: Vec<Reservation>,
    /// Outside attempts that are being taken back.
    withdrawing: usize,
    inbox_seen: u64,
    /// Messages up to this number are struck off.
    inbox_consumed: u64,
    /// A message came in that changed nothing: if the saga was only woken for that, it can be let go again.
    came_to_nothing: bool,
    /// With a store that does not do what it is asked.
    patience: Patience,
    slot: Slot,
    /// Held while the saga waits in memory.
    resting: Option<OwnedSemaphorePermit>,
}

/// A slot is held while attempts run here, and no longer.
enum Slot {
    Held(#[expect(dead_code, reason = "held until it is dropped")] HeldSlot),
    NotNeeded,
    /// Something could start if there was one.
    Wanted,
    /// The saga waits for one in the run queue.
    Queued,
}

/// An attempt that runs here.
struct Running {
    position: usize,
    phase: Phase,
    /// When its time is over, in microseconds: counted from its decision, or from when it could begin if that took long.
    until: Arc<AtomicI64>,
}

/// Something that ran beside the saga has ended.
enum Done {
    Attempt {
        position: usize,
        step: StepId,
        phase: Phase,
        attempt: u32,
        outcome: Outcome,
        outgoing: Vec<NewMessage>,
    },
    Room {
        position: usize,
        phase: Phase,
        permits: Permits,
    },
    /// Whether an outside attempt was taken back before a worker got it; the inbox has what became of it.
    Withdrawal(bool),
}

/// Something the saga has to answer to.
struct Asked {
    input: Input,
    /// Messages to the world that go out with the answer.
    outgoing: Vec<NewMessage>,
    /// Its number, if it is a message.
    mail: Option<u64>,
}

impl Asked {
    fn by_mail(received: Received) -> Self {
        let mail = Some(received.seq);
        Self { input: received.message.into(), outgoing: Vec::new(), mail }
    }
}

/// Whether the saga is still ours.
#[derive(PartialEq, Eq)]
enum Flow {
    Ours,
    LetGo,
    /// It is ours, and its record in the run queue says when it goes on.
    Parked,
}

impl Driver {
    /// A driver for a saga that is ours, in this state.
    pub(crate) fn new(
        shared: Arc<Shared>,
        definition: Arc<Registered>,
        state: Arc<State>,
        epoch: Epoch,
        seat: Seat,
        slot: OwnedSemaphorePermit,
        reserved: Vec<Reservation>,
    ) -> Self {
        let held = HeldSlot::new(slot, seat.live());
        Self {
            shared,
            saga: seat.saga(),
            definition,
            state,
            epoch,
            seat,
            work: FuturesUnordered::new(),
            attempts: Attempts::default(),
            rollback: watch::Sender::new(false),
            running: Vec::new(),
            admitting: Vec::new(),
            reserved,
            withdrawing: 0,
            inbox_seen: 0,
            inbox_consumed: 0,
            came_to_nothing: false,
            patience: Patience::default(),
            slot: Slot::Held(held),
            resting: None,
        }
    }

    /// Runs a saga on from a decision that has just been committed.
    pub(crate) async fn go_on(mut self, effects: Vec<Effect>, inbox_seen: u64) {
        self.saw_mail(inbox_seen);
        self.inbox_consumed = inbox_seen;
        // Where nothing follows at once, something may still be due.
        let idle = effects.is_empty();
        self.perform(effects);
        let flow = if idle { self.wake_and_drive().await } else { self.drive().await };
        self.finish(&flow).await;
    }

    /// Runs a saga on from a decision whose commit was not answered, if the log has it after all.
    pub(crate) async fn go_on_if_written(
        mut self,
        events: Vec<Recorded>,
        effects: Vec<Effect>,
        inbox_seen: u64,
    ) {
        if self.look_up_commit(&events).await == LoggedCommit::Applied {
            self.shared.announce(self.saga, &self.definition, &self.state, events, self.seat.live());
            self.go_on(effects, inbox_seen).await;
        }
    }

    /// Runs a saga that was taken over, with the messages that wait for it.
    pub(crate) async fn run_adopted(mut self, inbox: Vec<Received>, inbox_seq: u64) {
        self.saw_mail(inbox_seq);
        self.inbox_consumed = inbox_seq - inbox.len() as u64;
        let mut flow = Flow::Ours;
        // For what it waits for, and not for what its messages lead to.
        let reserved = std::mem::take(&mut self.reserved);
        // Whoever turned the saga round may not have come to it.
        if self.state.status == Status::Compensating {
            self.withdraw_what_no_worker_has();
        }
        // Whoever began this went away without a word, and no adoption has said so: nobody here runs that attempt.
        if self.state.anything_runs_here() {
            let node = self.shared.node().name.clone();
            flow = self.process(Input::Adopted { node, epoch: self.epoch }, Vec::new()).await;
        }
        if flow == Flow::Ours {
            flow = self.process_all(inbox.into_iter().map(Asked::by_mail).collect()).await;
        }
        if flow == Flow::Ours {
            // Where nothing has become of the wait for a worker, the saga is released again.
            self.came_to_nothing |= self.state.anything_is_queued();
            self.reserved.extend(reserved);
            flow = self.wake_and_drive().await;
        }
        self.finish(&flow).await;
    }

    async fn wake_and_drive(&mut self) -> Flow {
        match self.process(Input::Wake, Vec::new()).await {
            Flow::Ours => self.drive().await,
            ended @ (Flow::LetGo | Flow::Parked) => ended,
        }
    }

    async fn finish(mut self, flow: &Flow) {
        // Before the saga can be driven again in this process, which would run the same attempts a second time.
        self.attempts.abort().await;
        let (shared, saga) = (self.shared.clone(), self.saga);
        if *flow == Flow::Parked {
            let live = self.seat.live().clone();
            drop(self);
            // No other task is notified of a message that arrives while the driver ends.
            if live.take_mail_flag() {
                shared.run_queue.wake(saga);
            }
            return;
        }
        shared.run_queue.forget_room(saga);
        if *flow == Flow::Ours {
            self.seat.leave_for_good(End::Final(self.definition, self.state));
        }
    }

    async fn drive(&mut self) -> Flow {
        while !self.state.status.is_terminal() {
            if self.must_let_go() || self.rests_again().await {
                return Flow::LetGo;
            }
            if self.parks() {
                return Flow::Parked;
            }
            let flow = match self.next().await {
                Next::Nudged => self.look_around().await,
                Next::Due => {
                    // No worker has come for so long that the saga is released.
                    self.came_to_nothing |= self.state.anything_is_queued();
                    self.process(Input::Wake, Vec::new()).await
                }
                Next::Done(Done::Attempt { position, step, phase, attempt, outcome, outgoing }) => {
                    self.running.retain(|it| (it.position, it.phase) != (position, phase));
                    self.process(Input::Finished { step, phase, attempt, outcome }, outgoing).await
                }
                Next::Done(Done::Room { position, phase, permits }) => {
                    self.use_room(Reservation { position, phase, permits }).await
                }
                Next::Done(Done::Withdrawal(withdrawn)) => {
                    self.withdrawing -= 1;
                    self.came_to_nothing |= !withdrawn;
                    // Also if nothing was left to withdraw: an earlier try may have done it without an answer.
                    self.seat.live().nudge_for_mail();
                    Flow::Ours
                }
            };
            if flow == Flow::LetGo {
                return Flow::LetGo;
            }
        }
        Flow::Ours
    }

    /// Whether the process stops, the node was taken for dead, or it drains and nothing is in flight.
    fn must_let_go(&self) -> bool {
        self.shared.is_stopped()
            || self.epoch != self.shared.epoch()
            || (self.shared.is_stopping() && !self.state.anything_runs_here())
    }

    /// Lets go of a saga that was woken for nothing and has nothing to do for long. The log has nothing to say about that,
    /// so no decision carries it.
    async fn rests_again(&mut self) -> bool {
        if !std::mem::take(&mut self.came_to_nothing)
            || !self.work.is_empty()
            || !self.attempts.is_empty()
            || !self.admitting.is_empty()
            || matches!(self.slot, Slot::Wanted | Slot::Queued)
            || self.shared.is_stopping()
        {
            return false;
        }
        let (release_after, now) = (self.shared.options.release_after, self.shared.options.clock.now());
        let Tenure::LetGo { wake_at } = tenure(&self.definition.definition, &self.state, release_after, now)
        else {
            return false;
        };
        loop {
            let let_go =
                self.shared.store.let_go(self.saga, self.epoch, self.state.seq, wake_at, self.inbox_seen);
            match self.shared.answer(let_go).await {
                Ok(true) => {
                    self.shared.adoption.nudge();
                    return true;
                }
                // There is a newer message or event, or an earlier try was done though it was not answered.
                Ok(false) => {
                    if let Some(ours) = self.is_ours().await {
                        // Whoever left a message meanwhile has told us, and nobody else.
                        if ours {
                            self.seat.live().nudge_for_mail();
                        } else {
                            self.shared.adoption.nudge();
                        }
                        return !ours;
                    }
                }
                Err(error) => self.tell("a saga that waits cannot be let go", &error),
            }
            // Nobody knows whose it is, and whoever decided about it now might do so beside its next owner.
            self.patience.wait(&self.shared).await;
            if self.shared.is_stopping() || self.epoch != self.shared.epoch() {
                return true;
            }
        }
    }

    /// Whether the saga is ours by the store's word, and where we believe it is; `None` when there is no word. One that is
    /// ours and further on is left to the sweep, which reads it anew.
    async fn is_ours(&mut self) -> Option<bool> {
        match self.shared.answer(self.shared.store.load(&[self.saga])).await {
            Ok(found) => Some(found.iter().any(|stored| {
                stored.summary.owner == Some(self.epoch) && stored.log.len() as u64 == self.state.seq
            })),
            Err(error) => {
                self.tell("it cannot be read whose a saga is", &error);
                None
            }
        }
    }

    /// Gives the slot back where nothing runs here. A saga that waits then stays in memory if there is a place for it, and
    /// otherwise leaves a record in the run queue and nothing else.
    fn parks(&mut self) -> bool {
        if matches!(self.slot, Slot::Wanted) {
            self.slot = Slot::Queued;
            self.shared.run_queue.push(self.saga, self.waiter());
        }
        if !self.attempts.is_empty() || !self.work.is_empty() || self.state.anything_runs_here() {
            self.resting = None;
            return false;
        }
        // A grant without a slot is for the one that is held.
        if matches!(self.slot, Slot::Held(_)) && !self.seat.live().has_grants() {
            self.slot = Slot::NotNeeded;
        }
        if self.resting.is_none() {
            self.resting = self.shared.resting.clone().try_acquire_owned().ok();
        }
        let stays = self.resting.is_some() || self.seat.live().has_mail();
        if stays || self.shared.is_stopping() || !self.seat.live().refuse_grants() {
            return false;
        }
        let due = self.next_attempt().into_iter().chain(self.state.deadline()).min();
        let parked = Parked { due, inbox_seen: self.inbox_seen };
        self.shared.run_queue.park(self.saga, self.waiter(), parked);
        true
    }

    fn waiter(&self) -> Waiter {
        let is_rollback = self.state.status == Status::Compensating;
        Waiter { definition: Some(self.definition.name.clone()), is_rollback, adoption: None }
    }

    /// When an attempt is due, or the time of an outside worker is over. What waits for room or for a slot is due already;
    /// only these let it go on.
    fn next_attempt(&self) -> Option<Timestamp> {
        if matches!(self.slot, Slot::Queued) {
            let all: Vec<usize> = (0..self.state.steps.len()).collect();
            return self.state.next_attempt_besides(&all);
        }
        self.state.next_attempt_besides(&self.admitting)
    }

    async fn next(&mut self) -> Next {
        let now = self.shared.options.clock.now();
        let attempt = self.next_attempt();
        let until = |it: &Running| Timestamp::from_micros(it.until.load(Ordering::Relaxed));
        let ends = self.running.iter().map(until);
        self.seat.live().waits(self.state.at, attempt.into_iter().chain(ends).max());
        self.shared.undriven.driven(self.saga);
        // While draining nothing becomes due: whoever has the saga next will see to it.
        let rests_at = self.state.at.plus(self.shared.options.release_after);
        let rests_at = Some(rests_at).filter(|at| self.state.anything_is_queued() && *at > now);
        let due = attempt.into_iter().chain(self.state.deadline()).chain(rests_at).min();
        let due = due.filter(|_| !self.shared.is_stopping());
        let due = async {
            match due {
                Some(due) => tokio::time::sleep(due.since(now)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.seat.live().nudged() => Next::Nudged,
            done = self.attempts.next() => Next::Done(done),
            Some(done) = self.work.next() => Next::Done(done),
            () = due => Next::Due,
        }
    }

    async fn look_around(&mut self) -> Flow {
        for Grant { slot, reservation } in self.seat.live().take_grants() {
            if let Some(slot) = slot {
                self.take_slot(slot);
            }
            let flow = match reservation {
                Some(reservation) => self.use_room(reservation).await,
                None => self.process(Input::Wake, Vec::new()).await,
            };
            if flow == Flow::LetGo {
                return Flow::LetGo;
            }
        }
        if !self.seat.live().take_mail_flag() {
            return Flow::Ours;
        }
        let mail = self.fetch_mail().await;
        self.process_all(mail.into_iter().map(Asked::by_mail).collect()).await
    }

    /// Messages that nobody has looked at yet. A store that does not answer now is asked again later.
    async fn fetch_mail(&mut self) -> Vec<Received> {
        match self.shared.answer(self.shared.store.load(&[self.saga])).await {
            Ok(found) => {
                self.is_heard();
                let waiting = found.into_iter().flat_map(|stored| stored.inbox);
                let new: Vec<_> = waiting.filter(|received| received.seq > self.inbox_seen).collect();
                self.saw_mail(new.last().map_or(self.inbox_seen, |newest| newest.seq));
                new
            }
            Err(error) => {
                self.tell("the inbox cannot be read", &error);
                self.patience.wait(&self.shared).await;
                self.seat.live().nudge_for_mail();
                Vec::new()
            }
        }
    }

    fn saw_mail(&mut self, newest: u64) {
        self.inbox_seen = newest;
        self.seat.live().saw_mail(newest);
    }

    async fn use_room(&mut self, reservation: Reservation) -> Flow {
        let position = reservation.position;
        self.admitting.retain(|&waiting| waiting != position);
        let step = self.definition.definition.steps()[position].id.clone();
        self.reserved.push(reservation);
        self.process(Input::Admitted { step }, Vec::new()).await
    }

    /// Takes an input through to its effects. Messages that came in between are answered first.
    async fn process(&mut self, input: Input, outgoing: Vec<NewMessage>) -> Flow {
        self.process_all(VecDeque::from([Asked { input, outgoing, mail: None }])).await
    }

    async fn process_all(&mut self, queue: VecDeque<Asked>) -> Flow {
        let flow = self.decide_and_act(queue).await;
        // Room that no attempt wanted.
        self.reserved.clear();
        flow
    }

    async fn decide_and_act(&mut self, mut queue: VecDeque<Asked>) -> Flow {
        while let Some(Asked { input, outgoing, mail }) = queue.pop_front() {
            let (now, decided) = self.decide(&input);
            let decision = match decided {
                Ok(decision) => decision,
                Err(rejected) => {
                    self.note(&rejected);
                    self.came_to_nothing |= mail.is_some();
                    continue;
                }
            };
            if decision.events.is_empty() {
                self.came_to_nothing |= mail.is_some();
                self.perform(decision.effects);
                continue;
            }
            let mut decision = decision;
            // A worker's answer that is on disk comes before the end of its time, and of the saga's.
            let after_all_mail = input == Input::Wake && self.state.anything_is_outside();
            if after_all_mail {
                self.shared.arriving.written().await;
            }
            let on = Circumstances { after_all_mail, ..self.circumstances(&queue, now.hold) };
            let Planned { commit, released } = plan(&on, &mut decision, outgoing.clone(), None);
            if is_planted(Bug::EffectBeforeCommit) {
                self.perform(std::mem::take(&mut decision.effects));
            }
            // What was offered before the pause is to be had again.
            let goes_on = |recorded: &Recorded| matches!(recorded.event, Event::SagaResumed { .. });
            let offers = !commit.jobs.is_empty() || commit.events.iter().any(goes_on);
            let Some((commit, verdict)) = self.commit(commit).await else {
                return Flow::LetGo;
            };
            self.is_heard();
            match verdict {
                Verdict::Applied => {
                    self.shared.told(&commit.messages);
                    if offers {
                        self.shared.work.notify_waiters();
                    }
                    self.inbox_consumed = commit.consume_inbox_through.unwrap_or(self.inbox_consumed);
                    // To take a saga up, or to begin what has been tried before, is no step forward.
                    if mail.is_some() || matches!(input, Input::Finished { .. }) {
                        self.shared.undriven.moved(self.saga);
                    }
                    self.applied(decision, commit.events);
                }
                Verdict::MailWaiting => {
                    // Messages are answered in the order they came, and before anything else.
                    let asked = Asked { input, outgoing, mail };
                    let new = self.fetch_mail().await.into_iter().map(Asked::by_mail);
                    if asked.mail.is_some() {
                        queue.push_front(asked);
                        queue.extend(new);
                    } else {
                        queue = new.chain([asked]).chain(queue).collect();
                    }
                    continue;
                }
                Verdict::Refused(why) => {
                    let Some(failed) = unusable(input, &why) else {
                        self.shared.cannot_drive(self.saga, format!("a decision cannot be kept: {why}"));
                        return Flow::LetGo;
                    };
                    queue.push_front(Asked { input: failed, outgoing: Vec::new(), mail });
                    continue;
                }
                Verdict::Fenced | Verdict::Replay(_) | Verdict::Conflict { .. } | Verdict::KeyHeld(_) => {
                    self.shared.counters.fenced.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(saga = %self.saga, "somebody else has this saga now");
                    return Flow::LetGo;
                }
            }
            if released {
                self.shared.adoption.nudge();
                return Flow::LetGo;
            }
        }
        Flow::Ours
    }

    /// Decides. Attempts start only in a slot, and where there is room for them.
    fn decide(&mut self, input: &Input) -> (Now, Result<Decision, Rejected>) {
        let mut now = Now { at: self.shared.options.clock.now(), hold: self.shared.is_stopping() };
        let decided = self.decide_within_room(input, now);
        if matches!(self.slot, Slot::Held(_)) || !decided.as_ref().is_ok_and(starts_attempts) {
            return (now, decided);
        }
        if let Ok(slot) = self.shared.slots.clone().try_acquire_owned() {
            self.take_slot(slot);
            return (now, decided);
        }
        if !matches!(self.slot, Slot::Queued) {
            self.slot = Slot::Wanted;
        }
        now.hold = true;
        self.reserved.clear();
        (now, self.decide_within_room(input, now))
    }

    /// A saga holds one slot at most: another one is given back.
    fn take_slot(&mut self, permit: OwnedSemaphorePermit) {
        if matches!(self.slot, Slot::Held(_)) {
            return;
        }
        self.slot = Slot::Held(HeldSlot::new(permit, self.seat.live()));
        if !self.admitting.is_empty() {
            // What waits for room needs no other slot any more.
            self.shared.run_queue.got_slot();
        }
    }

    fn decide_within_room(&mut self, input: &Input, now: Now) -> Result<Decision, Rejected> {
        let Self { definition, saga, state, admitting, reserved, .. } = self;
        decide_within_room(definition, admitting, reserved, |full| {
            decide_within(&definition.definition, *saga, state, input.clone(), now, full)
        })
    }

    /// What a decision is made on while these wait to be decided about.
    fn circumstances(&self, queue: &VecDeque<Asked>, hold: bool) -> Circumstances<'_> {
        // A message is struck off with the decision that answers it, and not before.
        let first_waiting = queue.iter().filter_map(|asked| asked.mail).min();
        let answered = first_waiting.map_or(self.inbox_seen, |first| first - 1);
        Circumstances {
            saga: self.saga,
            definition: &self.definition,
            announced: &self.shared.options.announced,
            before: Some(&self.state),
            epoch: self.epoch,
            inbox_seen: self.inbox_seen,
            inbox_waiting: first_waiting.is_some(),
            after_all_mail: false,
            inbox_answered: Some(answered).filter(|answered| *answered > self.inbox_consumed),
            release_after: self.shared.options.release_after,
            busy: self.withdrawing > 0 || !queue.is_empty() || hold,
        }
    }

    fn note(&self, rejected: &Rejected) {
        if matches!(rejected, Rejected::Stale { .. }) {
            self.shared.counters.stale_answers.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(saga = %self.saga, %rejected, "nothing to do");
    }

    /// Commits for sure: when the store cannot say what happened, the log is read before anything is assumed.
    /// `None` when the engine stops meanwhile.
    async fn commit(&mut self, mut commit: Commit) -> Option<(Commit, Verdict)> {
        let mut in_doubt = false;
        loop {
            let written = self.shared.committer.commit(commit).await.ok()?;
            commit = written.item;
            match written.result {
                // What looks like a fence may be our own first try, which was still on its way when the log was read.
                Ok(Verdict::Fenced) if in_doubt => {}
                Ok(Verdict::Fenced) if is_planted(Bug::AppendUnfenced) => {
                    let verdict = planting::force(&*self.shared.store, &mut commit).await?;
                    return Some((commit, verdict));
                }
                Ok(verdict) => return Some((commit, verdict)),
                Err(error) => self.tell("a decision is not on disk yet", &error),
            }
            in_doubt = true;
            match self.look_up_commit(&commit.events).await {
                LoggedCommit::Applied => return Some((commit, Verdict::Applied)),
                LoggedCommit::Fenced => return Some((commit, Verdict::Fenced)),
                LoggedCommit::Absent => {}
                LoggedCommit::NotRead => return None,
            }
        }
    }

    /// Looks in the log for a commit whose outcome is unknown.
    async fn look_up_commit(&mut self, events: &[Recorded]) -> LoggedCommit {
        let fence = events.first().map_or(1, |event| event.seq) - 1;
        loop {
            self.patience.wait(&self.shared).await;
            if self.shared.is_stopped() || self.epoch != self.shared.epoch() {
                return LoggedCommit::NotRead;
            }
            match self.shared.answer(self.shared.store.durable_log(self.saga, fence, events.len())).await {
                Ok(found) if found.is_empty() => return LoggedCommit::Absent,
                Ok(found) if found == events => return LoggedCommit::Applied,
                Ok(_) => return LoggedCommit::Fenced,
                Err(error) => self.tell("the log cannot be read", &error),
            }
        }
    }

    /// The store did not do what it was asked. What does not go by itself has to be seen to: the saga stands still until
    /// then.
    fn tell(&mut self, what: &'static str, error: &store::Error) {
        if self.patience.is_news(what, error) {
            tracing::warn!(saga = %self.saga, %error, what, "the store is asked again");
        }
        if !matches!(error, store::Error::Unavailable(_)) {
            let now = self.shared.options.clock.now();
            self.shared.undriven.note(self.saga, format!("{what}: {error}"), now);
        }
    }

    /// The store has done what it was asked.
    fn is_heard(&mut self) {
        if self.patience.is_over() {
            self.shared.undriven.driven(self.saga);
        }
    }

    fn applied(&mut self, decision: Decision, events: Vec<Recorded>) {
        self.shared.undriven.driven(self.saga);
        let turns =
            self.state.status != decision.state.status && decision.state.status == Status::Compensating;
        self.state = Arc::new(decision.state);
        self.shared.announce(self.saga, &self.definition, &self.state, events, self.seat.live());
        if self.state.status.is_terminal() && self.definition.has_hooks() {
            self.shared.jobs.nudge();
        }
        if turns {
            self.admitting.clear();
            self.shared.run_queue.forget_room(self.saga);
            if matches!(self.slot, Slot::Queued) {
                self.shared.run_queue.push(self.saga, self.waiter());
            }
        }
        self.perform(decision.effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Run { position, phase, attempt } => self.run_attempt(position, phase, attempt),
                Effect::Admit { position } => self.ask_for_room(position),
                Effect::SignalRollback => {
                    self.rollback.send_replace(true);
                    self.withdraw_what_no_worker_has();
                }
            }
        }
    }

    /// The rollback has begun: what no outside worker has got yet, none is to get any more.
    fn withdraw_what_no_worker_has(&mut self) {
        for (step, state) in self.definition.definition.steps().iter().zip(&self.state.steps) {
            let attempt = &state.forward;
            if attempt.in_flight() && !attempt.runs_here() {
                let offered = Offered { step: step.id.clone(), phase: Phase::Do, attempt: attempt.attempts };
                self.withdrawing += 1;
                let withdrawn = work::withdraw(self.shared.clone(), self.saga, offered);
                self.work.push(Box::pin(async move { Done::Withdrawal(withdrawn.await) }));
            }
        }
    }

    fn run_attempt(&mut self, position: usize, phase: Phase, attempt: u32) {
        let call = Arc::new(Call {
            saga: self.saga,
            definition: self.definition.clone(),
            position,
            phase,
            attempt,
            state: self.state.clone(),
            rollback: self.rollback.subscribe(),
            max_payload: self.shared.options.max_payload,
            outgoing: std::sync::Mutex::default(),
        });
        let shared = self.shared.clone();
        let room = self.take_reservation(position, phase);
        let limited = LimitedAttempt::new(self.definition.limits(position, phase), self.seat.live());
        let step = &self.definition.definition.steps()[position];
        let timeout = step.time_of_attempt(phase, &self.state.steps[position], self.state.at);
        let begins = timeout.map(|timeout| {
            let ends = self.state.at.plus(timeout);
            let until = Arc::new(AtomicI64::new(ends.as_micros()));
            self.running.push(Running { position, phase, until: until.clone() });
            let (shared, live) = (shared.clone(), self.seat.live().clone());
            move || {
                let now_ends = shared.options.clock.now().plus(timeout);
                if now_ends.since(ends) > AT_ONCE {
                    until.store(now_ends.as_micros(), Ordering::Relaxed);
                    live.nudge();
                }
            }
        });
        let epoch = self.epoch;
        self.attempts.start(self.shared.tracked(async move {
            let outcome = attempt::run(&shared, call.clone(), epoch, begins).await;
            drop((room, limited));
            let step = call.step().clone();
            // Only what succeeded has anything to tell.
            let outgoing =
                if matches!(outcome, Outcome::Succeeded(_)) { call.take_outgoing() } else { Vec::new() };
            Done::Attempt { position, step, phase, attempt, outcome, outgoing }
        }));
    }

    fn ask_for_room(&mut self, position: usize) {
        if self.admitting.contains(&position) {
            return;
        }
        let phase = if self.state.status == Status::Compensating { Phase::Undo } else { Phase::Do };
        self.admitting.push(position);
        let definition = self.definition.clone();
        let limits = definition.limits(position, phase);
        if let Some(permits) = self.take_reservation(position, phase).or_else(|| limits.try_acquire()) {
            self.work.push(Box::pin(ready(Done::Room { position, phase, permits })));
            return;
        }
        let waiter = self.waiter();
        self.shared.run_queue.wait_for_room(self.saga, waiter, (position, phase), limits.clone());
    }

    fn take_reservation(&mut self, position: usize, phase: Phase) -> Option<Permits> {
        let found = self.reserved.iter().position(|it| it.is_for(position, phase))?;
        Some(self.reserved.swap_remove(found).permits)
    }
}

/// What the log says about a commit whose outcome is unknown.
#[derive(PartialEq, Eq)]
enum LoggedCommit {
    Applied,
    /// Another owner has appended at this position.
    Fenced,
    /// It was not written, and can be written again.
    Absent,
    /// The engine stops, or this node was declared dead, before the log could be read.
    NotRead,
}

/// An answer that the store cannot hold counts as one that cannot be used; only an answer can be replaced so.
fn unusable(input: Input, why: &str) -> Option<Input> {
    match input {
        Input::Finished { step, phase, attempt, outcome: Outcome::Succeeded(_) } => {
            let message = format!("the step's result or messages cannot be kept: {why}");
            let outcome = Outcome::Failed(StepError::new(ErrorKind::Unusable, message));
            Some(Input::Finished { step, phase, attempt, outcome })
        }
        _ => None,
    }
}

enum Next {
    Nudged,
    Due,
    Done(Done),
}
