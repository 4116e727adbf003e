//! Attempts of outside workers: what ends them, and what does not.

use crate::saga::support::{Change, Play, graph, seconds, sequence, short};
use backstitch_kernel::saga::{
    Effect, Event, Input, Outcome, Outside, Phase, Rejected, Resolution, Status, StepStatus,
};
use backstitch_kernel::{ErrorKind, Payload, Timestamp};

/// The outside attempt of this step, if its newest attempt is one.
fn left_to(saga: &Play, step: &str) -> Option<Outside> {
    saga.log.iter().rev().find_map(|recorded| match &recorded.event {
        Event::StepStarted { step: started, outside, .. }
        | Event::StepCompensating { step: started, outside, .. }
            if started.as_str() == step =>
        {
            Some(outside.clone())
        }
        _ => None,
    })?
}

/// The timeout of the worker that has this step.
fn until(saga: &Play, step: &str) -> Option<Timestamp> {
    saga.log.iter().rev().find_map(|recorded| match &recorded.event {
        Event::StepLeased { step: leased, until, .. } if leased.as_str() == step => Some(*until),
        _ => None,
    })
}

fn without_end() -> Outside {
    Outside { queue: "workers".into(), queue_until: None, until: None }
}

#[test]
fn an_attempt_left_to_a_worker_is_announced_and_not_run() {
    let saga = Play::start(sequence(&["a", "b"]).outside("a"));
    assert_eq!(saga.news(), ["started", "do a 1"]);
    assert_eq!(saga.effects, []);
    assert_eq!((left_to(&saga, "a"), until(&saga, "a")), (Some(without_end()), Some(seconds(30))));
    assert_eq!((saga.status(), saga.step("a")), (Status::Running, StepStatus::Running));
    assert!(!saga.state.anything_runs_here());
}

#[test]
fn time_of_an_attempt_begins_when_a_worker_leases_it() {
    let mut saga = Play::start_without_workers(sequence(&["a"]).outside("a"));
    assert_eq!((saga.step("a"), saga.state.next_due()), (StepStatus::Waiting, None));
    assert!(saga.state.anything_is_queued());
    assert_eq!(saga.wake(1_000_000), [""; 0], "without a worker nothing times out");
    saga.lease("a", Phase::Do).unwrap();
    assert_eq!(saga.news(), ["a do 1 leased"]);
    assert_eq!((saga.step("a"), until(&saga, "a")), (StepStatus::Running, Some(seconds(1_000_030))));
    assert!(!saga.state.anything_is_queued());
    assert_eq!(saga.lease("a", Phase::Do), Err(Rejected::NotQueued("a".into())), "it has begun");
    assert_eq!(saga.wake(1_000_029), [""; 0]);
    assert_eq!(saga.wake(1_000_030), ["a timed out", "turn at a", "undo a 1"]);
}

#[test]
fn worker_has_its_whole_time_though_clocks_differ() {
    let mut saga = Play::start_without_workers(sequence(&["a"]).outside("a"));
    saga.wake(100);
    let at = seconds(10);
    saga.input(Input::Leased { step: "a".into(), phase: Phase::Do, attempt: 1, at }).unwrap();
    assert_eq!(until(&saga, "a"), Some(seconds(130)), "by the clock that judges it");
}

#[test]
fn leases_of_other_attempts_are_refused() {
    let mut saga = Play::start_without_workers(sequence(&["a", "b"]).outside("a"));
    let lease =
        |step: &str, phase, attempt| Input::Leased { step: step.into(), phase, attempt, at: seconds(1) };
    for (step, phase, attempt) in [("a", Phase::Do, 2), ("a", Phase::Undo, 1), ("b", Phase::Do, 1)] {
        let refused = saga.input(lease(step, phase, attempt));
        assert_eq!(refused, Err(Rejected::Stale { step: step.into(), attempt }));
    }
    assert_eq!(saga.input(lease("x", Phase::Do, 1)), Err(Rejected::UnknownStep("x".into())));
    assert_eq!(saga.done("a"), ["a done", "do b 1"]);
    assert_eq!(saga.input(lease("b", Phase::Do, 1)), Err(Rejected::NotQueued("b".into())), "it runs here");
}

