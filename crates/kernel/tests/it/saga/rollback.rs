//! Rollbacks: what is undone, in which order, and how they end.

use crate::saga::support::{Change, Play, graph, seconds, sequence};
use backstitch_kernel::saga::{Effect, Outcome, Phase, Rejected, Status, StepStatus};
use backstitch_kernel::{ErrorKind, Payload, StepError};

#[test]
fn failed_step_begins_a_rollback_in_reverse_order() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]));
    saga.done("a");
    saga.done("b");
    assert_eq!(saga.fails("c", ErrorKind::Failed), ["c failed", "turn at c", "undo b 1"]);
    assert_eq!(saga.status(), Status::Compensating);
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
    assert_eq!(saga.step("a"), StepStatus::Compensated);
    assert_eq!(saga.step("c"), StepStatus::Failed);
    let cause = saga.state.cause.as_ref().unwrap();
    assert_eq!(cause.failed_step, Some("c".into()));
    assert_eq!(cause.error, StepError::not_done("no"));
}

#[test]
fn failing_with_nothing_to_undo_ends_compensated() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    let news = saga.fails("a", ErrorKind::Failed);
    assert_eq!(news, ["a failed", "turn at a", "compensated"]);
    assert_eq!(saga.step("b"), StepStatus::Pending, "it never ran");
}

#[test]
fn a_timed_out_step_is_compensated_too() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    saga.done("a");
    assert_eq!(saga.fails("b", ErrorKind::TimedOut), ["b timed out", "turn at b", "undo b 1"]);
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
}

#[test]
fn whatever_leaves_doubt_is_compensated() {
    for kind in [ErrorKind::InDoubt, ErrorKind::Panicked] {
        let mut saga = Play::start(sequence(&["a"]));
        assert_eq!(saga.fails("a", kind), ["a in doubt", "turn at a", "undo a 1"], "{kind:?}");
        assert_eq!(saga.step("a"), StepStatus::Compensating);
    }
}

#[test]
fn doubt_sticks_through_a_later_refusal() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 3));
    saga.fails("a", ErrorKind::InDoubt);
    saga.wake(10);
    let news = saga.fails("a", ErrorKind::Refused);
    assert_eq!(news, ["a in doubt", "turn at a", "undo a 1"]);
}

#[test]
fn doubt_stays_through_later_failures() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 2));
    saga.fails("a", ErrorKind::TimedOut);
    saga.wake(10);
    saga.fails("a", ErrorKind::Failed);
    saga.wake(20);
    let news = saga.fails("a", ErrorKind::Failed);
    assert_eq!(news, ["a in doubt", "turn at a", "undo a 1"]);
}

#[test]
fn a_running_sibling_is_awaited_and_then_undone_first() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &[])]));
    saga.done("a");
    assert_eq!(saga.fails("b", ErrorKind::Failed), ["b failed", "turn at b"]);
    assert_eq!(saga.effects, [Effect::SignalRollback]);
    assert_eq!(saga.done("c"), ["c done", "undo c 1"]);
    assert_eq!(saga.undone("c"), ["c undone", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn rollback_without_running_steps_signals_none() {
    let mut saga = Play::start(sequence(&["a", "b"]));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    assert!(!saga.effects.contains(&Effect::SignalRollback));
}

#[test]
fn a_running_sibling_gets_no_new_attempt() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).retrying("b", 3));
    saga.fails("a", ErrorKind::Refused);
    assert_eq!(saga.fails("b", ErrorKind::Failed), ["b failed", "compensated"]);
}

#[test]
fn a_running_sibling_that_ends_in_doubt_is_undone() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).retrying("b", 3));
    saga.fails("a", ErrorKind::Refused);
    assert_eq!(saga.fails("b", ErrorKind::TimedOut), ["b timed out", "undo b 1"]);
    assert_eq!(saga.undone("b"), ["b undone", "compensated"]);
    assert_eq!(
        saga.state.cause.as_ref().unwrap().failed_step,
        Some("a".into()),
        "the first failure stays the cause"
    );
}

