//! The simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstitch_kernel::saga::{
    self, Decision, Effect, Event, Input, Now, Outcome, Phase, Resolution, State, Status, StepStatus,
};
use backstitch_kernel::{ErrorKind, Payload, StepError, StepId, Timestamp};

use super::journal::{Journal, Refusal};
use super::kind::{Circumstances, Kind};
use super::plan::Plan;
use super::random::Random;
use super::services::{Ledger, Made};
use super::{Failure, Run, Turn};

/// More turns mean a defect.
const MOST_TURNS: usize = 5_000;

/// A running call. Its result is drawn when it starts.
#[derive(Clone, Debug)]
struct Call {
    position: usize,
    phase: Phase,
    attempt: u32,
    outcome: Outcome,
    works: bool,
    /// Whether an outside worker has leased it.
    leased: bool,
}

impl Call {
    /// Whether no response will ever arrive.
    fn is_silent(&self) -> bool {
        matches!(&self.outcome, Outcome::Failed(error) if error.kind == ErrorKind::TimedOut)
    }
}

pub(super) struct World<'j, J> {
    plan: Plan,
    random: Random,
    journal: &'j mut J,
    state: State,
    clock: Timestamp,
    draining: bool,
    faults: u32,
    patience: u32,
    epoch: i64,
    calls: Vec<Call>,
    /// Attempts of outside workers; a node's crash does not end them.
    outside: Vec<Call>,
    /// A worker's durable report that is about to be consumed.
    mail: Option<Call>,
    /// Abandoned calls; some still arrive.
    ghosts: Vec<Call>,
    asks: BTreeSet<usize>,
    /// A node that does not know that it lost the saga, and a call that it waits for.
    zombie: Option<(State, Call)>,
    ledger: Ledger,
    turns: Vec<Turn>,
    seen: BTreeMap<Kind, u32>,
}

impl<'j, J: Journal> World<'j, J> {
    pub(super) fn begin(plan: Plan, random: Random, journal: &'j mut J) -> Result<Self, Failure> {
        let now = Now { at: plan.at, draining: plan.held };
        let decision = saga::start(&plan.definition, plan.start.clone(), now);
        append(journal, &plan, 0, &decision)?;
        let mut world = Self {
            random,
            journal,
            state: decision.state.clone(),
            clock: plan.at,
            draining: now.draining,
            faults: plan.faults,
            patience: plan.patience,
            epoch: 1,
            calls: Vec::new(),
            outside: Vec::new(),
            mail: None,
            ghosts: Vec::new(),
            asks: BTreeSet::new(),
            zombie: None,
            ledger: Ledger::default(),
            turns: Vec::new(),
            seen: BTreeMap::new(),
            plan,
        };
        world.keep(now, None, decision)?;
        Ok(world)
    }

    pub(super) fn play(mut self) -> Result<Run, Failure> {
        while !self.is_over() {
            if self.turns.len() > MOST_TURNS {
                return Err(Failure::Endless { turns: self.turns.len() });
            }
            let kind = self.draw()?;
            *self.seen.entry(kind).or_default() += 1;
            self.happen(kind)?;
        }
        // Abandoned calls arrive after the end.
        while let Some(call) = self.ghosts.pop() {
            self.answer(&call)?;
        }
        let log = self.journal.load(self.plan.saga).map_err(broken)?;
        Ok(Run { plan: self.plan, log, turns: self.turns, ledger: self.ledger, seen: self.seen })
    }

    fn is_over(&self) -> bool {
        match self.state.status {
            Status::Failed => !self.plan.cared_for,
            status => status.is_terminal(),
        }
    }

    /// Draws the next event.
    fn draw(&mut self) -> Result<Kind, Failure> {
        if self.state.status == Status::Failed {
            let pastime = if self.ghosts.is_empty() { Kind::Cancel } else { Kind::LateAnswer };
            return Ok(if self.random.chance(70) { Kind::Resolve } else { pastime });
        }
        let queued = self.queued().len();
        let workers = self.able_workers().len();
        let idle = self.calls.is_empty() && self.asks.is_empty() && workers == 0 && queued == 0;
        let due = self.state.next_due().is_some();
        if idle && !due && !self.state.paused && !self.draining {
            return Err(Failure::Silent { seq: self.state.seq });
        }
        let now = Circumstances {
            calls: self.calls.len() as u64,
            queued: queued as u64,
            workers: workers as u64,
            asks: self.asks.len() as u64,
            idle_until_due: idle && due,
            ghosts: !self.ghosts.is_empty(),
            zombie: self.zombie.is_some(),
            paused: self.state.paused,
            held: self.draining,
            trouble: self.is_stormy() && self.faults > 0,
            crashes: self.plan.crashes,
        };
        Ok(now.draw(&mut self.random))
    }

