//! Invariants hold in thousands of simulated sagas, checked after every input.

use std::collections::{BTreeMap, BTreeSet};

use backstitch_kernel::saga::{Event, Phase, Recorded, Resolution, State, Status, StepStatus, audit};
use backstitch_kernel::{ErrorKind, StepId};
use backstitch_testkit::oracle::{Oracle, Prediction, Try};
use backstitch_testkit::simulate::{self, Kind, Memory, Run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(4_000),
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_rules_hold(seed: u64) {
        check(seed);
    }
}

/// Fixed seeds, so that a change that reduces coverage of the simulation is noticed.
#[test]
fn the_simulation_shows_every_kind_of_trouble_and_every_end() {
    let mut ends: BTreeMap<Status, u32> = BTreeMap::new();
    let mut seen: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut worn_out = [0, 0];
    let mut taken_over_outside = 0;
    for seed in 0..600 {
        let run = check(seed);
        for recorded in &run.log {
            match &recorded.event {
                Event::StepFailed { error, .. } if error.kind == ErrorKind::Interrupted => worn_out[0] += 1,
                Event::StepCompensationFailed { error, .. } if error.kind == ErrorKind::Interrupted => {
                    worn_out[1] += 1;
                }
                _ => {}
            }
        }
        taken_over_outside += answered_after_a_take_over(&run.log);
        *ends.entry(status(&run)).or_default() += 1;
        for (kind, count) in run.seen {
            *seen.entry(kind).or_default() += count;
        }
        names.extend(run.log.iter().map(|recorded| recorded.event.name()));
    }
    for end in [Status::Succeeded, Status::Compensated, Status::Failed] {
        assert!(ends.get(&end).is_some_and(|&count| count > 20), "{ends:?}");
    }
    assert!(worn_out.iter().all(|&count| count > 0), "{worn_out:?}");
    assert!(taken_over_outside > 20, "{taken_over_outside}");
    assert_eq!(seen.len(), 22, "{seen:?}");
    assert!(seen.values().all(|&count| count > 20), "{seen:?}");
    assert_eq!(names.len(), 18, "every event occurs: {names:?}");
}

/// Outside attempts that succeeded under another owner than the one that started them.
fn answered_after_a_take_over(log: &[Recorded]) -> usize {
    let mut begun: BTreeMap<(&StepId, u32), bool> = BTreeMap::new();
    let mut answered = 0;
    for recorded in log {
        match &recorded.event {
            Event::StepStarted { step, attempt, outside: Some(_) } => {
                begun.insert((step, *attempt), false);
            }
            Event::SagaAdopted { .. } => begun.values_mut().for_each(|taken_over| *taken_over = true),
            Event::StepSucceeded { step, attempt, .. } => {
                answered += usize::from(begun.get(&(step, *attempt)).is_some_and(|taken_over| *taken_over));
            }
            _ => {}
        }
    }
    answered
}

#[test]
fn the_same_seed_gives_the_same_life() {
    for seed in 0..50 {
        let (one, two) = (play(seed), play(seed));
        assert_eq!(one.log, two.log);
        assert_eq!(one.ledger.made(), two.ledger.made());
    }
}

