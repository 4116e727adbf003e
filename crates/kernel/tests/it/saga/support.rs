//! A saga for tests: every decision is checked against the log before a test sees it.

use std::time::Duration;

use backstitch_kernel::saga::draft::{Draft, DraftCompensation, DraftStep, Performer};
use backstitch_kernel::saga::state::Progress;
use backstitch_kernel::saga::{
    self, Definition, Effect, Event, Input, Now, Outcome, Phase, Recorded, Rejected, Resolution, Start,
    State, Status, StepStatus, codec,
};
use backstitch_kernel::{ErrorKind, Payload, Retry, SagaId, StepError, Timestamp};

pub(crate) const SAGA: SagaId = SagaId(uuid::Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001));

/// The wait of every retry.
pub(crate) const WAIT: i64 = 10;

pub(crate) fn seconds(at: i64) -> Timestamp {
    Timestamp::from_micros(at * 1_000_000)
}

pub(crate) fn step(id: &str, after: Option<&[&str]>) -> DraftStep {
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: after.map(|after| after.iter().map(|&id| id.to_owned()).collect()),
        action: Performer::Code,
        timeout: Duration::from_secs(30),
        queue_timeout: None,
        retry: Retry::none(),
        compensate: Some(DraftCompensation {
            timeout: Duration::from_secs(30),
            retry: Retry::none(),
            ..DraftCompensation::default()
        }),
        concurrency: None,
    }
}

/// A sequence without retries; each step has a compensation.
pub(crate) fn sequence(ids: &[&str]) -> Draft {
    Draft { steps: ids.iter().map(|id| step(id, None)).collect(), ..Draft::new("played") }
}

/// Steps with their dependencies.
pub(crate) fn graph(steps: &[(&str, &[&str])]) -> Draft {
    Draft { steps: steps.iter().map(|(id, after)| step(id, Some(after))).collect(), ..Draft::new("played") }
}

/// Changes to a draft.
pub(crate) trait Change: Sized {
    fn retrying(self, id: &str, count: u32) -> Self;
    fn undo_retrying(self, id: &str, count: u32) -> Self;
    fn without_undo(self, id: &str) -> Self;
    fn limited(self, id: &str) -> Self;
    /// An outside worker performs the action.
    fn outside(self, id: &str) -> Self;
    /// An outside worker performs the compensation.
    fn undo_outside(self, id: &str) -> Self;
    /// The queue timeout of the action, and of the compensation, in seconds.
    fn waiting_at_most(self, id: &str, wait: u64) -> Self;
    fn going_on(self) -> Self;
    fn undoing_at_once(self, count: usize) -> Self;
}

fn named<'a>(draft: &'a mut Draft, id: &str) -> &'a mut DraftStep {
    let found = draft.steps.iter_mut().find(|step| step.id == id);
    found.unwrap_or_else(|| panic!("no step {id}"))
}

fn undo<'a>(draft: &'a mut Draft, id: &str) -> &'a mut DraftCompensation {
    let found = named(draft, id).compensate.as_mut();
    found.unwrap_or_else(|| panic!("{id} has no compensation"))
}

pub(crate) fn worker() -> Performer {
    Performer::Worker { queue: "workers".to_owned() }
}

impl Change for Draft {
    fn retrying(mut self, id: &str, count: u32) -> Self {
        named(&mut self, id).retry = Retry::fixed(count, Duration::from_secs(WAIT.unsigned_abs()));
        self
    }

    fn undo_retrying(mut self, id: &str, count: u32) -> Self {
        let retry = Retry::fixed(count, Duration::from_secs(WAIT.unsigned_abs()));
        undo(&mut self, id).retry = retry;
        self
    }

    fn without_undo(mut self, id: &str) -> Self {
        named(&mut self, id).compensate = None;
        self
    }

    fn limited(mut self, id: &str) -> Self {
        named(&mut self, id).concurrency = Some(1);
        self
    }

    fn outside(mut self, id: &str) -> Self {
        named(&mut self, id).action = worker();
        self
    }

    fn undo_outside(mut self, id: &str) -> Self {
        undo(&mut self, id).action = worker();
        self
    }

    fn waiting_at_most(mut self, id: &str, wait: u64) -> Self {
        let wait = Some(Duration::from_secs(wait));
        let step = named(&mut self, id);
        step.queue_timeout = wait.filter(|_| step.action.queue().is_some());
        if let Some(undo) = &mut step.compensate {
            undo.queue_timeout = wait.filter(|_| undo.action.queue().is_some());
        }
        self
    }

    fn going_on(mut self) -> Self {
        self.continue_on_compensation_failure = true;
        self
    }

    fn undoing_at_once(mut self, count: usize) -> Self {
        self.compensation_concurrency = count;
        self
    }
}

/// A saga, its log, and the result of the last input.
#[derive(Clone)]
pub(crate) struct Play {
    pub(crate) definition: Definition,
    pub(crate) state: State,
    pub(crate) log: Vec<Recorded>,
    /// The events of the last decision, in short.
    pub(crate) news: Vec<String>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) now: i64,
    pub(crate) draining: bool,
    /// Steps without room.
    pub(crate) full: Vec<usize>,
    /// Whether workers lease waiting attempts.
    pub(crate) workers: bool,
}