#[test]
fn wait_for_a_worker_ends_with_its_queue_timeout() {
    let draft = sequence(&["a"]).outside("a").retrying("a", 1).undo_outside("a").waiting_at_most("a", 60);
    let mut saga = Play::start_without_workers(draft);
    let wait = |until| Outside { queue_until: Some(seconds(until)), ..without_end() };
    assert_eq!((left_to(&saga, "a"), saga.state.next_due()), (Some(wait(60)), Some(seconds(60))));
    assert_eq!(saga.wake(59), [""; 0]);
    assert_eq!(saga.wake(60), ["a do 1/2, again at 70"]);
    assert_eq!(giving_up(&saga, "a", Phase::Do, 1), ["a do 1/2, again at 70"]);
    assert_eq!(saga.wake(70), ["do a 2"]);
    assert_eq!(left_to(&saga, "a"), Some(wait(130)));
    assert_eq!(saga.wake(130), ["a failed", "turn at a", "compensated"], "no worker had it: no effect");
    let error = saga.state.steps[0].forward.error.clone().unwrap();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Failed, Some("QUEUE_TIMEOUT")));
}

#[test]
fn queue_timeout_stops_while_the_saga_is_paused() {
    let draft = sequence(&["a"]).outside("a").waiting_at_most("a", 60);
    let mut saga = Play::start_without_workers(draft);
    saga.now = 50;
    assert_eq!(saga.pause(), ["paused"]);
    assert_eq!(saga.state.next_due(), None);
    assert_eq!(saga.wake(1000), [""; 0], "no worker could have leased it");
    assert_eq!(saga.resume(), ["resumed"]);
    assert_eq!(saga.state.next_due(), Some(seconds(1010)));
    saga.now = 1005;
    saga.pause();
    saga.now = 1105;
    saga.resume();
    assert_eq!(saga.wake(1109), [""; 0]);
    let mut again = Play::read(saga.definition.clone(), saga.log.clone(), 1109);
    assert_eq!(again.wake(1110), ["a failed", "turn at a", "compensated"], "a log says the same");
    assert_eq!(saga.wake(1110), ["a failed", "turn at a", "compensated"]);
}

#[test]
fn queue_timeout_passed_before_a_pause_ends_after_it() {
    let draft = sequence(&["a"]).outside("a").waiting_at_most("a", 60);
    let mut saga = Play::start_without_workers(draft);
    saga.now = 70;
    saga.pause();
    assert_eq!(saga.wake(100), [""; 0]);
    saga.resume();
    assert_eq!(saga.wake(100), ["a failed", "turn at a", "compensated"]);
}

#[test]
fn worker_timeout_runs_while_the_saga_is_paused() {
    let mut saga = Play::start(sequence(&["a"]).outside("a").waiting_at_most("a", 60));
    saga.pause();
    assert_eq!(saga.state.next_due(), Some(seconds(30)));
    assert_eq!(saga.wake(30), ["a timed out", "turn at a"]);
}

#[test]
fn lease_ends_the_wait_for_a_worker() {
    let mut saga = Play::start_without_workers(sequence(&["a"]).outside("a").waiting_at_most("a", 60));
    saga.now = 50;
    saga.lease("a", Phase::Do).unwrap();
    assert_eq!(saga.state.next_due(), Some(seconds(80)));
    assert_eq!(saga.wake(79), [""; 0]);
    assert_eq!(saga.done("a"), ["a done", "succeeded"]);
}

#[test]
fn attempts_of_older_logs_keep_their_time() {
    let saga = Play::start_without_workers(sequence(&["a"]).outside("a"));
    let mut log = saga.log.clone();
    let outside = Some(Outside { until: Some(seconds(30)), ..without_end() });
    log[1].event = Event::StepStarted { step: "a".into(), attempt: 1, outside };
    let mut saga = Play::read(saga.definition, log, 0);
    assert_eq!((saga.step("a"), saga.state.next_due()), (StepStatus::Running, Some(seconds(30))));
    assert_eq!(saga.wake(30), ["a timed out", "turn at a", "undo a 1"]);
}

#[test]
fn its_answer_goes_the_way_of_any_other() {
    let mut saga = Play::start(sequence(&["a", "b"]).outside("a").retrying("a", 1));
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 1/2, again at 10"]);
    assert_eq!(saga.wake(10), ["do a 2"]);
    assert_eq!(until(&saga, "a"), Some(seconds(40)), "every attempt has its own time");
    assert_eq!(saga.done("a"), ["a done", "do b 1"]);
    assert_eq!(left_to(&saga, "b"), None);
    assert_eq!(saga.fails("b", ErrorKind::Refused), ["b failed", "turn at b", "undo a 1"]);
    assert_eq!(left_to(&saga, "a"), None, "its compensation is performed here");
}

