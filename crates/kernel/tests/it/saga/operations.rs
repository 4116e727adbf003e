//! Operators and clocks: cancel, pause, resume, deadlines, and resolutions.

use crate::saga::support::{Change, Play, graph, seconds, sequence};
use backstitch_kernel::ErrorKind;
use backstitch_kernel::saga::{self, Effect, Input, Rejected, Resolution, Start, Status, StepStatus};

fn ask(input: fn(String) -> Input) -> Input {
    input("again".to_owned())
}

fn resolution(step: &str, action: Resolution) -> Input {
    Input::Resolve { step: step.into(), action, note: String::new() }
}

#[test]
fn cancelling_is_a_request_to_roll_back() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).retrying("b", 4));
    saga.done("a");
    assert_eq!(saga.cancel(), ["turn, cancelled"]);
    assert_eq!(saga.effects, [Effect::SignalRollback]);
    assert_eq!(saga.done("b"), ["b done", "undo b 1"], "what runs is awaited");
    saga.undone("b");
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
    let cause = saga.state.cause.as_ref().unwrap();
    assert_eq!(cause.failed_step, None);
    assert_eq!(cause.error.kind, ErrorKind::Cancelled);
    assert_eq!(cause.error.message, "changed my mind");
}

#[test]
fn cancel_without_a_note_has_an_error_message() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.input(Input::Cancel { note: " ".to_owned() }).unwrap();
    assert_eq!(saga.state.cause.as_ref().unwrap().error.message, "cancelled without a note");
}

#[test]
fn a_cancelled_saga_does_not_succeed_though_its_last_step_does() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.cancel();
    assert_eq!(saga.done("a"), ["a done", "undo a 1"]);
}

#[test]
fn cancelling_before_anything_ran_ends_at_once() {
    let mut saga = Play::start(sequence(&["a"]).limited("a"));
    assert_eq!(saga.cancel(), ["turn, cancelled", "compensated"]);
}

#[test]
fn a_saga_is_cancelled_once() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.cancel();
    let again = ask(|note| Input::Cancel { note });
    assert_eq!(saga.input(again.clone()), Err(Rejected::RollingBack));
    saga.fails("a", ErrorKind::Refused);
    assert_eq!(saga.input(again), Err(Rejected::Ended(Status::Compensated)));
}

#[test]
fn paused_saga_finishes_running_steps_and_starts_none() {
    let mut saga = Play::start(sequence(&["a", "b"]).retrying("b", 1));
    assert_eq!(saga.pause(), ["paused"]);
    assert_eq!(saga.done("a"), ["a done"]);
    assert_eq!(saga.wake(500), [""; 0]);
    assert_eq!(saga.resume(), ["resumed", "do b 1"]);
    saga.pause();
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(saga.state.next_due(), None, "a pause has no end by itself");
    assert_eq!(saga.wake(600), [""; 0]);
    assert_eq!(saga.resume(), ["resumed", "do b 2"]);
    saga.pause();
    assert_eq!(saga.done("b"), ["b done", "succeeded"], "an end starts nothing");
}

#[test]
fn a_paused_rollback_starts_no_compensation() {
    let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 1));
    saga.done("a");
    saga.pause();
    assert_eq!(saga.fails("b", ErrorKind::Failed), ["b failed", "turn at b"]);
    assert_eq!(saga.resume(), ["resumed", "undo a 1"]);
    saga.pause();
    saga.undo_fails("a", ErrorKind::Failed);
    assert_eq!(saga.state.next_due(), None);
    assert_eq!(saga.wake(99), [""; 0]);
    assert_eq!(saga.resume(), ["resumed", "undo a 2"]);
    saga.pause();
    assert_eq!(saga.undo_fails("a", ErrorKind::Failed), ["a stuck", "failed at a"]);
    assert_eq!(saga.resolve("a", Resolution::Retry), ["a resolved retry"]);
    assert_eq!(saga.status(), Status::Compensating);
    assert_eq!(saga.resume(), ["resumed", "undo a 3"]);
}

#[test]
fn a_paused_saga_is_not_paused_again_nor_a_running_one_resumed() {
    let mut saga = Play::start(sequence(&["a"]));
    assert_eq!(saga.input(ask(|note| Input::Resume { note })), Err(Rejected::NotPaused));
    saga.pause();
    assert_eq!(saga.input(ask(|note| Input::Pause { note })), Err(Rejected::Paused));
}