    fn happen(&mut self, kind: Kind) -> Result<(), Failure> {
        let passing = self.random.below(2_000_000);
        self.clock = self.clock.plus(Duration::from_micros(passing));
        let note = || "simulated".to_owned();
        match kind {
            Kind::Answer => {
                let nth = self.random.index(self.calls.len());
                let call = self.calls.swap_remove(nth);
                self.answer(&call)
            }
            Kind::Lease => {
                let queued = self.queued();
                let Call { position, phase, attempt, .. } =
                    self.outside[queued[self.random.index(queued.len())]];
                // If the node crashes here, the message is still there for the next one.
                self.say(Input::Leased { step: self.step(position), phase, attempt, at: self.clock })
            }
            Kind::WorkerAnswer => {
                let able = self.able_workers();
                let call = self.outside.swap_remove(able[self.random.index(able.len())]);
                self.mail = Some(call.clone());
                self.answer(&call)?;
                self.mail = None;
                Ok(())
            }
            Kind::LateAnswer => {
                let nth = self.random.index(self.ghosts.len());
                let call = self.ghosts.swap_remove(nth);
                self.answer(&call)
            }
            Kind::Room => {
                let nth = self.random.index(self.asks.len());
                let Some(position) = self.asks.iter().nth(nth).copied() else { return Ok(()) };
                self.asks.remove(&position);
                self.say(Input::Admitted { step: self.step(position) })
            }
            Kind::RoomForNobody => {
                let position = self.any_position();
                self.fault();
                self.say(Input::Admitted { step: self.step(position) })
            }
            Kind::Glance => self.say(Input::Wake),
            Kind::Due => {
                self.clock = self.state.next_due().map_or(self.clock, |due| due.max(self.clock));
                self.say(Input::Wake)
            }
            Kind::Crash => {
                self.fault();
                self.recover()
            }
            Kind::Zombie => self.let_the_zombie_try(),
            Kind::Cancel => {
                self.fault();
                self.say(Input::Cancel { note: note() })
            }
            Kind::Pause => {
                self.fault();
                self.say(Input::Pause { note: note() })
            }
            Kind::Resume => self.say(Input::Resume { note: note() }),
            Kind::Hold => {
                self.fault();
                self.draining = true;
                Ok(())
            }
            Kind::Release => {
                self.draining = false;
                self.say(Input::Wake)
            }
            Kind::ClockAhead => {
                self.fault();
                self.clock = self.clock.plus(Duration::from_secs(self.random.below(300)));
                Ok(())
            }
            Kind::ClockBack => {
                self.fault();
                let back = i64::try_from(self.random.below(120_000_000)).unwrap_or(0);
                self.clock = Timestamp::from_micros(self.clock.as_micros() - back);
                Ok(())
            }
            Kind::Resolve => self.resolve(),
            Kind::ResolveNothing => {
                let position = self.any_position();
                self.fault();
                self.say(Input::Resolve {
                    step: self.step(position),
                    action: Resolution::Retry,
                    note: note(),
                })
            }
            // These happen during a decision; see `say` and `keep`.
            Kind::LostDecision | Kind::LostEffects | Kind::GivenUp => Ok(()),
        }
    }

    /// Outside attempts that are not leased.
    fn queued(&self) -> Vec<usize> {
        (0..self.outside.len()).filter(|&nth| !self.outside[nth].leased).collect()
    }

    /// Outside attempts that are leased and will be reported.
    fn able_workers(&self) -> Vec<usize> {
        let able = |call: &Call| !call.is_silent() && call.leased;
        (0..self.outside.len()).filter(|&nth| able(&self.outside[nth])).collect()
    }

    fn is_stormy(&self) -> bool {
        self.turns.len() < self.plan.storm
    }

    fn fault(&mut self) {
        self.faults = self.faults.saturating_sub(1);
    }

    fn any_position(&mut self) -> usize {
        self.random.index(self.plan.definition.steps().len())
    }

    fn step(&self, position: usize) -> StepId {
        self.plan.definition.steps()[position].id.clone()
    }

    /// A call arrives at its service.
    fn arrive(&mut self, call: &Call) {
        if call.works {
            let step = self.step(call.position);
            self.ledger.take_effect(&step, call.phase);
        }
    }

