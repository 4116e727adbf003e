//! Recovery after a crash, a shutdown or adoption: which attempts run again and which end.

use crate::saga::support::{Change, Play, graph, sequence};
use backstitch_kernel::ErrorKind;
use backstitch_kernel::saga::{Effect, Event, Outcome, Phase, Recorded, Rejected, Status, StepStatus};
use backstitch_kernel::{Payload, Timestamp};

fn interrupt(saga: &mut Play, times: u32) {
    for _ in 0..times {
        saga.adopt();
    }
}

#[test]
fn interrupted_attempt_is_run_again_with_the_next_number() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &["a"])]));
    saga.done("a");
    assert_eq!(saga.adopt(), ["adopted", "do b 2", "do c 2"]);
}

#[test]
fn the_answer_of_an_interrupted_attempt_is_stale() {
    let mut saga = Play::start(sequence(&["a"]));
    let answer = saga.answer("a", Phase::Do, Outcome::Succeeded(Payload::null()));
    saga.adopt();
    let stale = Rejected::Stale { step: "a".into(), attempt: 1 };
    assert_eq!(saga.input(answer), Err(stale));
}

#[test]
fn an_interruption_costs_no_retry() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 1));
    interrupt(&mut saga, 3);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 4/5, again at 10"]);
    saga.wake(10);
    saga.adopt();
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a in doubt", "turn at a", "undo a 1"]);
}

#[test]
fn backoff_continues_after_adoption() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 1));
    saga.fails("a", ErrorKind::Failed);
    assert_eq!(saga.adopt(), ["adopted"]);
    assert_eq!(saga.wake(9), [""; 0]);
    assert_eq!(saga.wake(10), ["do a 2"]);
    assert_eq!(saga.state.steps[0].forward.interruptions, 0, "nothing was in flight");
}

#[test]
fn an_interrupted_attempt_may_have_taken_effect() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.adopt();
    assert_eq!(saga.fails("a", ErrorKind::Refused), ["a in doubt", "turn at a", "undo a 1"]);

    let mut saga = Play::start(sequence(&["a"]));
    saga.adopt();
    assert_eq!(saga.done("a"), ["a done", "succeeded"], "unless a later one succeeds");
}

#[test]
fn the_fifth_interruption_leaves_the_step_in_doubt() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    saga.done("a");
    interrupt(&mut saga, 4);
    assert_eq!(saga.step("b"), StepStatus::Running);
    assert_eq!(saga.adopt(), ["adopted", "b in doubt", "turn at b", "undo b 1"]);
    let cause = saga.state.cause.as_ref().unwrap();
    assert_eq!(cause.error.kind, ErrorKind::Interrupted);
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
}

#[test]
fn step_interrupted_too_often_begins_the_rollback_of_all() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &[])]).retrying("b", 1));
    saga.done("a");
    interrupt(&mut saga, 3);
    saga.fails("b", ErrorKind::Failed);
    saga.adopt();
    saga.wake(10);
    let news = saga.adopt();
    assert_eq!(news, ["adopted", "c in doubt", "turn at c", "b in doubt", "undo b 1"]);
}

#[test]
fn two_steps_interrupted_too_often_begin_one_rollback() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]));
    interrupt(&mut saga, 4);
    let news = saga.adopt();
    assert_eq!(news, ["adopted", "a in doubt", "turn at a", "b in doubt", "undo b 1"]);
}

#[test]
fn nothing_is_run_again_once_the_rollback_has_begun() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).retrying("b", 5));
    saga.fails("a", ErrorKind::Refused);
    assert_eq!(saga.adopt(), ["adopted", "b in doubt", "undo b 1"]);
}

#[test]
fn an_interrupted_compensation_is_run_again_and_costs_no_retry() {
    let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 1));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(saga.adopt(), ["adopted", "undo a 2"]);
    assert_eq!(saga.undo_fails("a", ErrorKind::Failed), ["a undo 2/3, again at 10"]);
    assert_eq!(saga.adopt(), ["adopted"]);
    assert_eq!(saga.wake(10), ["undo a 3"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn the_fifth_interruption_parks_a_compensation() {
    let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 9));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    interrupt(&mut saga, 4);
    assert_eq!(saga.adopt(), ["adopted", "a stuck", "failed at a"]);
    let undo = &saga.state.steps[0].undo;
    assert_eq!(undo.error.as_ref().unwrap().kind, ErrorKind::Interrupted);
}

#[test]
fn a_limited_step_asks_for_room_again_after_an_interruption() {
    let mut saga = Play::start(sequence(&["a"]).limited("a"));
    saga.admit("a").unwrap();
    assert_eq!(saga.adopt(), ["adopted"]);
    assert_eq!(saga.effects, [Effect::Admit { position: 0 }]);
    saga.admit("a").unwrap();
    assert_eq!(saga.news(), ["do a 2"]);
}

#[test]
fn an_ended_saga_is_not_adopted() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.done("a");
    let adopted = backstitch_kernel::saga::Input::Adopted { node: "second".to_owned(), epoch: 2 };
    assert_eq!(saga.input(adopted), Err(Rejected::Ended(Status::Succeeded)));
}

/// A store may append `saga.adopted`; the new owner then finds it in the log.
fn found_adopted(mut saga: Play) -> Play {
    let adopted = Recorded {
        seq: saga.state.seq + 1,
        at: Timestamp::from_micros(saga.state.at.as_micros()),
        event: Event::SagaAdopted { node: "second".to_owned(), epoch: 2 },
    };
    saga.log.push(adopted);
    Play::read(saga.definition, saga.log, saga.now)
}

#[test]
fn an_adoption_found_in_the_log_is_as_good_as_one_decided() {
    let mut decided = Play::start(graph(&[("a", &[]), ("b", &[])]));
    let mut found = found_adopted(decided.clone());
    decided.adopt();
    assert_eq!(found.wake(0), ["do a 2", "do b 2"]);
    assert_eq!(found.state, decided.state);
    assert_eq!(found.log, decided.log);
}

#[test]
fn a_step_that_was_interrupted_too_often_is_not_admitted_either() {
    let mut saga = Play::start(sequence(&["a"]).limited("a"));
    for _ in 0..4 {
        saga.admit("a").unwrap();
        saga.adopt();
    }
    saga.admit("a").unwrap();
    let mut saga = found_adopted(saga);
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())));
    assert_eq!(saga.wake(0), ["a in doubt", "turn at a", "undo a 1"]);
}
