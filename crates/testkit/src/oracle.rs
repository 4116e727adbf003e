//! A second opinion on what a saga does, written from the rules and not from the kernel.
//!
//! Where the kernel folds events into a state, the oracle keeps plain lists of what was tried and how each try
//! ended, and asks every question of those lists anew. Slow and obvious is the point: two programs this unlike
//! do not share their mistakes. Waits must be without jitter, which is a matter between kernel and saga id.

mod history;
mod script;

use std::collections::{BTreeMap, BTreeSet};

use backstitch_kernel::saga::{Definition, Input, Now, Outcome, Performer, Phase, Resolution, Status};
use backstitch_kernel::{ErrorKind, StepId, Timestamp};

use self::history::{End, Fate, History, Known};
pub use self::script::{Behaviour, Script, predict};

/// A try that should be in flight: where its step stands, what is tried, and its number.
pub type Try = (usize, Phase, u32);

/// What the rules say about a saga, given all that happened to it.
#[derive(Clone, Debug)]
pub struct Oracle<'a> {
    definition: &'a Definition,
    steps: Vec<History>,
    /// Whose action is over, in the order it came to that.
    over: Vec<usize>,
    /// What is in flight, oldest first.
    flying: Vec<Flight>,
    /// Whether it was turned round.
    turned: bool,
    /// The step that turned it round, if one did.
    turned_by: Option<usize>,
    /// Since when nothing new starts.
    paused: Option<Timestamp>,
    ended: Option<Status>,
    deadline: Option<Timestamp>,
    /// The time of what happens now: what the clock says, but never before what happened last.
    clock: Timestamp,
    /// When something happened last.
    last: Timestamp,
}

/// A try that nobody has heard of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    step: usize,
    phase: Phase,
    performer: FlightPerformer,
}

/// Who performs a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightPerformer {
    /// The node that drives the saga.
    Node,
    /// No worker has leased it yet; it leaves the queue after this time.
    Queue(Option<Timestamp>),
    /// A worker; without an answer by then, it has timed out.
    Worker(Timestamp),
}

/// How a saga should stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Where.
    pub status: Status,
    /// The step whose failure turned it round, if one did.
    pub failed_step: Option<StepId>,
    /// What is undone, by call or by hand.
    pub compensated: BTreeSet<StepId>,
    /// What could not be undone.
    pub stuck: BTreeSet<StepId>,
    /// Of two steps undone by call, the first must be undone before the second is begun with.
    pub before: Vec<(StepId, StepId)>,
    /// Calls of each step: actions, compensations.
    pub calls: BTreeMap<StepId, (u32, u32)>,
}

impl<'a> Oracle<'a> {
    /// A saga that has just been accepted.
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

    /// Takes in what happened; `false` when the rules forbid it, and then nothing changes.
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
            // A mere look at the saga leaves no trace unless something comes of it.
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
                // An outside worker does not notice that the node went away.
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

    /// Who waits for a worker has as much time left as before the pause.
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

    /// When something is due for a try if nothing happens. The wait for a worker does not end in a pause.
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

    /// A worker's time begins when it leases the try.
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

    /// What an outside worker has not taken or answered by its time is given up: one step after the other, and each is
    /// judged before the next. What was never taken was not done.
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

    /// Whether this step's action is over, and turns the saga round.
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

    /// Draws every conclusion from what happened. Only a look at the clock turns a late saga round, but no late one
    /// begins with anything.
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
        // Nobody tries again after the turn, so whoever is not in flight is over.
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

    /// Room for a compensation starts it if it is due, and otherwise means nothing.
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

    /// What is known about a step's action by now.
    fn known(&self, step: usize) -> Known {
        self.steps[step].known(self.definition.steps()[step].retry.count, self.turned)
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.clock)
    }

    /// Whether a step's action may be started now, for the first time or again.
    fn may_act(&self, step: usize) -> bool {
        let rules = &self.definition.steps()[step];
        let free = rules.depends_on.iter().all(|&parent| self.known(parent) == Known::Yes);
        free && self.known(step) == Known::Open && self.steps[step].action_is_due(&rules.retry, self.clock)
    }

    fn compensations_under_way(&self) -> usize {
        self.steps.iter().filter(|step| step.is_being_undone()).count()
    }

    /// Whether a step took effect, or may have, and can be undone.
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

    /// What should be in flight now.
    #[must_use]
    pub fn in_flight(&self) -> BTreeSet<Try> {
        let flying = self.flying.iter();
        flying.map(|&Flight { step, phase, .. }| (step, phase, self.steps[step].count(phase))).collect()
    }

    /// The limited steps that should be asking for room, on a node that is not held back.
    #[must_use]
    pub fn asking_for_room(&self) -> BTreeSet<usize> {
        if self.paused.is_some() || self.turned || self.ended.is_some() || self.is_late() {
            return BTreeSet::new();
        }
        let limited = |&step: &usize| self.definition.steps()[step].limited;
        (0..self.steps.len()).filter(limited).filter(|&step| self.may_act(step)).collect()
    }

    /// When something is due though nothing happens.
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

    /// Where the saga should stand.
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

    /// Everything that can be compared with what a real saga did.
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
                // What was stuck meanwhile may have been passed over.
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
