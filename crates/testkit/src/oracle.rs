//! An independent model of a saga, written from the rules and not from the kernel.
//!
//! Where the kernel folds events into a state, the oracle keeps plain lists of attempts and results, and answers every
//! question
//! from these lists. It is slow and obvious on purpose: two programs this different do not share their errors. It
//! supports no
//! jitter, which depends on the saga's id.

mod history;
mod script;

use std::collections::{BTreeMap, BTreeSet};

use backstitch_kernel::saga::{Definition, Input, Now, Outcome, Performer, Phase, Resolution, Status};
use backstitch_kernel::{ErrorKind, StepId, Timestamp};

use self::history::{End, Fate, History, Known};
pub use self::script::{Behaviour, Script, predict};

/// A running attempt: position of the step, phase, number.
pub type Try = (usize, Phase, u32);

/// The expected state of a saga after its inputs.
#[derive(Clone, Debug)]
pub struct Oracle<'a> {
    definition: &'a Definition,
    steps: Vec<History>,
    /// Ended actions, in the order of their end.
    over: Vec<usize>,
    /// Running attempts, oldest first.
    flying: Vec<Flight>,
    /// Whether the rollback has begun.
    turned: bool,
    /// The step whose failure began it.
    turned_by: Option<usize>,
    /// Since when it is paused.
    paused: Option<Timestamp>,
    ended: Option<Status>,
    deadline: Option<Timestamp>,
    /// The current time: the clock's, but never before the last input's.
    clock: Timestamp,
    /// The time of the last input.
    last: Timestamp,
}

/// A running attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    step: usize,
    phase: Phase,
    performer: FlightPerformer,
}

/// Who performs an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightPerformer {
    /// The node that executes the saga.
    Node,
    /// Queued for a worker until this time.
    Queue(Option<Timestamp>),
    /// A worker, until this timeout.
    Worker(Timestamp),
}

/// The expected outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The status.
    pub status: Status,
    /// The failed step, if there is one.
    pub failed_step: Option<StepId>,
    /// Compensated or resolved steps.
    pub compensated: BTreeSet<StepId>,
    /// Steps with a failed compensation.
    pub stuck: BTreeSet<StepId>,
    /// Pairs of compensated steps: the first must end before the second begins.
    pub before: Vec<(StepId, StepId)>,
    /// Calls per step: actions, compensations.
    pub calls: BTreeMap<StepId, (u32, u32)>,
}

impl<'a> Oracle<'a> {
    /// A newly accepted saga.
    #[must_use]
    pub fn start(definition: &'a Definition, deadline: Option<Timestamp>, now: Now) -> Self {
        let mut oracle = Self {
            definition,
            steps: vec![History::default(); definition.steps().len()],
            over: Vec::new(),
            flying: Vec::new(),
            turned: false,
            turned_by: None,
            paused: None,
            ended: None,
            deadline,
            clock: now.at,
            last: now.at,
        };
        oracle.settle(now.draining, true);
        oracle
    }

    /// Applies an input; `false` if the rules forbid it, and then nothing changes.
    pub fn take(&mut self, now: Now, input: &Input) -> bool {
        let mut next = self.clone();
        next.clock = next.last.max(now.at);
        let allowed = next.happen(now.draining, input);
        if allowed {
            let by_the_clock = *input == Input::Wake;
            if by_the_clock {
                next.give_up_the_overdue();
            }
            next.settle(now.draining, by_the_clock);
            // A wake-up leaves no trace unless something follows.
            let look = matches!(input, Input::Wake | Input::Admitted { .. });
            if !look || !next.is_like(self) {
                next.last = next.clock;
            }
            *self = next;
        }
        allowed
    }

    fn is_like(&self, other: &Self) -> bool {
        self.flying == other.flying && self.turned == other.turned && self.ended == other.ended
    }

    fn happen(&mut self, draining: bool, input: &Input) -> bool {
        if self.ended.is_some() {
            return match input {
                Input::Resolve { step, action, .. } => self.resolve(step, *action),
                _ => false,
            };
        }
        match input {
            Input::Wake => true,
            Input::Resolve { .. } => false,
            Input::Adopted { .. } => {
                // An outside worker's attempt does not end with the node.
                let is_outside = |flight: &&Flight| flight.performer != FlightPerformer::Node;
                let (outside, here) = self.flying.iter().partition(is_outside);
                self.flying = outside;
                let here: Vec<Flight> = here;
                for Flight { step, phase, .. } in here {
                    self.steps[step].finish(phase, End::Cut);
                }
                true
            }
            Input::Finished { step, phase, attempt, outcome } => self.answer(step, *phase, *attempt, outcome),
            Input::Leased { step, phase, attempt, at } => self.lease(step, *phase, *attempt, *at),
            Input::Admitted { step } => {
                let Some(step) = self.definition.position(step) else {
                    return false;
                };
                if self.turned {
                    return self.admit_compensation(step, draining);
                }
                if self.is_late() {
                    return true;
                }
                let admitted = self.may_act(step) && self.paused.is_none() && !draining;
                if admitted {
                    self.launch(step, Phase::Do);
                }
                admitted
            }
            Input::Cancel { .. } => !std::mem::replace(&mut self.turned, true),
            Input::Pause { .. } => {
                let allowed = self.paused.is_none();
                self.paused.get_or_insert(self.clock);
                allowed
            }
            Input::Resume { .. } => self.resume(),
        }
    }

