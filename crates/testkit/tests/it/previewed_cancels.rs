//! A cancel does what its preview shows, after every input of thousands of simulated sagas.

use std::collections::VecDeque;

use backstitch_kernel::saga::{Definition, Event, Input, Now, Outcome, Phase, State, decide, preview};
use backstitch_kernel::{Payload, SagaId, StepId, Timestamp};
use backstitch_testkit::simulate::{self, Memory};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1_000),
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cancel_undoes_as_previewed(seed: u64) {
        check(seed);
    }
}

/// Fixed seeds, so that a simulation with less coverage is noticed.
#[test]
fn checked_cancels_include_many_steps() {
    let longest: Vec<usize> = (0..300).map(check).collect();
    assert!(longest.iter().filter(|&&undone| undone >= 4).count() > 20, "{longest:?}");
}

/// The number of steps undone by the longest rollback of a run.
fn check(seed: u64) -> usize {
    let run = simulate::run(seed, &mut Memory::default()).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let (definition, saga) = (&run.plan.definition, run.plan.saga);
    let mut longest = 0;
    for turn in &run.turns {
        let said = preview(definition, saga, &turn.state);
        let done = cancelled(definition, saga, &turn.state, turn.now.at);
        assert_eq!(said.as_ref().map(|said| &said.undone), done.as_ref(), "seed {seed}: {:?}", turn.state);
        longest = longest.max(done.map_or(0, |undone| undone.len()));
    }
    longest
}

/// The effect of a cancel when every call succeeds and responses keep the order of their calls; `None` if it cannot be
/// cancelled.
fn cancelled(definition: &Definition, saga: SagaId, state: &State, at: Timestamp) -> Option<Vec<StepId>> {
    if state.status.is_terminal() {
        return None;
    }
    let mut at = at.max(state.at);
    let running = definition.steps().iter().zip(&state.steps).filter(|(_, of)| of.forward.in_flight());
    let mut asked: VecDeque<(StepId, Phase, u32)> =
        running.map(|(step, of)| (step.id.clone(), Phase::Do, of.forward.attempts)).collect();
    let mut undone = Vec::new();
    let mut state = state.clone();
    let mut inputs = VecDeque::from([Input::Cancel { note: String::new() }]);
    if state.paused {
        inputs.push_back(Input::Resume { note: String::new() });
    }
    while !state.status.is_terminal() {
        let input = inputs.pop_front().or_else(|| {
            let (step, phase, attempt) = asked.pop_front()?;
            Some(Input::Finished { step, phase, attempt, outcome: Outcome::Succeeded(Payload::null()) })
        });
        let input = input.unwrap_or_else(|| {
            at = state.next_attempt().unwrap_or(at).max(at);
            Input::Wake
        });
        let is_cancel = matches!(input, Input::Cancel { .. });
        let decision = match decide(definition, saga, &state, input, Now::at(at)) {
            Ok(decision) => decision,
            Err(_) if is_cancel => return None,
            Err(why) => panic!("{why}"),
        };
        for recorded in decision.events {
            match recorded.event {
                Event::StepStarted { step, attempt, .. } => asked.push_back((step, Phase::Do, attempt)),
                Event::StepCompensating { step, attempt, .. } => {
                    asked.push_back((step, Phase::Undo, attempt));
                }
                Event::StepCompensated { step, .. } => undone.push(step),
                _ => {}
            }
        }
        state = decision.state;
    }
    Some(undone)
}