#[test]
fn adoption_interrupts_only_attempts_of_the_node() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).outside("a"));
    assert_eq!(saga.adopt(), ["adopted", "do b 2"]);
    for nth in 3..6 {
        assert_eq!(saga.adopt(), ["adopted".to_owned(), format!("do b {nth}")]);
    }
    let a = &saga.state.steps[0];
    assert_eq!((a.forward.attempts, a.forward.interruptions, a.in_doubt), (1, 0, false));
    assert_eq!(saga.done("a"), ["a done"], "the first attempt's answer counts");
    assert!(saga.state.steps[1].in_doubt);
}

#[test]
fn adoption_leaves_outside_attempts_without_doubt() {
    let mut saga = Play::start(sequence(&["a"]).outside("a"));
    for _ in 0..9 {
        assert_eq!(saga.adopt(), ["adopted"]);
    }
    assert_eq!(saga.fails("a", ErrorKind::Refused), ["a failed", "turn at a", "compensated"]);
}

#[test]
fn outside_attempt_times_out_exactly_at_its_timeout() {
    let mut saga = Play::start(sequence(&["a"]).outside("a"));
    assert_eq!(saga.wake(29), [""; 0]);
    assert_eq!(saga.wake(30), ["a timed out", "turn at a", "undo a 1"]);
    let error = saga.state.steps[0].forward.error.as_ref().unwrap();
    assert_eq!((error.kind, &*error.message), (ErrorKind::TimedOut, "no worker answered in time"));
    assert!(saga.state.steps[0].in_doubt);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_timeout_is_retried_as_its_policy_says() {
    let mut saga = Play::start(sequence(&["a"]).outside("a").retrying("a", 1));
    assert_eq!(saga.wake(30), ["a do 1/2, again at 40"]);
    assert_eq!(saga.step("a"), StepStatus::Running);
    assert_eq!(saga.wake(40), ["do a 2"]);
    assert_eq!(saga.wake(69), [""; 0]);
    assert_eq!(saga.wake(70), ["a timed out", "turn at a", "undo a 1"]);
}

#[test]
fn only_wake_times_out_an_overdue_attempt() {
    let overdue = || {
        let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).outside("a"));
        saga.now = 30;
        saga
    };
    assert_eq!(overdue().adopt(), ["adopted", "do b 2"]);
    assert_eq!(overdue().cancel(), ["turn, cancelled"]);
    assert_eq!(overdue().pause(), ["paused"]);
    let mut saga = overdue();
    assert_eq!(saga.done("b"), ["b done"]);
    assert_eq!(saga.state.next_due(), Some(seconds(30)), "due at once");
    let mut answered = saga.clone();
    assert_eq!(
        answered.done("a"),
        ["a done", "succeeded"],
        "an answer that was there counts, in whatever order"
    );
    assert_eq!(saga.wake(30), ["a timed out", "turn at a", "undo a 1"]);
}

#[test]
fn a_node_that_starts_nothing_new_gives_up_in_time_all_the_same() {
    let mut saga = Play::start(sequence(&["a"]).outside("a"));
    saga.draining = true;
    assert_eq!(saga.wake(30), ["a timed out", "turn at a"]);
    saga.draining = false;
    assert_eq!(saga.wake(31), ["undo a 1"]);
}

#[test]
fn result_counts_until_the_attempt_has_timed_out() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &["a"])]).outside("a").outside("b"));
    saga.now = 30;
    assert_eq!(saga.done("a"), ["a done", "do c 1"]);
    assert_eq!(saga.wake(30), ["b timed out", "turn at b"]);
    assert_eq!(saga.done("c"), ["c done", "undo c 1"]);

    let mut alone = Play::start(sequence(&["a"]).outside("a"));
    alone.now = 99;
    assert_eq!(alone.done("a"), ["a done", "succeeded"], "late, but not timed out yet");
}

#[test]
fn an_answer_after_the_timeout_is_stale() {
    let mut saga = Play::start(sequence(&["a"]).outside("a").retrying("a", 1));
    let answer = saga.answer("a", Phase::Do, Outcome::Succeeded(Payload::null()));
    saga.wake(30);
    let stale = Err(Rejected::Stale { step: "a".into(), attempt: 1 });
    assert_eq!(saga.input(answer.clone()), stale, "while it waits for its next attempt");
    saga.wake(40);
    assert_eq!(saga.input(answer), stale, "while the next attempt runs");
    assert_eq!(saga.done("a"), ["a done", "succeeded"]);
}