impl Play {
    pub(crate) fn start(draft: Draft) -> Self {
        Self::start_with(draft, Start::default(), false)
    }

    pub(crate) fn due(draft: Draft, deadline: i64) -> Self {
        let start = Start { deadline: Some(seconds(deadline)), ..Start::default() };
        Self::start_with(draft, start, false)
    }

    /// A saga without workers.
    pub(crate) fn start_without_workers(draft: Draft) -> Self {
        Self::begin(draft, Start::default(), false, false)
    }

    pub(crate) fn start_with(draft: Draft, start: Start, draining: bool) -> Self {
        Self::begin(draft, start, draining, true)
    }

    fn begin(draft: Draft, start: Start, draining: bool, workers: bool) -> Self {
        let definition = draft.check().unwrap_or_else(|problems| panic!("{problems}"));
        let now = Now { at: seconds(0), draining };
        let decision = saga::start(&definition, start, now);
        let mut play = Self {
            definition,
            state: decision.state.clone(),
            log: Vec::new(),
            news: Vec::new(),
            effects: Vec::new(),
            now: 0,
            draining,
            full: Vec::new(),
            workers,
        };
        play.keep(decision);
        play.lease_what_waits();
        play
    }

    /// A saga with this log, as read by a node.
    pub(crate) fn read(definition: Definition, log: Vec<Recorded>, now: i64) -> Self {
        let state = State::fold(&definition, &log).unwrap_or_else(|misfit| panic!("{misfit}"));
        Self {
            definition,
            state,
            log,
            news: Vec::new(),
            effects: Vec::new(),
            now,
            draining: false,
            full: Vec::new(),
            workers: true,
        }
    }

    pub(crate) fn input(&mut self, input: Input) -> Result<(), Rejected> {
        let now = Now { at: seconds(self.now), draining: self.draining };
        let decision = saga::decide_within(&self.definition, SAGA, &self.state, input, now, &self.full)?;
        self.keep(decision);
        self.lease_what_waits();
        Ok(())
    }

    /// Workers lease at once; the resulting events are not shown.
    fn lease_what_waits(&mut self) {
        if !self.workers {
            return;
        }
        loop {
            let phases = [Phase::Do, Phase::Undo];
            let mut all = (0..self.state.steps.len()).flat_map(|at| phases.map(|phase| (at, phase)));
            let queued = |&(at, phase): &(usize, Phase)| {
                matches!(self.state.steps[at].phase(phase).progress, Progress::Queued { .. })
            };
            let Some((at, phase)) = all.find(queued) else { return };
            let (news, effects) = (self.news.clone(), self.effects.clone());
            let step = self.definition.steps()[at].id.to_string();
            self.lease(&step, phase).unwrap_or_else(|rejected| panic!("{rejected}"));
            (self.news, self.effects) = (news, effects);
        }
    }

    /// A worker leases the newest attempt of this step now.
    pub(crate) fn lease(&mut self, step: &str, phase: Phase) -> Result<(), Rejected> {
        let position = self.definition.position(&step.into()).unwrap_or_else(|| panic!("no step {step}"));
        let attempt = self.state.steps[position].phase(phase).attempts;
        let (at, now) = (seconds(self.now), Now { at: seconds(self.now), draining: self.draining });
        let input = Input::Leased { step: step.into(), phase, attempt, at };
        let decision = saga::decide(&self.definition, SAGA, &self.state, input, now)?;
        self.keep(decision);
        Ok(())
    }

    fn keep(&mut self, decision: saga::Decision) {
        self.news = decision.events.iter().map(|recorded| short(&recorded.event)).collect();
        for recorded in &decision.events {
            assert_survives_its_row(&recorded.event);
        }
        let announced = decision.events.iter().filter(|recorded| starts_here(&recorded.event)).count();
        self.log.extend(decision.events);
        self.effects = decision.effects;
        self.state = decision.state;
        let folded = State::fold(&self.definition, &self.log);
        assert_eq!(folded.as_ref(), Ok(&self.state), "the state is the fold of the log");
        assert_eq!(saga::audit(&self.definition, &self.log), [], "{:#?}", self.news);
        let run = self.effects.iter().filter(|effect| matches!(effect, Effect::Run { .. })).count();
        assert_eq!(announced, run, "whatever is announced is run, unless an outside worker is to run it");
    }

    fn must(&mut self, input: Input) -> Vec<&str> {
        let asked = format!("{input:?}");
        self.input(input).unwrap_or_else(|rejected| panic!("{asked}: {rejected}"));
        self.news()
    }

    pub(crate) fn news(&self) -> Vec<&str> {
        self.news.iter().map(String::as_str).collect()
    }