    fn answer(&mut self, call: &Call) -> Result<(), Failure> {
        // A timed-out call may arrive long after the saga stopped waiting for it.
        if call.is_silent() && self.random.chance(50) {
            let late = Outcome::Succeeded(Payload::null());
            self.ghosts.push(Call { outcome: late, ..call.clone() });
        } else {
            self.arrive(call);
        }
        let finished = self.finished(call);
        self.say(finished)
    }

    fn finished(&self, call: &Call) -> Input {
        Input::Finished {
            step: self.step(call.position),
            phase: call.phase,
            attempt: call.attempt,
            outcome: call.outcome.clone(),
        }
    }

    /// Sends an input to the saga and handles the decision, unless the node crashes.
    fn say(&mut self, input: Input) -> Result<(), Failure> {
        let now = Now { at: self.clock, draining: self.draining };
        let decision = saga::decide(&self.plan.definition, self.plan.saga, &self.state, input.clone(), now);
        let decision = match decision {
            Ok(decision) => decision,
            Err(rejected) => {
                let calls = Some(self.in_flight());
                self.turns.push(Turn {
                    now,
                    input: Some(input),
                    rejected: Some(rejected),
                    state: self.state.clone(),
                    calls,
                    asks: None,
                });
                return Ok(());
            }
        };
        if self.is_stormy() && self.faults > 0 && !decision.events.is_empty() && self.random.chance(3) {
            self.fault();
            *self.seen.entry(Kind::LostDecision).or_default() += 1;
            // The next owner finds the report in the inbox.
            self.outside.extend(self.mail.take());
            return self.recover();
        }
        append(self.journal, &self.plan, self.state.seq, &decision)?;
        self.keep(now, Some(input), decision)
    }

    fn keep(&mut self, now: Now, input: Option<Input>, decision: Decision) -> Result<(), Failure> {
        self.state = decision.state;
        // Committed jobs are available to workers, even if the node crashes.
        for recorded in &decision.events {
            self.offer(&recorded.event);
        }
        self.give_up_the_overdue();
        let dies =
            self.is_stormy() && self.faults > 0 && !decision.effects.is_empty() && self.random.chance(3);
        let turn = Turn { now, input, rejected: None, state: self.state.clone(), calls: None, asks: None };
        if dies {
            self.fault();
            *self.seen.entry(Kind::LostEffects).or_default() += 1;
            self.turns.push(turn);
            return self.recover();
        }
        let mut asked = BTreeSet::new();
        for effect in decision.effects {
            match effect {
                Effect::Run { position, phase, attempt } => {
                    let call = self.call(position, phase, attempt);
                    self.calls.push(call);
                }
                Effect::Admit { position } => {
                    asked.insert(position);
                }
                Effect::SignalRollback => {}
            }
        }
        self.asks.extend(&asked);
        self.turns.push(Turn { calls: Some(self.in_flight()), asks: Some(asked), ..turn });
        Ok(())
    }

    fn in_flight(&self) -> BTreeSet<(usize, Phase, u32)> {
        self.calls.iter().chain(&self.outside).map(|call| (call.position, call.phase, call.attempt)).collect()
    }

    /// Offers an attempt to outside workers.
    fn offer(&mut self, event: &Event) {
        if let Event::StepLeased { step, phase, attempt, .. } = event {
            let position = self.plan.definition.position(step);
            let of = |call: &&mut Call| {
                Some(call.position) == position && (call.phase, call.attempt) == (*phase, *attempt)
            };
            if let Some(call) = self.outside.iter_mut().find(of) {
                call.leased = true;
            }
            return;
        }
        let (step, phase, attempt) = match event {
            Event::StepStarted { step, attempt, outside: Some(_) } => (step, Phase::Do, *attempt),
            Event::StepCompensating { step, attempt, outside: Some(_) } => (step, Phase::Undo, *attempt),
            _ => return,
        };
        if let Some(position) = self.plan.definition.position(step) {
            let call = self.call(position, phase, attempt);
            self.outside.push(call);
        }
    }

    /// Abandons attempts that timed out; they may still take effect.
    fn give_up_the_overdue(&mut self) {
        for call in std::mem::take(&mut self.outside) {
            let current = self.state.steps[call.position].phase(call.phase);
            if current.in_flight() && current.attempts == call.attempt {
                self.outside.push(call);
                continue;
            }
            *self.seen.entry(Kind::GivenUp).or_default() += 1;
            // An unleased attempt never takes effect.
            let fate = if call.leased { self.random.below(3) } else { u64::MAX };
            match fate {
                0 => self.arrive(&call),
                1 => self.ghosts.push(Call { outcome: Outcome::Succeeded(Payload::null()), ..call }),
                _ => {}
            }
        }
    }