#[test]
fn two_that_are_overdue_turn_the_saga_round_once() {
    let draft = graph(&[("a", &[]), ("b", &[]), ("c", &[])]).outside("a").outside("b").outside("c");
    let mut saga = Play::start(draft.clone().retrying("a", 1).retrying("c", 1));
    let news = saga.wake(30);
    let expected =
        ["a do 1/2, again at 40", "b timed out", "turn at b", "c timed out", "a timed out", "undo a 1"];
    assert_eq!(news, expected, "and once it has turned, nothing is tried again");
    let mut saga = Play::start(draft);
    assert_eq!(saga.wake(30)[..3], ["a timed out", "turn at a", "b timed out"]);
}

#[test]
fn rollback_awaits_the_outside_attempt() {
    let draft = graph(&[("a", &[]), ("b", &[])]).outside("a").retrying("a", 5);
    let mut saga = Play::start(draft.clone());
    assert_eq!(saga.fails("b", ErrorKind::Refused), ["b failed", "turn at b"]);
    assert_eq!(saga.effects, [Effect::SignalRollback]);
    assert_eq!(saga.adopt(), ["adopted"], "and a take-over does not change that");
    assert_eq!(saga.done("a"), ["a done", "undo a 1"]);

    let mut saga = Play::start(draft.clone());
    saga.fails("b", ErrorKind::Refused);
    assert_eq!(saga.wake(29), [""; 0]);
    assert_eq!(saga.wake(30), ["a timed out", "undo a 1"], "it gets no new attempt");

    let mut saga = Play::start(draft);
    saga.cancel();
    saga.fails("b", ErrorKind::Refused);
    assert_eq!(saga.fails("a", ErrorKind::Refused), ["a failed", "compensated"]);
}

#[test]
fn a_deadline_turns_the_saga_round_and_awaits_it() {
    let mut saga = Play::due(sequence(&["a"]).outside("a"), 20);
    assert_eq!(saga.state.next_due(), Some(seconds(20)));
    assert_eq!(saga.wake(20), ["turn, late"]);
    assert_eq!(saga.effects, [Effect::SignalRollback]);
    assert_eq!(saga.state.next_due(), Some(seconds(30)));
    assert_eq!(saga.done("a"), ["a done", "undo a 1"]);
}

fn undoing(retries: u32) -> Play {
    let draft = sequence(&["a", "b"]).undo_retrying("a", retries).undo_outside("a");
    let mut saga = Play::start(draft);
    saga.done("a");
    saga.fails("b", ErrorKind::Refused);
    saga
}

