//! Every input in every reachable state keeps the invariants.

use std::collections::HashSet;

use backstitch_kernel::lifecycle::{FAILED, Input, Instance, Machine, Recorded, audit, decide};
use backstitch_kernel::{Payload, StepError};

use crate::lifecycle::support::{abandon, at, driven, expiring, fail, machine, start, to};

fn everything(machine: &Machine, instance: Option<&Instance>) -> Vec<Input> {
    let mut inputs = vec![start(), to("nowhere"), fail("weather"), fail("internal"), fail("quota_exceeded")];
    inputs.extend(machine.states().map(|(state, _)| to(state)));
    inputs.push(abandon());
    let Some(Instance { entry, failures, token, .. }) = instance else { return inputs };
    inputs.extend([*entry, entry + 1].map(|entry| Input::PauseExpired { entry }));
    for (entry, attempt) in [(*entry, failures + 1), (entry + 1, failures + 1), (*entry, failures + 2)] {
        inputs.push(Input::Leased { entry, attempt });
        inputs.push(Input::WorkerTimedOut { entry, attempt, token: *token });
    }
    let outcomes = [
        Ok(Payload::null()),
        Err(StepError::not_done("again")),
        Err(StepError::refused("no").with_code("no_github_token")),
        Err(StepError::refused("no")),
    ];
    for outcome in outcomes {
        for (entry, attempt) in [(*entry, failures + 1), (entry + 1, failures + 1), (*entry, failures + 2)] {
            inputs.push(Input::Answered { entry, attempt, token: Some(*token), outcome: outcome.clone() });
        }
    }
    inputs
}

/// Explores all inputs to this depth; states that differ only in times are one.
fn explore(machine: &Machine, depth: usize) -> HashSet<(String, u32, bool, bool)> {
    let mut places = HashSet::new();
    let mut open: Vec<(Option<Instance>, Vec<Recorded>)> = vec![(None, Vec::new())];
    for step in 0..depth {
        let mut next = Vec::new();
        for (instance, log) in open {
            for input in everything(machine, instance.as_ref()) {
                let now = at(i64::try_from(step).unwrap() + 1);
                let Ok(decision) = decide(machine, "k", instance.as_ref(), input.clone(), now) else {
                    continue;
                };
                let mut log = log.clone();
                log.extend(decision.events);
                assert_eq!(audit(machine, &log), [], "{input:?} after {instance:?}");
                let folded = Instance::of(machine, &log).unwrap();
                assert_eq!(folded, decision.instance, "the row is the fold of its log");
                assert!(instance.as_ref().is_none_or(|before| !before.has_ended(machine)), "an end was left");
                let is_failed = *decision.instance.state == *FAILED;
                assert!(is_failed || decision.instance.failure.is_none(), "an error was left behind");
                let Instance { state, failures, leased, abandoned, .. } = &decision.instance;
                let place = (state.to_string(), *failures, *leased, *abandoned);
                if places.insert(place) || log.len() < 6 {
                    next.push((Some(decision.instance), log));
                }
            }
        }
        open = next;
    }
    places
}

#[test]
fn whatever_is_asked_from_outside() {
    let places = explore(&machine(), 9);
    assert_eq!(places.len(), 11, "every state was reached, and one abandoned: {places:?}");
}

#[test]
fn whatever_is_asked_of_a_machine_whose_pause_expires() {
    let places = explore(&expiring(), 9);
    assert_eq!(places.len(), 11, "every state was reached, and one abandoned: {places:?}");
}

#[test]
fn whatever_actions_answer() {
    let places = explore(&driven(), 12);
    let resting: HashSet<&str> = places.iter().map(|(state, ..)| &**state).collect();
    let expected =
        ["source_resolving", "awaiting_github", "vercel_creating", "hook_creating", "live", "failed"].into();
    assert_eq!(resting, expected, "no instance stays in a passed state");
}