    /// A pause extends the wait for a worker.
    fn resume(&mut self) -> bool {
        let Some(since) = self.paused.take() else { return false };
        for flight in &mut self.flying {
            if let FlightPerformer::Queue(Some(until)) = flight.performer {
                let left = until.as_micros() - since.as_micros();
                let until = Timestamp::from_micros(self.clock.as_micros() + left);
                flight.performer = FlightPerformer::Queue(Some(until));
            }
        }
        true
    }

    /// When a running attempt is due. The wait for a worker does not end during a pause.
    fn due(&self, flight: &Flight) -> Option<Timestamp> {
        match flight.performer {
            FlightPerformer::Node => None,
            FlightPerformer::Queue(until) => until.filter(|_| self.paused.is_none()),
            FlightPerformer::Worker(until) => Some(until),
        }
    }

    fn answer(&mut self, step: &StepId, phase: Phase, attempt: u32, outcome: &Outcome) -> bool {
        let Some(step) = self.definition.position(step) else {
            return false;
        };
        let expected = self.in_flight().contains(&(step, phase, attempt));
        if expected {
            self.flying.retain(|flight| (flight.step, flight.phase) != (step, phase));
            let end = match outcome {
                Outcome::Succeeded(_) => End::Good,
                Outcome::Failed(error) => {
                    End::Bad { kind: error.kind, at: self.clock, wish: error.retry_after }
                }
            };
            self.steps[step].finish(phase, end);
        }
        expected
    }

    /// A worker's timeout begins with the lease.
    fn lease(&mut self, step: &StepId, phase: Phase, attempt: u32, at: Timestamp) -> bool {
        let Some(step) = self.definition.position(step) else {
            return false;
        };
        let written = &self.definition.draft().steps[step];
        let timeout = match phase {
            Phase::Do => Some(written.timeout),
            Phase::Undo => written.compensate.as_ref().map(|undo| undo.timeout),
        };
        let expected = self.in_flight().contains(&(step, phase, attempt));
        let flight = self.flying.iter_mut().find(|flight| (flight.step, flight.phase) == (step, phase));
        match (flight, timeout) {
            (Some(flight), Some(timeout))
                if expected && matches!(flight.performer, FlightPerformer::Queue(_)) =>
            {
                flight.performer = FlightPerformer::Worker(at.max(self.clock).plus(timeout));
                true
            }
            _ => false,
        }
    }

    fn resolve(&mut self, step: &StepId, action: Resolution) -> bool {
        let Some(step) = self.definition.position(step) else {
            return false;
        };
        if self.ended != Some(Status::Failed) || self.steps[step].fate != Fate::Stuck {
            return false;
        }
        self.ended = None;
        self.steps[step].fate = match action {
            Resolution::Skip => Fate::Skipped,
            Resolution::Done => Fate::ByHand,
            Resolution::Retry => {
                self.steps[step].new_round();
                Fate::Owing
            }
        };
        true
    }

    /// Times out overdue attempts of outside workers one by one; each is judged before the next. An attempt that was
    /// never leased had
    /// no effect.
    fn give_up_the_overdue(&mut self) {
        let clock = self.clock;
        let is_overdue = |flight: &Flight| self.due(flight).is_some_and(|due| due <= clock);
        let (mut overdue, waiting): (Vec<_>, Vec<_>) = self.flying.iter().copied().partition(is_overdue);
        self.flying = waiting;
        overdue.sort_by_key(|flight| flight.step);
        for Flight { step, phase, performer } in overdue {
            let taken = matches!(performer, FlightPerformer::Worker(_));
            let kind = if taken { ErrorKind::TimedOut } else { ErrorKind::Failed };
            let end = End::Bad { kind, at: clock, wish: None };
            self.steps[step].finish(phase, end);
            self.judge(step);
        }
    }

