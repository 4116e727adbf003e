//! Folding of logs, and logs that are refused.

use crate::saga::support::{Play, graph, seconds, sequence};
use backstitch_kernel::saga::state::{PhaseState, Progress, ReplayError};
use backstitch_kernel::saga::{Event, Recorded, State, Status, StepState, StepStatus};
use backstitch_kernel::{ErrorKind, StepError};

fn played() -> Play {
    let mut saga = Play::start(sequence(&["a", "b"]));
    saga.done("a");
    saga
}

fn misfit(change: impl FnOnce(&mut Vec<Recorded>)) -> ReplayError {
    let mut saga = played();
    change(&mut saga.log);
    match State::fold(&saga.definition, &saga.log) {
        Err(misfit) => misfit,
        Ok(state) => panic!("it folds to {state:?}"),
    }
}

#[test]
fn a_log_begins_with_its_start() {
    assert_eq!(misfit(Vec::clear), ReplayError::NoStart);
    assert_eq!(misfit(|log| drop(log.remove(0))), ReplayError::NoStart);
    assert_eq!(misfit(|log| log[0].seq = 2), ReplayError::NoStart);
    let second = misfit(|log| {
        let mut start = log[0].clone();
        start.seq = 5;
        log.push(start);
    });
    assert_eq!(second, ReplayError::SecondStart(5));
}

#[test]
fn a_log_has_no_gaps_and_no_doubles() {
    let gap = |expected, found| ReplayError::Gap { expected, found };
    assert_eq!(misfit(|log| drop(log.remove(1))), gap(2, 3));
    assert_eq!(misfit(|log| log.insert(1, log[1].clone())), gap(3, 2));
}

#[test]
fn a_log_fits_its_definition() {
    let unknown = misfit(|log| {
        log[1].event = Event::StepStarted { step: "nowhere".into(), attempt: 1, outside: None };
    });
    let expected = ReplayError::UnknownStep { seq: 2, step: "nowhere".into() };
    assert_eq!(unknown, expected);
    let cause = misfit(|log| {
        log.push(Recorded {
            seq: 5,
            at: seconds(9),
            event: Event::SagaCompensating {
                failed_step: Some("nowhere".into()),
                error: StepError::not_done(""),
            },
        });
    });
    assert!(matches!(cause, ReplayError::UnknownStep { seq: 5, .. }));
}

#[test]
fn appending_one_event_is_one_step_of_the_fold() {
    let saga = played();
    let mut state = State::fold(&saga.definition, &saga.log[..1]).unwrap();
    assert_eq!(state.status, Status::Pending);
    for recorded in &saga.log[1..] {
        state.append(&saga.definition, recorded).unwrap();
        assert_eq!((state.seq, state.at), (recorded.seq, recorded.at));
    }
    assert_eq!(state, saga.state);
}

#[test]
fn a_state_knows_whether_anything_runs_here() {
    let mut saga = played();
    assert!(saga.state.anything_runs_here());
    saga.draining = true;
    saga.fails("b", ErrorKind::Failed);
    assert!(!saga.state.anything_runs_here());
    saga.draining = false;
    saga.wake(1);
    assert!(saga.state.anything_runs_here(), "a compensation is in flight too");
    saga.undone("a");
    assert!(!saga.state.anything_runs_here());
}

#[test]
fn the_result_and_the_error_of_a_step_are_kept() {
    let mut saga = played();
    saga.fails("b", ErrorKind::TimedOut);
    let b = &saga.state.steps[1];
    assert_eq!(b.forward.error.as_ref().map(|error| error.kind), Some(ErrorKind::TimedOut));
    assert_eq!(b.result, None);
    assert!(saga.state.steps[0].result.is_some());
    saga.undone("b");
    assert_eq!(
        saga.state.steps[1].forward.error.as_ref().map(|error| error.kind),
        Some(ErrorKind::TimedOut),
        "being undone does not change why it failed"
    );
}