    fn call(&mut self, position: usize, phase: Phase, attempt: u32) -> Call {
        let lucky = self.random.chance(self.plan.luck) || (!self.is_stormy() && self.random.chance(80));
        let (outcome, works) = if lucky {
            let result = Payload::encode(&attempt).unwrap_or_default();
            (Outcome::Succeeded(result), true)
        } else {
            let kind = self.random.pick([
                ErrorKind::Failed,
                ErrorKind::Refused,
                ErrorKind::InDoubt,
                ErrorKind::TimedOut,
                ErrorKind::Panicked,
                ErrorKind::Unusable,
            ]);
            let mut error = StepError::new(kind, format!("{kind:?}"));
            if self.random.chance(10) {
                error = error.with_retry_after(Duration::from_secs(self.random.below(1000)));
            }
            (Outcome::Failed(error), kind.leaves_doubt() && self.random.chance(50))
        };
        self.ledger.call(Made { step: self.step(position), phase, attempt });
        Call { position, phase, attempt, outcome, works, leased: false }
    }

    /// Another node adopts the saga, knowing only the log.
    fn recover(&mut self) -> Result<(), Failure> {
        let log = self.journal.load(self.plan.saga).map_err(broken)?;
        let read = State::fold(&self.plan.definition, &log)?;
        if read != self.state {
            return Err(Failure::Lost { seq: self.state.seq });
        }
        let before = std::mem::replace(&mut self.state, read);
        let lost = std::mem::take(&mut self.calls);
        self.asks.clear();
        self.draining = false;
        let waited_for = lost.last().cloned();
        for call in lost {
            // Some calls have arrived, some are in flight, some were never sent.
            match self.random.below(3) {
                0 => self.arrive(&call),
                1 => self.ghosts.push(call),
                _ => {}
            }
        }
        if self.state.status.is_terminal() {
            return Ok(());
        }
        self.epoch += 1;
        let adopted = Input::Adopted { node: format!("node-{}", self.epoch), epoch: self.epoch };
        self.say(adopted)?;
        if let Some(call) = waited_for
            && self.state.seq > before.seq
        {
            self.zombie = Some((before, call));
        }
        Ok(())
    }

    fn let_the_zombie_try(&mut self) -> Result<(), Failure> {
        let Some((state, call)) = self.zombie.take() else { return Ok(()) };
        let now = Now { at: self.clock, draining: false };
        let input = self.finished(&call);
        let decided = saga::decide(&self.plan.definition, self.plan.saga, &state, input, now);
        let Ok(decision) = decided else { return Ok(()) };
        match append(self.journal, &self.plan, state.seq, &decision) {
            Err(Failure::Fenced { .. }) => Ok(()),
            Err(other) => Err(other),
            Ok(()) => Err(Failure::NotFenced { seq: state.seq + 1 }),
        }
    }

    fn resolve(&mut self) -> Result<(), Failure> {
        let stuck: Vec<usize> = (0..self.state.steps.len())
            .filter(|&position| self.state.steps[position].status() == StepStatus::CompensationFailed)
            .collect();
        let nth = self.random.index(stuck.len());
        let Some(position) = stuck.get(nth).copied() else {
            return Err(Failure::Silent { seq: self.state.seq });
        };
        let action = if self.patience > 0 {
            self.patience -= 1;
            Resolution::Retry
        } else {
            self.random.pick([Resolution::Skip, Resolution::Done])
        };
        let step = self.step(position);
        if action == Resolution::Done {
            self.ledger.take_effect(&step, Phase::Undo);
        }
        self.say(Input::Resolve { step, action, note: "simulated".to_owned() })
    }
}

fn append<J: Journal>(
    journal: &mut J,
    plan: &Plan,
    expected_seq: u64,
    decision: &Decision,
) -> Result<(), Failure> {
    if decision.events.is_empty() {
        return Ok(());
    }
    match journal.append(plan.saga, expected_seq, &decision.events) {
        Ok(()) => Ok(()),
        Err(Refusal::Fenced) => Err(Failure::Fenced { seq: expected_seq + 1 }),
        Err(refusal @ Refusal::Broken(_)) => Err(broken(refusal)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn broken(refusal: Refusal) -> Failure {
    Failure::Journal(refusal.to_string())
}