#[test]
fn rollback_ends_a_parallel_step_that_waits_for_a_retry() {
    for (kind, end, undo) in [
        (ErrorKind::Failed, "b failed", None),
        (ErrorKind::InDoubt, "b in doubt", Some("undo b 1")),
        (ErrorKind::TimedOut, "b timed out", Some("undo b 1")),
    ] {
        let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).retrying("b", 3));
        saga.fails("b", kind);
        let mut expected = vec!["a failed", "turn at a", end];
        expected.push(undo.unwrap_or("compensated"));
        assert_eq!(saga.fails("a", ErrorKind::Refused), expected);
    }
}

#[test]
fn last_finished_step_is_undone_first() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])]));
    saga.done("b");
    saga.done("c");
    saga.done("a");
    assert_eq!(saga.fails("d", ErrorKind::Failed), ["d failed", "turn at d", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "undo c 1"]);
    assert_eq!(saga.undone("c"), ["c undone", "undo b 1"]);
}

#[test]
fn step_is_undone_after_all_its_transitive_dependents() {
    // There is room for all of them at once, so only the dependencies make `a` wait.
    let draft = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"])])
        .without_undo("b")
        .undoing_at_once(3);
    let mut saga = Play::start(draft);
    for step in ["a", "b", "c"] {
        saga.done(step);
    }
    assert_eq!(saga.fails("d", ErrorKind::Refused), ["d failed", "turn at d", "undo c 1"]);
    assert_eq!(saga.undone("c"), ["c undone", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
    assert_eq!(saga.step("b"), StepStatus::Succeeded, "it has nothing to undo");
}

#[test]
fn compensations_run_one_at_a_time_unless_more_are_allowed() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])];
    for (at_once, expected) in [
        (1, vec!["d failed", "turn at d", "undo c 1"]),
        (2, vec!["d failed", "turn at d", "undo c 1", "undo b 1"]),
        (9, vec!["d failed", "turn at d", "undo c 1", "undo b 1", "undo a 1"]),
    ] {
        let mut saga = Play::start(graph(steps).undoing_at_once(at_once));
        for step in ["a", "b", "c"] {
            saga.done(step);
        }
        assert_eq!(saga.fails("d", ErrorKind::Failed), expected);
    }
}

#[test]
fn a_compensation_that_waits_keeps_its_place() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]).undo_retrying("b", 1));
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b undo 1/2, again at 10"]);
    assert_eq!(saga.state.next_due(), Some(seconds(10)));
    assert_eq!(saga.step("b"), StepStatus::Compensating);
    assert_eq!(saga.wake(9), [""; 0]);
    assert_eq!(saga.wake(10), ["undo b 2"]);
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
}

#[test]
fn compensation_without_room_keeps_its_turn_until_admitted() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]));
    saga.done("a");
    saga.done("b");
    saga.full = vec![1];
    assert_eq!(saga.fails("c", ErrorKind::Refused), ["c failed", "turn at c"], "a comes after b");
    let ask = Effect::Admit { position: 1 };
    assert_eq!(saga.effects, std::slice::from_ref(&ask));
    assert_eq!(saga.wake(1), [""; 0]);
    assert_eq!(saga.effects, [ask], "the effect is repeated");
    assert_eq!(saga.admit("c"), Err(Rejected::NotWaiting("c".into())), "nothing to undo");
    saga.admit("b").unwrap();
    assert_eq!(saga.news(), ["undo b 1"]);
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())), "one at a time");
    assert_eq!(saga.undone("b"), ["b undone", "undo a 1"]);
}

#[test]
fn compensation_retry_without_room_waits_and_counts_nothing() {
    let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 2));
    saga.done("a");
    saga.fails("b", ErrorKind::Refused);
    saga.undo_fails("a", ErrorKind::Failed);
    saga.full = vec![0];
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())), "its time has not come");
    assert_eq!(saga.wake(100), [""; 0]);
    assert_eq!(saga.effects, [Effect::Admit { position: 0 }]);
    saga.pause();
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())), "it is paused");
    saga.resume();
    saga.admit("a").unwrap();
    assert_eq!(saga.news(), ["undo a 2"]);
}