#[test]
fn interrupted_step_of_a_paused_saga_waits_for_resume() {
    let mut saga = Play::start(sequence(&["a"]));
    saga.pause();
    assert_eq!(saga.adopt(), ["adopted"]);
    assert_eq!(saga.resume(), ["resumed", "do a 2"]);
}

#[test]
fn a_saga_past_its_deadline_is_rolled_back() {
    let mut saga = Play::due(sequence(&["a", "b", "c"]), 100);
    saga.done("a");
    assert_eq!(saga.state.next_due(), Some(seconds(100)));
    assert_eq!(saga.wake(99), [""; 0]);
    assert_eq!(saga.wake(100), ["turn, late"]);
    assert_eq!(saga.effects, [Effect::SignalRollback]);
    assert_eq!(saga.state.next_due(), None, "a rollback has no deadline");
    assert_eq!(saga.done("b"), ["b done", "undo b 1"]);
    let cause = saga.state.cause.as_ref().unwrap();
    assert_eq!(cause.error.kind, ErrorKind::DeadlineExceeded);
}

#[test]
fn saga_that_ends_before_its_deadline_is_judged_succeeds() {
    let mut saga = Play::due(sequence(&["a"]), 100);
    saga.now = 150;
    assert_eq!(saga.done("a"), ["a done", "succeeded"]);
}

#[test]
fn a_step_that_finishes_late_is_the_last() {
    let mut saga = Play::due(sequence(&["a", "b"]), 100);
    saga.now = 150;
    assert_eq!(saga.done("a"), ["a done"], "nothing more starts");
    assert_eq!(saga.state.next_due(), Some(seconds(100)));
    assert_eq!(saga.wake(150), ["turn, late", "undo a 1"]);
}

#[test]
fn only_a_look_at_the_clock_turns_a_late_saga_round() {
    let late = || {
        let mut saga = Play::due(graph(&[("a", &[]), ("b", &[])]).retrying("a", 1), 100);
        saga.now = 150;
        saga
    };
    let mut saga = late();
    assert_eq!(saga.done("a"), ["a done"]);
    assert_eq!(saga.done("b"), ["b done", "succeeded"], "however many of the last answers come late");
    let mut saga = late();
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 1/2, again at 160"]);
    saga.now = 160;
    assert_eq!(saga.pause(), ["paused"]);
    assert_eq!(saga.resume(), ["resumed"], "no retry starts");
    assert_eq!(saga.wake(160), ["turn, late", "a failed"]);
    let mut saga = late();
    assert_eq!(saga.adopt(), ["adopted"], "nor does what was interrupted");
    assert_eq!(saga.wake(150)[0], "turn, late");
}

#[test]
fn the_earlier_of_retry_and_deadline_is_due_first() {
    for (deadline, due) in [(5, 5), (50, 10)] {
        let mut saga = Play::due(sequence(&["a"]).retrying("a", 1), deadline);
        saga.fails("a", ErrorKind::Failed);
        assert_eq!(saga.state.next_due(), Some(seconds(due)));
    }
}

#[test]
fn deadlines_run_on_while_a_saga_is_paused() {
    let mut saga = Play::due(sequence(&["a", "b"]), 100);
    saga.done("a");
    saga.pause();
    saga.fails("b", ErrorKind::Failed);
    let mut saga = Play::due(sequence(&["a", "b"]), 100);
    saga.pause();
    saga.done("a");
    assert_eq!(saga.state.next_due(), Some(seconds(100)));
    assert_eq!(saga.wake(100), ["turn, late"]);
    assert_eq!(saga.resume(), ["resumed", "undo a 1"]);
}

#[test]
fn a_saga_that_starts_late_ends_at_once() {
    let saga = Play::due(sequence(&["a"]), 0);
    assert_eq!(saga.news(), ["started", "turn, late", "compensated"]);
}

#[test]
fn accepted_saga_does_nothing_yet_even_past_its_deadline() {
    for deadline in [None, Some(seconds(0))] {
        let definition = sequence(&["a"]).check().unwrap();
        let start = Start { deadline, ..Start::default() };
        let decision = saga::accept(&definition, start, seconds(1));
        assert_eq!((decision.events.len(), decision.effects.len()), (1, 0));
        let mut play = Play::read(definition, decision.events, 1);
        assert_eq!((play.status(), &play.state), (Status::Pending, &decision.state));
        let next = if deadline.is_some() { vec!["turn, late", "compensated"] } else { vec!["do a 1"] };
        assert_eq!(play.wake(1), next);
    }
}

