//! Scripted services: the kernel reaches the outcome that the oracle predicts.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use backstitch_kernel::saga::draft::{DraftCompensation, DraftStep, Performer};
use backstitch_kernel::saga::state::Progress;
use backstitch_kernel::saga::{
    self, Decision, Definition, Draft, Effect, Event, Input, Now, Phase, Rejected, Start, State, Status,
    StepStatus, audit,
};
use backstitch_kernel::{Retry, SagaId, StepId, Timestamp};
use backstitch_testkit::oracle::{Behaviour, Prediction, Script, predict};
use backstitch_testkit::simulate::{Plan, Random};
use proptest::prelude::*;

use Behaviour::{Crash, Doubt, Fail, Refuse, Succeed, TimeOut};

const SAGA: SagaId = SagaId(uuid::Uuid::from_u128(7));

/// Steps with their dependencies; one retry after 10 s for actions and compensations.
fn graph(steps: &[(&str, &[&str])]) -> Draft {
    let retry = Retry::fixed(1, Duration::from_secs(10));
    let step = |(id, after): &(&str, &[&str])| DraftStep {
        id: (*id).to_owned(),
        title: None,
        depends_on: Some(after.iter().map(|&id| id.to_owned()).collect()),
        action: Performer::Code,
        timeout: Duration::from_secs(30),
        queue_timeout: None,
        retry: retry.clone(),
        compensate: Some(DraftCompensation {
            timeout: Duration::from_secs(30),
            retry: retry.clone(),
            ..DraftCompensation::default()
        }),
        concurrency: None,
    };
    Draft { steps: steps.iter().map(step).collect(), ..Draft::new("scripted") }
}

fn checked(draft: Draft) -> Definition {
    draft.check().unwrap_or_else(|problems| panic!("{problems}"))
}

fn script(actions: &[(&str, &[Behaviour])], compensations: &[(&str, &[Behaviour])]) -> Script {
    let lists = |of: &[(&str, &[Behaviour])]| {
        of.iter().map(|(id, tries)| ((*id).to_owned(), tries.to_vec())).collect()
    };
    Script { actions: lists(actions), compensations: lists(compensations) }
}

/// An attempt, and whether an outside worker has it.
type Call = (usize, Phase, u32, bool);

/// A saga with scripted services that respond in the order of their calls.
struct Scripted<'a> {
    definition: &'a Definition,
    script: &'a Script,
    state: State,
    log: Vec<saga::Recorded>,
    calls: VecDeque<Call>,
    asks: BTreeSet<usize>,
    clock: Timestamp,
}

impl<'a> Scripted<'a> {
    fn play(definition: &'a Definition, script: &'a Script) -> Self {
        let decision = saga::start(definition, Start::default(), Now::at(Timestamp::default()));
        let mut run = Self {
            definition,
            script,
            state: decision.state.clone(),
            log: Vec::new(),
            calls: VecDeque::new(),
            asks: BTreeSet::new(),
            clock: Timestamp::default(),
        };
        run.keep(decision);
        while !run.state.status.is_terminal() {
            run.go_on();
        }
        assert_eq!(audit(definition, &run.log), []);
        run
    }

    fn keep(&mut self, decision: Decision) {
        let begun = decision.events.iter().filter_map(|recorded| self.begun(&recorded.event));
        let begun: Vec<Call> = begun.collect();
        self.calls.extend(begun);
        self.log.extend(decision.events);
        self.state = decision.state;
        for effect in decision.effects {
            if let Effect::Admit { position } = effect {
                self.asks.insert(position);
            }
        }
        // Several workers can time out at once.
        self.calls.retain(|&(position, phase, attempt, _)| {
            let current = self.state.steps[position].phase(phase);
            current.in_flight() && current.attempts == attempt
        });
    }

    fn begun(&self, event: &Event) -> Option<Call> {
        let (step, phase, attempt, outside) = match event {
            Event::StepStarted { step, attempt, outside } => (step, Phase::Do, *attempt, outside),
            Event::StepCompensating { step, attempt, outside } => (step, Phase::Undo, *attempt, outside),
            _ => return None,
        };
        let position = self.definition.position(step)?;
        Some((position, phase, attempt, outside.is_some()))
    }