    /// Records whether this step's action has ended and begins a rollback.
    fn judge(&mut self, step: usize) {
        let known = self.known(step);
        if known != Known::Open && !self.over.contains(&step) {
            self.over.push(step);
        }
        if !self.turned && matches!(known, Known::No | Known::Doubtful) {
            self.turned = true;
            self.turned_by = Some(step);
        }
    }

    /// Draws all conclusions. Only a wake-up begins the rollback of a late saga, but no late saga starts anything.
    fn settle(&mut self, draining: bool, by_the_clock: bool) {
        let everyone = 0..self.steps.len();
        self.note_who_is_over();
        let failed = everyone.clone().find(|&step| matches!(self.known(step), Known::No | Known::Doubtful));
        let all_done = everyone.clone().all(|step| self.known(step) == Known::Yes);
        if !self.turned && failed.is_some() {
            self.turned = true;
            self.turned_by = failed;
        }
        self.turned |= by_the_clock && self.is_late() && !all_done;
        // No retries follow after the rollback began, so steps without a running attempt have ended.
        self.note_who_is_over();
        let resting = self.paused.is_none() && !draining;
        if self.turned {
            self.go_back(resting);
        } else if all_done {
            self.ended = Some(Status::Succeeded);
        } else if resting && !self.is_late() {
            for step in everyone {
                if self.may_act(step) && !self.definition.steps()[step].limited {
                    self.launch(step, Phase::Do);
                }
            }
        }
    }

    fn note_who_is_over(&mut self) {
        for step in 0..self.steps.len() {
            if self.known(step) != Known::Open && !self.over.contains(&step) {
                self.over.push(step);
            }
        }
    }

    fn go_back(&mut self, may_start: bool) {
        for step in 0..self.steps.len() {
            if self.steps[step].fate == Fate::Owing {
                let limit =
                    self.definition.steps()[step].compensation.as_ref().map_or(0, |undo| undo.retry.count);
                self.steps[step].judge_compensation(limit);
            }
        }
        if self.flying.iter().any(|flight| flight.phase == Phase::Do) {
            return;
        }
        if may_start {
            for step in 0..self.steps.len() {
                let undo = self.definition.steps()[step].compensation.as_ref();
                if undo.is_some_and(|undo| self.steps[step].compensation_is_due(&undo.retry, self.clock)) {
                    self.launch(step, Phase::Undo);
                }
            }
            while self.compensations_under_way() < self.definition.compensation_concurrency() {
                let last = self.over.iter().rev().copied().find(|&step| self.may_be_undone(step));
                let Some(step) = last else { break };
                self.launch(step, Phase::Undo);
            }
        }
        let more = (0..self.steps.len()).any(|step| self.may_be_undone(step));
        if self.compensations_under_way() == 0 && !more {
            let stuck = self.steps.iter().any(|step| step.fate == Fate::Stuck);
            self.ended = Some(if stuck { Status::Failed } else { Status::Compensated });
        }
    }

    /// Room for a compensation starts it if it is due, and otherwise does nothing.
    fn admit_compensation(&mut self, step: usize, draining: bool) -> bool {
        let undo = self.definition.steps()[step].compensation.as_ref();
        let again = undo.is_some_and(|undo| self.steps[step].compensation_is_due(&undo.retry, self.clock));
        let first = self.may_be_undone(step)
            && self.compensations_under_way() < self.definition.compensation_concurrency();
        let awaits_actions = self.flying.iter().any(|flight| flight.phase == Phase::Do);
        let admitted = (again || first) && !awaits_actions && self.paused.is_none() && !draining;
        if admitted {
            self.launch(step, Phase::Undo);
        }
        admitted
    }

    fn launch(&mut self, step: usize, phase: Phase) {
        self.steps[step].begin(phase);
        self.flying.push(Flight { step, phase, performer: self.performer(step, phase) });
    }

    fn performer(&self, step: usize, phase: Phase) -> FlightPerformer {
        let written = &self.definition.draft().steps[step];
        let (performer, wait) = match (phase, &written.compensate) {
            (Phase::Do, _) => (&written.action, written.queue_timeout),
            (Phase::Undo, Some(undo)) => (&undo.action, undo.queue_timeout),
            (Phase::Undo, None) => return FlightPerformer::Node,
        };
        match performer {
            Performer::Worker { .. } => FlightPerformer::Queue(wait.map(|wait| self.clock.plus(wait))),
            Performer::Code | Performer::Call(_) => FlightPerformer::Node,
        }
    }