fn stuck() -> Play {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).undo_retrying("b", 1));
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    saga.undo_fails("b", ErrorKind::Failed);
    saga.wake(10);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b stuck", "failed at b"]);
    saga
}

#[test]
fn a_stuck_compensation_can_be_retried_with_all_its_retries() {
    let mut saga = stuck();
    assert_eq!(saga.resolve("b", Resolution::Retry), ["b resolved retry", "undo b 3"]);
    assert_eq!(saga.status(), Status::Compensating);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b undo 3/4, again at 20"]);
    saga.wake(20);
    let mut again = saga.clone();
    assert_eq!(again.undo_fails("b", ErrorKind::Failed), ["b stuck", "failed at b"]);
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_retried_compensation_is_forgiven_its_interruptions() {
    let mut saga = stuck();
    saga.resolve("b", Resolution::Retry);
    for _ in 0..4 {
        saga.adopt();
    }
    assert_eq!(saga.adopt(), ["adopted", "b stuck", "failed at b"]);
    saga.resolve("b", Resolution::Retry);
    assert_eq!(saga.adopt(), ["adopted", "undo b 9"]);
}

#[test]
fn a_stuck_compensation_can_be_skipped() {
    let mut saga = stuck();
    assert_eq!(saga.resolve("b", Resolution::Skip), ["b resolved skip", "undo a 1"]);
    assert_eq!(saga.step("b"), StepStatus::Skipped);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_stuck_compensation_can_be_done_by_hand() {
    let mut saga = stuck();
    assert_eq!(saga.resolve("b", Resolution::Done), ["b resolved done", "undo a 1"]);
    assert_eq!(saga.step("b"), StepStatus::Compensated);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn last_resolution_ends_the_saga() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    saga.undo_fails("a", ErrorKind::Failed);
    assert_eq!(saga.resolve("a", Resolution::Skip), ["a resolved skip", "compensated"]);
}

#[test]
fn resolved_saga_fails_again_with_another_stuck_step() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).going_on());
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    saga.undo_fails("b", ErrorKind::Failed);
    saga.undo_fails("a", ErrorKind::Failed);
    assert_eq!(saga.resolve("a", Resolution::Done), ["a resolved done", "failed at b"]);
    assert_eq!(saga.resolve("b", Resolution::Retry), ["b resolved retry", "undo b 2"]);
    assert_eq!(saga.undone("b"), ["b undone", "compensated"]);
}

/// Two parallel compensations, both stuck, in a saga that stops at a failed one; `a` has not begun.
fn two_stuck() -> Play {
    let draft = graph(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])]).undoing_at_once(2);
    let mut saga = Play::start(draft);
    for step in ["a", "b", "c"] {
        saga.done(step);
    }
    saga.fails("d", ErrorKind::Failed);
    saga.undo_fails("c", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b stuck", "failed at b"]);
    saga
}

#[test]
fn operator_retry_runs_beside_another_stuck_compensation() {
    let mut saga = two_stuck();
    assert_eq!(saga.resolve("c", Resolution::Retry), ["c resolved retry", "undo c 2"]);
    assert_eq!(saga.undone("c"), ["c undone", "failed at b"], "`b` still stops the others");
    assert_eq!(saga.resolve("b", Resolution::Skip), ["b resolved skip", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_retry_a_person_asked_for_waits_for_the_end_of_a_pause() {
    let mut saga = two_stuck();
    saga.draining = true;
    assert_eq!(saga.resolve("c", Resolution::Retry), ["c resolved retry"]);
    assert_eq!(saga.status(), Status::Compensating);
    saga.draining = false;
    assert_eq!(saga.wake(1), ["undo c 2"]);
}

#[test]
fn only_a_stuck_compensation_of_a_failed_saga_can_be_resolved() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    let retry = || resolution("a", Resolution::Retry);
    assert_eq!(saga.input(retry()), Err(Rejected::NotFailed(Status::Running)));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(saga.input(retry()), Err(Rejected::NotFailed(Status::Compensating)));
    saga.undo_fails("a", ErrorKind::Failed);
    let other = resolution("b", Resolution::Retry);
    assert_eq!(saga.input(other), Err(Rejected::NotStuck("b".into())));
    let unknown = resolution("nowhere", Resolution::Retry);
    assert_eq!(saga.input(unknown), Err(Rejected::UnknownStep("nowhere".into())));
    assert_eq!(saga.input(Input::Wake), Err(Rejected::Ended(Status::Failed)));
    saga.resolve("a", Resolution::Done);
    assert_eq!(saga.input(retry()), Err(Rejected::Ended(Status::Compensated)));
}