    /// Workers lease at once.
    fn lease(&self) -> Option<Input> {
        let queued = |&&(position, phase, ..): &&Call| {
            matches!(self.state.steps[position].phase(phase).progress, Progress::Queued { .. })
        };
        let &(position, phase, attempt, _) = self.calls.iter().find(queued)?;
        let step = self.definition.steps()[position].id.clone();
        Some(Input::Leased { step, phase, attempt, at: self.clock })
    }

    fn go_on(&mut self) {
        let id = |position: usize| self.definition.steps()[position].id.clone();
        let input = if let Some(lease) = self.lease() {
            lease
        } else if let Some((position, phase, attempt, _)) = self.calls.pop_front() {
            let step = id(position);
            let progress = &self.state.steps[position].phase(phase).progress;
            match (self.script.behaviour(step.as_str(), phase, attempt), progress) {
                (Crash | TimeOut, Progress::Outside { until }) => {
                    self.clock = self.clock.max(*until);
                    Input::Wake
                }
                (behaviour, _) => {
                    if let Some(outcome) = behaviour.outcome() {
                        Input::Finished { step, phase, attempt, outcome }
                    } else {
                        self.calls.retain(|(.., outside)| *outside);
                        self.asks.clear();
                        Input::Adopted { node: String::new(), epoch: 0 }
                    }
                }
            }
        } else if let Some(position) = self.asks.pop_first() {
            Input::Admitted { step: id(position) }
        } else {
            self.clock = self.state.next_due().unwrap_or_else(|| panic!("stuck: {:#?}", self.log));
            Input::Wake
        };
        match saga::decide(self.definition, SAGA, &self.state, input, Now::at(self.clock)) {
            Ok(decision) => self.keep(decision),
            // Room that was requested before the rollback began.
            Err(Rejected::NotWaiting(_)) => {}
            Err(rejected) => panic!("{rejected}: {:#?}", self.log),
        }
    }

    /// The compared parts of an outcome.
    fn result(&self) -> Prediction {
        let steps = self.definition.steps();
        let with = |wanted: StepStatus| -> BTreeSet<StepId> {
            let found = self.state.steps.iter().zip(steps).filter(|(step, _)| step.status() == wanted);
            found.map(|(_, step)| step.id.clone()).collect()
        };
        let calls = self.state.steps.iter().zip(steps);
        Prediction {
            status: self.state.status,
            failed_step: self.state.cause.as_ref().and_then(|cause| cause.failed_step.clone()),
            compensated: with(StepStatus::Compensated),
            stuck: with(StepStatus::CompensationFailed),
            before: Vec::new(),
            calls: calls
                .map(|(step, defined)| (defined.id.clone(), (step.forward.attempts, step.undo.attempts)))
                .collect(),
        }
    }
}

/// The prediction, which the kernel must reach.
fn fulfilled(definition: &Definition, script: &Script) -> Prediction {
    let predicted = predict(definition, script);
    let result = Scripted::play(definition, script).result();
    assert_eq!(result, Prediction { before: Vec::new(), ..predicted.clone() }, "{script:?}");
    predicted
}

fn ids(of: &[&str]) -> BTreeSet<StepId> {
    of.iter().map(|&id| id.into()).collect()
}

fn calls(prediction: &Prediction) -> Vec<(u32, u32)> {
    prediction.calls.values().copied().collect()
}