fn play(seed: u64) -> Run {
    simulate::run(seed, &mut Memory::default()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
}

fn last(run: &Run) -> &State {
    &run.turns[run.turns.len() - 1].state
}

fn status(run: &Run) -> Status {
    last(run).status
}

fn check(seed: u64) -> Run {
    let run = play(seed);
    assert_clean_at_every_moment(seed, &run);
    assert_state_is_the_fold_of_the_log(seed, &run);
    let prediction = assert_the_oracle_agrees_at_every_turn(seed, &run);
    assert_it_ended_as_predicted(seed, &run, &prediction);
    assert_nothing_starts_while_paused_or_held(seed, &run);
    assert_the_outside_is_right(seed, &run);
    assert!(run.log.len() <= most_events(&run), "seed {seed}: {} events", run.log.len());
    run
}

fn assert_clean_at_every_moment(seed: u64, run: &Run) {
    for end in 1..=run.log.len() {
        let found = audit(&run.plan.definition, &run.log[..end]);
        assert_eq!(found, [], "seed {seed}: {:#?}", &run.log[..end]);
    }
}

fn upto(log: &[Recorded], seq: u64) -> &[Recorded] {
    &log[..usize::try_from(seq).unwrap_or(usize::MAX)]
}

fn assert_state_is_the_fold_of_the_log(seed: u64, run: &Run) {
    for turn in &run.turns {
        let folded = State::fold(&run.plan.definition, upto(&run.log, turn.state.seq));
        assert_eq!(folded.as_ref(), Ok(&turn.state), "seed {seed}, after {:?}", turn.input);
    }
    assert_eq!(last(run).seq, run.log.len() as u64, "seed {seed}: the log has the last word");
}

fn in_flight(state: &State) -> BTreeSet<Try> {
    let mut found = BTreeSet::new();
    for (position, step) in state.steps.iter().enumerate() {
        for phase in [Phase::Do, Phase::Undo] {
            if step.phase(phase).in_flight() {
                found.insert((position, phase, step.phase(phase).attempts));
            }
        }
    }
    found
}

fn assert_the_oracle_agrees_at_every_turn(seed: u64, run: &Run) -> Prediction {
    let first = &run.turns[0];
    let mut oracle = Oracle::start(&run.plan.definition, run.plan.start.deadline, first.now);
    for (nth, turn) in run.turns.iter().enumerate() {
        let place = || format!("seed {seed}, turn {nth}: {:?}", turn.input);
        if let Some(input) = &turn.input {
            let allowed = oracle.take(turn.now, input);
            assert_eq!(allowed, turn.rejected.is_none(), "{}: {:?}", place(), turn.rejected);
        }
        assert_eq!(turn.state.status, oracle.status(), "{}", place());
        assert_eq!(in_flight(&turn.state), oracle.in_flight(), "{}", place());
        assert_eq!(turn.state.next_due(), oracle.next_due(), "{}", place());
        if let Some(calls) = &turn.calls {
            assert_eq!(calls, &oracle.in_flight(), "{}: what is announced is called", place());
        }
        if let Some(asks) = &turn.asks
            && !turn.now.draining
        {
            assert_eq!(asks, &oracle.asking_for_room(), "{}", place());
        }
    }
    oracle.prediction()
}

fn assert_it_ended_as_predicted(seed: u64, run: &Run, predicted: &Prediction) {
    let state = last(run);
    let steps = run.plan.definition.steps();
    let with = |wanted: StepStatus| -> BTreeSet<StepId> {
        let of = state.steps.iter().zip(steps).filter(|(step, _)| step.status() == wanted);
        of.map(|(_, step)| step.id.clone()).collect()
    };
    let calls = state
        .steps
        .iter()
        .zip(steps)
        .map(|(step, defined)| (defined.id.clone(), (step.forward.attempts, step.undo.attempts)));
    assert_eq!(state.status, predicted.status, "seed {seed}");
    let failed_step = state.cause.as_ref().and_then(|cause| cause.failed_step.clone());
    assert_eq!(failed_step, predicted.failed_step, "seed {seed}");
    assert_eq!(with(StepStatus::Compensated), predicted.compensated, "seed {seed}");
    assert_eq!(with(StepStatus::CompensationFailed), predicted.stuck, "seed {seed}");
    assert_eq!(calls.collect::<BTreeMap<_, _>>(), predicted.calls, "seed {seed}");
    for (first, then) in &predicted.before {
        let undone = position(&run.log, first, |event| matches!(event, Event::StepCompensated { .. }));
        let begun = position(&run.log, then, |event| matches!(event, Event::StepCompensating { .. }));
        assert!(undone < begun, "seed {seed}: {first} is undone before {then}");
    }
}

fn position(log: &[Recorded], step: &StepId, wanted: impl Fn(&Event) -> bool) -> Option<usize> {
    log.iter().position(|recorded| recorded.event.step() == Some(step) && wanted(&recorded.event))
}

fn assert_nothing_starts_while_paused_or_held(seed: u64, run: &Run) {
    let starts = |event: &Event| matches!(event, Event::StepStarted { .. } | Event::StepCompensating { .. });
    let mut paused = false;
    for recorded in &run.log {
        match &recorded.event {
            Event::SagaPaused { .. } => paused = true,
            Event::SagaResumed { .. } => paused = false,
            event => assert!(!(paused && starts(event)), "seed {seed}: event {}", recorded.seq),
        }
    }
    let mut seq = 0;
    for turn in &run.turns {
        let news = &upto(&run.log, turn.state.seq)[upto(&run.log, seq).len()..];
        let started = news.iter().any(|recorded| starts(&recorded.event));
        assert!(!(turn.now.draining && started), "seed {seed}: {:?}", turn.input);
        seq = turn.state.seq;
    }
}

/// Every call was logged before, none twice; compensated steps are undone, and succeeded ones are in effect.
fn assert_the_outside_is_right(seed: u64, run: &Run) {
    let mut announced = BTreeSet::new();
    let mut left_alone = BTreeSet::new();
    for recorded in &run.log {
        match &recorded.event {
            Event::StepStarted { step, attempt, .. } => {
                announced.insert((step.clone(), Phase::Do, *attempt));
            }
            Event::StepCompensating { step, attempt, .. } => {
                announced.insert((step.clone(), Phase::Undo, *attempt));
            }
            Event::StepResolved { step, action: Resolution::Skip, .. } => {
                left_alone.insert(step.clone());
            }
            _ => {}
        }
    }
    let mut made = BTreeSet::new();
    for call in run.ledger.made() {
        let call = (call.step.clone(), call.phase, call.attempt);
        assert!(announced.contains(&call), "seed {seed}: {call:?} was not announced");
        assert!(made.insert(call.clone()), "seed {seed}: {call:?} was made twice");
    }
    for (step, state) in run.plan.definition.steps().iter().zip(&last(run).steps) {
        let id = &step.id;
        if state.status() == StepStatus::Compensated {
            assert!(!run.ledger.stands(id), "seed {seed}: {id} counts as undone and is not");
        }
        match status(run) {
            Status::Succeeded => {
                assert!(run.ledger.stands(id) && !run.ledger.undone(id), "seed {seed}: {id} is not there");
            }
            Status::Compensated if step.compensation.is_some() && !left_alone.contains(id) => {
                assert!(!run.ledger.stands(id), "seed {seed}: {id} is left over");
            }
            _ => {}
        }
    }
}

/// More events than a saga's retries, interruptions and operators can cause.
fn most_events(run: &Run) -> usize {
    let attempts = |retries: u32| retries as usize + 1 + 5;
    let faults = run.plan.faults as usize;
    let people = 1 + run.plan.patience as usize + run.plan.definition.steps().len();
    let steps: usize = run
        .plan
        .definition
        .steps()
        .iter()
        .map(|step| {
            let undo = step.compensation.as_ref().map_or(0, |undo| attempts(undo.retry.count));
            2 * attempts(step.retry.count) + 1 + (1 + run.plan.patience as usize) * (2 * undo + 2)
        })
        .sum();
    2 + steps + 2 * people + 3 * faults
}