    /// The result of the running attempt.
    pub(crate) fn answer(&self, step: &str, phase: Phase, outcome: Outcome) -> Input {
        let position = self.definition.position(&step.into());
        let position = position.unwrap_or_else(|| panic!("no step {step}"));
        Input::Finished {
            step: step.into(),
            phase,
            attempt: self.state.steps[position].phase(phase).attempts,
            outcome,
        }
    }

    pub(crate) fn done(&mut self, step: &str) -> Vec<&str> {
        self.must(self.answer(step, Phase::Do, Outcome::Succeeded(Payload::null())))
    }

    pub(crate) fn fails(&mut self, step: &str, kind: ErrorKind) -> Vec<&str> {
        self.must(self.answer(step, Phase::Do, Outcome::Failed(StepError::new(kind, "no"))))
    }

    pub(crate) fn undone(&mut self, step: &str) -> Vec<&str> {
        self.must(self.answer(step, Phase::Undo, Outcome::Succeeded(Payload::null())))
    }

    pub(crate) fn undo_fails(&mut self, step: &str, kind: ErrorKind) -> Vec<&str> {
        self.must(self.answer(step, Phase::Undo, Outcome::Failed(StepError::new(kind, "no"))))
    }

    /// Sets the clock and wakes the saga.
    pub(crate) fn wake(&mut self, now: i64) -> Vec<&str> {
        self.now = now;
        self.must(Input::Wake)
    }

    pub(crate) fn adopt(&mut self) -> Vec<&str> {
        self.must(Input::Adopted { node: "second".to_owned(), epoch: 2 })
    }

    pub(crate) fn admit(&mut self, step: &str) -> Result<(), Rejected> {
        self.input(Input::Admitted { step: step.into() })
    }

    pub(crate) fn cancel(&mut self) -> Vec<&str> {
        self.must(Input::Cancel { note: "changed my mind".to_owned() })
    }

    pub(crate) fn pause(&mut self) -> Vec<&str> {
        self.must(Input::Pause { note: "wait".to_owned() })
    }

    pub(crate) fn resume(&mut self) -> Vec<&str> {
        self.must(Input::Resume { note: "go".to_owned() })
    }

    pub(crate) fn resolve(&mut self, step: &str, action: Resolution) -> Vec<&str> {
        self.must(Input::Resolve { step: step.into(), action, note: "looked at".to_owned() })
    }

    pub(crate) fn status(&self) -> Status {
        self.state.status
    }

    pub(crate) fn step(&self, step: &str) -> StepStatus {
        let position = self.definition.position(&step.into());
        self.state.steps[position.unwrap_or_else(|| panic!("no step {step}"))].status()
    }
}

fn starts_here(event: &Event) -> bool {
    matches!(event, Event::StepStarted { outside: None, .. } | Event::StepCompensating { outside: None, .. })
}

fn assert_survives_its_row(event: &Event) {
    let data = codec::data(event);
    let step = event.step().map(backstitch_kernel::StepId::as_str);
    let read = codec::event(event.name(), step, event.attempt(), data.as_deref());
    let read = read.unwrap_or_else(|unreadable| panic!("{unreadable}"));
    assert_eq!(&read, event);
}

/// An event in short.
pub(crate) fn short(event: &Event) -> String {
    match event {
        Event::SagaStarted(_) => "started".to_owned(),
        Event::SagaSucceeded => "succeeded".to_owned(),
        Event::SagaCompensated { .. } => "compensated".to_owned(),
        Event::SagaFailed { step, .. } => format!("failed at {step}"),
        Event::SagaCompensating { failed_step, error } => match failed_step {
            Some(step) => format!("turn at {step}"),
            None if error.kind == ErrorKind::Cancelled => "turn, cancelled".to_owned(),
            None => "turn, late".to_owned(),
        },
        Event::SagaPaused { .. } => "paused".to_owned(),
        Event::SagaResumed { .. } => "resumed".to_owned(),
        Event::SagaAdopted { .. } => "adopted".to_owned(),
        Event::StepStarted { step, attempt, .. } => format!("do {step} {attempt}"),
        Event::StepLeased { step, phase, attempt, .. } => {
            format!("{step} {} {attempt} leased", phase.as_str())
        }
        Event::StepSucceeded { step, .. } => format!("{step} done"),
        Event::StepFailed { step, in_doubt, .. } if *in_doubt => format!("{step} in doubt"),
        Event::StepFailed { step, .. } => format!("{step} failed"),
        Event::StepTimedOut { step, .. } => format!("{step} timed out"),
        Event::StepRetry { step, phase, attempt, max_attempts, retry_at, .. } => {
            let at = retry_at.as_micros() / 1_000_000;
            format!("{step} {} {attempt}/{max_attempts}, again at {at}", phase.as_str())
        }
        Event::StepCompensating { step, attempt, .. } => format!("undo {step} {attempt}"),
        Event::StepCompensated { step, .. } => format!("{step} undone"),
        Event::StepCompensationFailed { step, .. } => format!("{step} stuck"),
        Event::StepResolved { step, action, .. } => format!("{step} resolved {action:?}").to_lowercase(),
    }
}