#[test]
fn all_goes_well() {
    let definition = checked(graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let found = fulfilled(&definition, &script(&[("b", &[Fail])], &[]));
    assert_eq!((found.status, found.failed_step.clone()), (Status::Succeeded, None));
    assert_eq!(calls(&found), [(1, 0), (2, 0), (1, 0)]);
}

#[test]
fn refusal_undoes_earlier_steps() {
    let definition = checked(graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let found = fulfilled(&definition, &script(&[("c", &[Refuse])], &[("b", &[Refuse])]));
    assert_eq!((found.status, found.failed_step.clone()), (Status::Compensated, Some("c".into())));
    assert_eq!(found.compensated, ids(&["a", "b"]));
    assert_eq!(found.before, [("b".into(), "a".into())]);
    assert_eq!(calls(&found), [(1, 1), (1, 2), (1, 0)]);
}

#[test]
fn a_doubt_is_undone_though_a_refusal_follows_it() {
    let definition = checked(graph(&[("a", &[]), ("b", &["a"])]));
    for doubt in [Doubt, TimeOut, Crash] {
        let found = fulfilled(&definition, &script(&[("b", &[doubt, Refuse])], &[]));
        assert_eq!(found.compensated, ids(&["a", "b"]), "{doubt:?}");
        assert_eq!(calls(&found), [(1, 1), (2, 1)]);
    }
}

#[test]
fn five_crashes_leave_a_doubt() {
    let definition = checked(graph(&[("a", &[]), ("b", &["a"])]));
    let found = fulfilled(&definition, &script(&[("b", &[Crash; 5])], &[]));
    assert_eq!((found.status, found.failed_step.clone()), (Status::Compensated, Some("b".into())));
    assert_eq!(calls(&found), [(1, 1), (5, 1)]);
    let found = fulfilled(&definition, &script(&[("b", &[Crash; 4])], &[]));
    assert_eq!(found.status, Status::Succeeded);
}

#[test]
fn unanswered_worker_step_is_retried_and_undone() {
    let mut draft = graph(&[("a", &[]), ("b", &["a"])]);
    draft.steps[1].action = Performer::Worker { queue: "workers".to_owned() };
    let definition = checked(draft);
    for silence in [TimeOut, Crash] {
        let found = fulfilled(&definition, &script(&[("b", &[silence])], &[]));
        assert_eq!(found.status, Status::Succeeded);
        assert_eq!(calls(&found), [(1, 0), (2, 0)]);
        let found = fulfilled(&definition, &script(&[("b", &[silence; 2])], &[]));
        assert_eq!((found.status, found.failed_step.clone()), (Status::Compensated, Some("b".into())));
        assert_eq!(calls(&found), [(1, 1), (2, 1)]);
    }
}

#[test]
fn a_stuck_compensation_stops_the_rest_or_does_not() {
    let draft = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    let stuck = script(&[("c", &[Refuse])], &[("b", &[Fail, Fail])]);
    let found = fulfilled(&checked(draft.clone()), &stuck);
    assert_eq!((found.status, found.stuck.clone()), (Status::Failed, ids(&["b"])));
    assert_eq!(calls(&found), [(1, 0), (1, 2), (1, 0)]);

    let going_on = Draft { continue_on_compensation_failure: true, ..draft };
    let found = fulfilled(&checked(going_on), &stuck);
    assert_eq!((found.status, found.compensated.clone()), (Status::Failed, ids(&["a"])));
    assert_eq!(calls(&found), [(1, 1), (1, 2), (1, 0)]);
}

#[test]
fn siblings_of_a_failed_step_get_no_new_attempt() {
    let definition = checked(graph(&[("a", &[]), ("b", &[]), ("c", &["a"])]));
    let found = fulfilled(&definition, &script(&[("a", &[Refuse]), ("b", &[TimeOut, Succeed])], &[]));
    assert_eq!((found.status, found.compensated.clone()), (Status::Compensated, ids(&["b"])));
    assert_eq!(calls(&found), [(1, 0), (1, 1), (0, 0)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_fulfils_every_prediction(seed: u64) {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random).unwrap();
        let mut script = Script::default();
        for step in plan.definition.steps() {
            for tries in [&mut script.actions, &mut script.compensations] {
                let length = random.index(5);
                let drawn = (0..length).map(|_| {
                    random.pick([Succeed, Succeed, Fail, Refuse, Doubt, TimeOut, Crash, Crash])
                });
                tries.insert(step.id.to_string(), drawn.collect());
            }
        }
        fulfilled(&plan.definition, &script);
    }
}