fn phase(progress: Progress) -> PhaseState {
    PhaseState { progress, ..PhaseState::default() }
}

#[test]
fn step_has_a_status() {
    let waiting = || Progress::Waiting { until: seconds(1) };
    let outside = || Progress::Outside { until: seconds(1) };
    let queued = || Progress::Queued { until: None };
    let table = [
        (Progress::Idle, Progress::Idle, false, StepStatus::Pending),
        (Progress::Running, Progress::Idle, false, StepStatus::Running),
        (queued(), Progress::Idle, false, StepStatus::Waiting),
        (queued(), Progress::Idle, true, StepStatus::Waiting),
        (outside(), Progress::Idle, false, StepStatus::Running),
        (outside(), Progress::Idle, true, StepStatus::Running),
        (Progress::Interrupted, Progress::Idle, true, StepStatus::Running),
        (waiting(), Progress::Idle, true, StepStatus::Running),
        (Progress::Done, Progress::Idle, false, StepStatus::Succeeded),
        (Progress::Failed, Progress::Idle, false, StepStatus::Failed),
        (Progress::Failed, Progress::Idle, true, StepStatus::InDoubt),
        (Progress::Skipped, Progress::Idle, false, StepStatus::Skipped),
        (Progress::Done, Progress::Running, false, StepStatus::Compensating),
        (Progress::Done, outside(), false, StepStatus::Compensating),
        (Progress::Done, queued(), false, StepStatus::Compensating),
        (Progress::Done, Progress::Interrupted, false, StepStatus::Compensating),
        (Progress::Failed, waiting(), true, StepStatus::Compensating),
        (Progress::Done, Progress::Done, false, StepStatus::Compensated),
        (Progress::Done, Progress::Failed, false, StepStatus::CompensationFailed),
        (Progress::Done, Progress::Skipped, false, StepStatus::Skipped),
    ];
    for (forward, undo, in_doubt, expected) in table {
        let step = StepState {
            forward: phase(forward.clone()),
            undo: phase(undo.clone()),
            in_doubt,
            ..StepState::default()
        };
        assert_eq!(step.status(), expected, "{forward:?}, {undo:?}");
        let happened = matches!(forward, Progress::Done) || (forward == Progress::Failed && in_doubt);
        assert_eq!(step.may_have_happened(), happened, "{forward:?}");
    }
}

#[test]
fn phase_knows_whether_it_is_active() {
    for (progress, under_way, in_flight, here) in [
        (Progress::Idle, false, false, false),
        (Progress::Running, true, true, true),
        (Progress::Outside { until: seconds(1) }, true, true, false),
        (Progress::Queued { until: None }, true, true, false),
        (Progress::Interrupted, true, false, false),
        (Progress::Waiting { until: seconds(1) }, true, false, false),
        (Progress::Done, false, false, false),
        (Progress::Failed, false, false, false),
        (Progress::Skipped, false, false, false),
    ] {
        let phase = phase(progress);
        assert_eq!(phase.in_progress(), under_way, "{phase:?}");
        assert_eq!(phase.in_flight(), in_flight, "{phase:?}");
        assert_eq!(phase.runs_here(), here, "{phase:?}");
    }
}

#[test]
fn a_status_is_known_by_its_name() {
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
        assert_eq!(status.to_string(), status.as_str());
        assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{status}\""));
        let end = matches!(status, Status::Succeeded | Status::Failed | Status::Compensated);
        assert_eq!(status.is_terminal(), end);
    }
    assert_eq!(Status::parse("asleep"), None);
}

#[test]
fn a_decision_leaves_the_state_it_was_made_from_alone() {
    let saga = Play::start(graph(&[("a", &[]), ("b", &[])]));
    let before = saga.state.clone();
    let mut copy = saga.clone();
    copy.done("a");
    assert_eq!(saga.state, before);
    assert_ne!(copy.state, before);
}