#[test]
fn a_compensation_is_tried_again_whatever_the_failure() {
    for kind in
        [ErrorKind::Refused, ErrorKind::Failed, ErrorKind::InDoubt, ErrorKind::TimedOut, ErrorKind::Panicked]
    {
        let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 2));
        saga.done("a");
        saga.fails("b", ErrorKind::Failed);
        assert_eq!(saga.undo_fails("a", kind), ["a undo 1/3, again at 10"], "{kind:?}");
        saga.wake(10);
        assert_eq!(saga.undo_fails("a", kind), ["a undo 2/3, again at 20"]);
        saga.wake(20);
        assert_eq!(saga.undo_fails("a", kind), ["a stuck", "failed at a"]);
        assert_eq!(saga.status(), Status::Failed);
        assert_eq!(saga.step("a"), StepStatus::CompensationFailed);
        assert_eq!(saga.state.next_due(), None);
    }
}

#[test]
fn by_default_a_failed_compensation_stops_the_rollback() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]));
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b stuck", "failed at b"]);
    assert_eq!(saga.step("a"), StepStatus::Succeeded);
}

#[test]
fn stopped_rollback_awaits_running_compensations() {
    let draft = graph(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])])
        .undo_retrying("b", 1)
        .undoing_at_once(2);
    let mut saga = Play::start(draft);
    for step in ["a", "b", "c"] {
        saga.done(step);
    }
    saga.fails("d", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("c", ErrorKind::Failed), ["c stuck"]);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b undo 1/2, again at 10"]);
    assert_eq!(saga.wake(10), ["undo b 2"]);
    assert_eq!(saga.undone("b"), ["b undone", "failed at c"]);
    assert_eq!(saga.step("a"), StepStatus::Succeeded);
}

#[test]
fn continuing_saga_undoes_the_rest_and_then_fails() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).going_on());
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("b", ErrorKind::Failed), ["b stuck", "undo a 1"]);
    assert_eq!(saga.undone("a"), ["a undone", "failed at b"]);
    assert_eq!(saga.status(), Status::Failed);
}

#[test]
fn a_failed_rollback_names_the_compensation_that_failed_last() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).going_on());
    saga.done("a");
    saga.done("b");
    saga.fails("c", ErrorKind::Failed);
    saga.undo_fails("b", ErrorKind::Failed);
    assert_eq!(saga.undo_fails("a", ErrorKind::Refused), ["a stuck", "failed at a"]);
}

#[test]
fn a_late_answer_to_a_compensation_is_stale() {
    let mut saga = Play::start(sequence(&["a", "b"]).undo_retrying("a", 1));
    saga.done("a");
    saga.fails("b", ErrorKind::Failed);
    let first = saga.answer("a", Phase::Undo, Outcome::Succeeded(Payload::null()));
    saga.undo_fails("a", ErrorKind::TimedOut);
    assert!(saga.input(first.clone()).is_err());
    saga.wake(10);
    assert!(saga.input(first).is_err());
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_held_back_node_starts_no_compensation() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]).undo_retrying("b", 1));
    saga.done("a");
    saga.done("b");
    saga.draining = true;
    assert_eq!(saga.fails("c", ErrorKind::Failed), ["c failed", "turn at c"]);
    saga.draining = false;
    assert_eq!(saga.wake(1), ["undo b 1"]);
    saga.undo_fails("b", ErrorKind::Failed);
    saga.draining = true;
    assert_eq!(saga.wake(30), [""; 0]);
    saga.draining = false;
    assert_eq!(saga.wake(31), ["undo b 2"]);
    saga.draining = true;
    assert_eq!(saga.undone("b"), ["b undone"]);
    saga.draining = false;
    saga.wake(32);
    saga.draining = true;
    assert_eq!(saga.undone("a"), ["a undone", "compensated"], "an end starts nothing");
}