    /// What is known about a step's action now.
    fn known(&self, step: usize) -> Known {
        self.steps[step].known(self.definition.steps()[step].retry.count, self.turned)
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.clock)
    }

    /// Whether a step's action may start now, for the first time or as a retry.
    fn may_act(&self, step: usize) -> bool {
        let rules = &self.definition.steps()[step];
        let free = rules.depends_on.iter().all(|&parent| self.known(parent) == Known::Yes);
        free && self.known(step) == Known::Open && self.steps[step].action_is_due(&rules.retry, self.clock)
    }

    fn compensations_under_way(&self) -> usize {
        self.steps.iter().filter(|step| step.is_being_undone()).count()
    }

    /// Whether a step took effect, or may have, and has a compensation.
    fn leaves_a_duty(&self, step: usize) -> bool {
        let happened = matches!(self.known(step), Known::Yes | Known::Doubtful);
        happened && self.definition.steps()[step].compensation.is_some()
    }

    fn may_be_undone(&self, step: usize) -> bool {
        let history = &self.steps[step];
        let goes_on = self.definition.continues_past_failed_compensation();
        let stopped = !goes_on && self.steps.iter().any(|other| other.fate == Fate::Stuck);
        self.leaves_a_duty(step)
            && history.fate == Fate::Owing
            && !history.is_being_undone()
            && (!stopped || history.was_asked_for_again())
            && self.everything_after(step).into_iter().all(|after| match self.steps[after].fate {
                Fate::Undone | Fate::Skipped | Fate::ByHand => true,
                Fate::Stuck => goes_on,
                Fate::Owing => !self.leaves_a_duty(after),
            })
    }

    fn everything_after(&self, step: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for (after, rules) in self.definition.steps().iter().enumerate() {
            if rules.depends_on.contains(&step) {
                all.insert(after);
                all.extend(self.everything_after(after));
            }
        }
        all
    }

    /// The expected running attempts.
    #[must_use]
    pub fn in_flight(&self) -> BTreeSet<Try> {
        let flying = self.flying.iter();
        flying.map(|&Flight { step, phase, .. }| (step, phase, self.steps[step].count(phase))).collect()
    }

    /// The limited steps that should ask for room, on a node that accepts work.
    #[must_use]
    pub fn asking_for_room(&self) -> BTreeSet<usize> {
        if self.paused.is_some() || self.turned || self.ended.is_some() || self.is_late() {
            return BTreeSet::new();
        }
        let limited = |&step: &usize| self.definition.steps()[step].limited;
        (0..self.steps.len()).filter(limited).filter(|&step| self.may_act(step)).collect()
    }

    /// When something is due without further input.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.ended.is_some() {
            return None;
        }
        let back = self.turned;
        let deadline = self.deadline.filter(|_| !back);
        let waits = (0..self.steps.len()).filter(|_| self.paused.is_none()).filter_map(|step| {
            let rules = &self.definition.steps()[step];
            match (back, &rules.compensation) {
                (false, _) => self.steps[step].action_waits_until(&rules.retry),
                (true, Some(undo)) => self.steps[step].compensation_waits_until(&undo.retry),
                (true, None) => None,
            }
        });
        let silences = self.flying.iter().filter_map(|flight| self.due(flight));
        waits.chain(silences).chain(deadline).min()
    }

    /// The expected status.
    #[must_use]
    pub fn status(&self) -> Status {
        let begun = self.steps.iter().any(|step| !step.tries.is_empty());
        match (self.ended, self.turned) {
            (Some(end), _) => end,
            (None, true) => Status::Compensating,
            (None, false) if begun => Status::Running,
            (None, false) => Status::Pending,
        }
    }

    /// Everything that can be compared with a real saga.
    #[must_use]
    pub fn prediction(&self) -> Prediction {
        let id = |step: usize| self.definition.steps()[step].id.clone();
        let with = |fates: &[Fate]| -> BTreeSet<usize> {
            (0..self.steps.len()).filter(|&step| fates.contains(&self.steps[step].fate)).collect()
        };
        let called = with(&[Fate::Undone]);
        let mut before = Vec::new();
        for &step in &called {
            for &after in self.everything_after(step).intersection(&called) {
                // A step that was stuck may have been skipped over.
                if !self.steps[after].was_asked_for_again() {
                    before.push((id(after), id(step)));
                }
            }
        }
        Prediction {
            status: self.status(),
            failed_step: self.turned_by.map(id),
            compensated: with(&[Fate::Undone, Fate::ByHand]).into_iter().map(id).collect(),
            stuck: with(&[Fate::Stuck]).into_iter().map(id).collect(),
            before,
            calls: (0..self.steps.len())
                .map(|step| {
                    let history = &self.steps[step];
                    (id(step), (history.count(Phase::Do), history.count(Phase::Undo)))
                })
                .collect(),
        }
    }
}