#[test]
fn a_compensation_is_left_to_a_worker_too() {
    let mut saga = undoing(0);
    assert_eq!(saga.news(), ["b failed", "turn at b", "undo a 1"]);
    assert_eq!(saga.effects, []);
    assert_eq!((left_to(&saga, "a"), until(&saga, "a")), (Some(without_end()), Some(seconds(30))));
    assert_eq!(saga.step("a"), StepStatus::Compensating);
    assert_eq!(saga.adopt(), ["adopted"]);
    assert_eq!(saga.state.steps[0].undo.interruptions, 0);
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn unanswered_compensation_is_retried_and_then_fails() {
    let mut saga = undoing(1);
    let answer = saga.answer("a", Phase::Undo, Outcome::Succeeded(Payload::null()));
    assert_eq!(saga.wake(29), [""; 0]);
    assert_eq!(saga.wake(30), ["a undo 1/2, again at 40"]);
    assert_eq!(saga.input(answer), Err(Rejected::Stale { step: "a".into(), attempt: 1 }));
    assert_eq!(saga.wake(40), ["undo a 2"]);
    assert_eq!(saga.undo_fails("a", ErrorKind::Refused), ["a stuck", "failed at a"]);

    let mut saga = undoing(0);
    assert_eq!(saga.wake(30), ["a stuck", "failed at a"]);
    let error = saga.state.steps[0].undo.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert_eq!(saga.state.next_due(), None);
    assert_eq!(saga.resolve("a", Resolution::Retry), ["a resolved retry", "undo a 2"]);
    assert_eq!(until(&saga, "a"), Some(seconds(60)), "a person's retry has its whole time again");
    assert_eq!(saga.undone("a"), ["a undone", "compensated"]);
}

#[test]
fn a_pause_does_not_stop_its_time() {
    let mut saga = Play::start(sequence(&["a"]).outside("a").retrying("a", 1));
    saga.pause();
    assert_eq!(saga.state.next_due(), Some(seconds(30)));
    assert_eq!(saga.wake(30), ["a do 1/2, again at 40"]);
    assert_eq!(saga.state.next_due(), None, "a retry waits for the pause to end");
    assert_eq!(saga.wake(40), [""; 0]);
    assert_eq!(saga.resume(), ["resumed", "do a 2"]);
    assert_eq!(until(&saga, "a"), Some(seconds(70)));

    let mut saga = Play::start(sequence(&["a", "b"]).outside("a"));
    saga.pause();
    assert_eq!(saga.done("a"), ["a done"], "what is in flight finishes");
    assert_eq!(saga.resume(), ["resumed", "do b 1"]);
}

#[test]
fn state_knows_its_next_retry_or_timeout() {
    let draft = graph(&[("a", &[]), ("b", &[])]).outside("a").retrying("b", 1);
    let mut saga = Play::due(draft, 15);
    assert_eq!(saga.state.next_attempt(), Some(seconds(30)));
    assert_eq!(saga.state.next_due(), Some(seconds(15)), "the deadline comes first");
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(saga.state.next_attempt(), Some(seconds(10)), "a retry comes before it");
    assert_eq!(saga.state.next_due(), Some(seconds(10)));
    assert_eq!(saga.state.next_attempt_besides(&[1]), Some(seconds(30)));
    saga.wake(15);
    assert_eq!(saga.status(), Status::Compensating);
    assert_eq!(saga.state.next_due(), Some(seconds(30)));
    assert_eq!(saga.state.next_attempt(), Some(seconds(30)));
    assert_eq!(saga.state.next_attempt_besides(&[0]), Some(seconds(30)), "only retries wait for room");
    saga.fails("a", ErrorKind::Refused);
    assert_eq!((saga.status(), saga.state.next_due()), (Status::Compensated, None));
    assert_eq!(saga.state.next_attempt(), None);
}

#[test]
fn worker_cannot_report_a_step_of_the_node() {
    let mut saga = Play::start(sequence(&["a"]).outside("a"));
    let stale = |phase, attempt| Input::Finished {
        step: "a".into(),
        phase,
        attempt,
        outcome: Outcome::Succeeded(Payload::null()),
    };
    for (phase, attempt) in [(Phase::Do, 0), (Phase::Do, 2), (Phase::Undo, 1)] {
        let rejected = saga.input(stale(phase, attempt)).unwrap_err();
        assert_eq!(rejected, Rejected::Stale { step: "a".into(), attempt });
    }
}

#[test]
fn attempt_is_outside_while_a_worker_may_report() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &["a"])]).outside("b").undo_outside("a"));
    assert!(!saga.state.anything_is_outside(), "a is performed here");
    saga.done("a");
    assert!(saga.state.anything_is_outside(), "b is a worker's");
    saga.fails("b", ErrorKind::Refused);
    assert!(saga.state.anything_is_outside(), "the compensation of a is a worker's");
    saga.undone("a");
    assert!(!saga.state.anything_is_outside());
}

/// The events that end this attempt by a timeout.
fn giving_up(saga: &Play, step: &str, phase: Phase, attempt: u32) -> Vec<String> {
    let step = step.into();
    let gave_up = saga.log.iter().filter(|it| it.event.gave_up_waiting_for(&step, phase, attempt));
    gave_up.map(|recorded| short(&recorded.event)).collect()
}

#[test]
fn worker_timeout_is_distinguished_from_a_failure() {
    let draft = sequence(&["a"]).outside("a").retrying("a", 1).undo_outside("a").undo_retrying("a", 1);
    let mut silent = Play::start(draft.clone());
    // Both attempts time out, and so do both of the compensation.
    for now in [30, 40, 70, 100, 110, 140] {
        silent.wake(now);
    }
    assert_eq!(silent.status(), Status::Failed);
    assert_eq!(giving_up(&silent, "a", Phase::Do, 1), ["a do 1/2, again at 40"]);
    assert_eq!(giving_up(&silent, "a", Phase::Do, 2), ["a timed out"]);
    assert_eq!(giving_up(&silent, "a", Phase::Undo, 1), ["a undo 1/2, again at 110"]);
    assert_eq!(giving_up(&silent, "a", Phase::Undo, 2), ["a stuck"]);
    assert_eq!(giving_up(&silent, "a", Phase::Do, 3), [""; 0], "there was no third");
    assert_eq!(giving_up(&silent, "b", Phase::Do, 1), [""; 0], "that is another step");

    let mut failing = Play::start(draft);
    failing.fails("a", ErrorKind::Failed);
    failing.wake(10);
    failing.fails("a", ErrorKind::TimedOut);
    failing.undo_fails("a", ErrorKind::Refused);
    for (phase, attempt) in [(Phase::Do, 1), (Phase::Do, 2), (Phase::Undo, 1)] {
        assert_eq!(giving_up(&failing, "a", phase, attempt), [""; 0], "a worker said so");
    }
}
