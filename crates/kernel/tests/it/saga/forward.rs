//! Going forward: starts and retries.

use std::time::Duration;

use crate::saga::support::{Change, Play, graph, seconds, sequence};
use backstitch_kernel::saga::{Effect, Input, Outcome, Phase, Rejected, Start, Status, StepStatus};
use backstitch_kernel::{ErrorKind, Payload, Retry, StepError};

#[test]
fn a_sequence_runs_one_step_after_the_other_and_succeeds() {
    let mut saga = Play::start(sequence(&["a", "b", "c"]));
    assert_eq!(saga.news(), ["started", "do a 1"]);
    assert_eq!(saga.status(), Status::Running);
    assert_eq!(saga.done("a"), ["a done", "do b 1"]);
    assert_eq!(saga.done("b"), ["b done", "do c 1"]);
    assert_eq!(saga.done("c"), ["c done", "succeeded"]);
    assert_eq!(saga.status(), Status::Succeeded);
}

#[test]
fn the_effects_of_a_decision_are_the_attempts_it_announces() {
    let saga = Play::start(graph(&[("a", &[]), ("b", &[])]));
    let run = |position| Effect::Run { position, phase: Phase::Do, attempt: 1 };
    assert_eq!(saga.effects, [run(0), run(1)]);
}

#[test]
fn parallel_steps_run_together_and_a_join_waits_for_all() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["b"])]));
    assert_eq!(saga.news(), ["started", "do a 1", "do b 1"]);
    assert_eq!(saga.done("b"), ["b done", "do d 1"]);
    assert_eq!(saga.done("a"), ["a done", "do c 1"]);
    assert_eq!(saga.done("c"), ["c done"]);
    assert_eq!(saga.done("d"), ["d done", "succeeded"]);
}

#[test]
fn a_result_is_kept_for_the_steps_that_follow() {
    let mut saga = Play::start(sequence(&["a"]));
    let result = Payload::parse("{\"id\": 7}").unwrap();
    saga.input(saga.answer("a", Phase::Do, Outcome::Succeeded(result.clone()))).unwrap();
    assert_eq!(saga.state.steps[0].result, Some(result));
}

#[test]
fn a_failed_attempt_is_followed_by_another_after_its_wait() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 2));
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 1/3, again at 10"]);
    assert_eq!(saga.step("a"), StepStatus::Running);
    assert_eq!(saga.state.next_due(), Some(seconds(10)));
    assert_eq!(saga.wake(9), [""; 0]);
    assert_eq!(saga.wake(10), ["do a 2"]);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 2/3, again at 20"]);
    assert_eq!(saga.wake(20), ["do a 3"]);
    assert_eq!(
        saga.fails("a", ErrorKind::Failed),
        ["a failed", "turn at a", "compensated"],
        "two retries make three attempts"
    );
}

/// Three retries, 10 s apart, within this many seconds.
fn bounded(seconds: u64) -> Play {
    let mut draft = sequence(&["a"]).retrying("a", 3);
    draft.steps[0].retry.within = Some(Duration::from_secs(seconds));
    Play::start(draft)
}

#[test]
fn retry_that_cannot_start_in_time_is_not_made() {
    let mut saga = bounded(20);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 1/4, again at 10"]);
    assert_eq!(saga.wake(12), ["do a 2"]);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a failed", "turn at a", "compensated"], "at 22");
}

#[test]
fn last_attempt_has_only_the_time_that_is_left() {
    let mut saga = bounded(25);
    let left = |saga: &Play| {
        let (step, state) = (&saga.definition.steps()[0], &saga.state);
        step.time_of_attempt(Phase::Do, &state.steps[0], state.at).unwrap().as_secs()
    };
    assert_eq!(left(&saga), 25, "the timeout alone would be 30");
    saga.fails("a", ErrorKind::Failed);
    saga.wake(12);
    assert_eq!(left(&saga), 13);
}

#[test]
fn a_refusal_is_not_tried_again() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 2));
    let news = saga.fails("a", ErrorKind::Refused);
    assert_eq!(news, ["a failed", "turn at a", "compensated"]);
}

#[test]
fn unusable_result_is_not_retried_and_its_step_is_undone() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 2));
    let news = saga.fails("a", ErrorKind::Unusable);
    assert_eq!(news, ["a in doubt", "turn at a", "undo a 1"]);
}

#[test]
fn every_other_kind_of_failure_is_tried_again() {
    for kind in [ErrorKind::Failed, ErrorKind::InDoubt, ErrorKind::TimedOut, ErrorKind::Panicked] {
        let mut saga = Play::start(sequence(&["a"]).retrying("a", 1));
        assert_eq!(saga.fails("a", kind), ["a do 1/2, again at 10"], "{kind:?}");
    }
}

#[test]
fn a_success_after_a_doubtful_attempt_leaves_no_doubt() {
    let mut saga = Play::start(sequence(&["a"]).retrying("a", 1));
    saga.fails("a", ErrorKind::TimedOut);
    saga.wake(10);
    assert_eq!(saga.done("a"), ["a done", "succeeded"]);
    assert!(!saga.state.steps[0].in_doubt);
}

#[test]
fn retry_after_lengthens_the_wait_up_to_the_policys_cap() {
    let plain = Retry::fixed(1, Duration::from_secs(10));
    let capped = Retry::exponential(1, Duration::from_secs(10)).with_cap(Duration::from_secs(30));
    for (retry, asked, told, expected) in [
        (&plain, 3, 3, 10),
        (&plain, 25, 25, 25),
        (&plain, 7 * 86_400, 300, 300),
        (&capped, 25, 25, 25),
        (&capped, 7 * 86_400, 30, 30),
    ] {
        let mut draft = sequence(&["a"]);
        draft.steps[0].retry = retry.clone();
        let mut saga = Play::start(draft);
        let error = StepError::not_done("busy").with_retry_after(Duration::from_secs(asked));
        saga.input(saga.answer("a", Phase::Do, Outcome::Failed(error))).unwrap();
        assert_eq!(saga.state.next_due(), Some(seconds(expected)), "{asked} s asked of {retry:?}");
        let shown = saga.state.steps[0].forward.error.as_ref().and_then(|error| error.retry_after);
        assert_eq!(shown, Some(Duration::from_secs(told)), "the log shows the honoured wait");
    }
}

#[test]
fn long_retry_after_delays_a_rollback_by_minutes_only() {
    let mut draft = sequence(&["a", "b"]);
    draft.steps[0].compensate.as_mut().unwrap().retry =
        Retry::exponential(5, Duration::from_secs(1)).with_cap(Duration::from_secs(30));
    let mut saga = Play::start(draft);
    saga.done("a");
    saga.fails("b", ErrorKind::Refused);
    let error = StepError::not_done("tomorrow").with_retry_after(Duration::from_secs(86_400));
    saga.input(saga.answer("a", Phase::Undo, Outcome::Failed(error))).unwrap();
    assert_eq!(saga.state.next_due(), Some(seconds(30)));
}

#[test]
fn waits_grow_with_every_failure() {
    let mut draft = sequence(&["a"]);
    draft.steps[0].retry = Retry::after_each(vec![Duration::from_secs(5), Duration::from_secs(50)]);
    let mut saga = Play::start(draft);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 1/3, again at 5"]);
    saga.wake(5);
    assert_eq!(saga.fails("a", ErrorKind::Failed), ["a do 2/3, again at 55"]);
}

#[test]
fn jitter_differs_between_sagas_and_steps() {
    let mut draft = graph(&[("a", &[]), ("b", &[])]);
    for step in &mut draft.steps {
        step.retry = Retry::fixed(1, Duration::from_secs(1_000_000)).with_jitter(100);
    }
    let definition = draft.clone().check().unwrap();
    let due = |saga: u128, step: &str| {
        let play = Play::start(draft.clone());
        let answer = play.answer(step, Phase::Do, Outcome::Failed(StepError::not_done("no")));
        let id = backstitch_kernel::SagaId(uuid::Uuid::from_u128(saga));
        let now = backstitch_kernel::saga::Now::at(seconds(0));
        let decision = backstitch_kernel::saga::decide(&definition, id, &play.state, answer, now).unwrap();
        decision.state.next_due().unwrap()
    };
    let pinned = draft.steps[1].retry.wait(1, 0x7530_1357_6421_0244);
    let id = 0xFFFF_0000_FFFF_0003_0123_4567_89AB_CDEF;
    assert_eq!(due(id, "b"), seconds(0).plus(pinned), "every version of the program waits as long");
    let spread = [due(1, "a"), due(1, "b"), due(2, "a"), due(5 << 64, "a"), due((5 << 64) + 1, "a")];
    for (nth, one) in spread.iter().enumerate() {
        assert!(!spread[..nth].contains(one), "{spread:?}");
    }
}

#[test]
fn only_the_answer_of_the_attempt_in_flight_counts() {
    let mut saga = Play::start(sequence(&["a", "b"]).retrying("a", 1));
    let first = saga.answer("a", Phase::Do, Outcome::Succeeded(Payload::null()));
    saga.fails("a", ErrorKind::TimedOut);
    let stale = |attempt| Err(Rejected::Stale { step: "a".into(), attempt });
    assert_eq!(saga.input(first.clone()), stale(1), "while waiting");
    saga.wake(10);
    assert_eq!(saga.input(first), stale(1), "while the next one is in flight");
    let second = saga.answer("a", Phase::Do, Outcome::Succeeded(Payload::null()));
    let undo = saga.answer("a", Phase::Undo, Outcome::Succeeded(Payload::null()));
    assert_eq!(saga.input(undo), stale(0), "no compensation was requested");
    saga.input(second.clone()).unwrap();
    assert_eq!(saga.input(second), stale(2), "a second time");
    let unknown = Input::Finished {
        step: "nowhere".into(),
        phase: Phase::Do,
        attempt: 1,
        outcome: Outcome::Succeeded(Payload::null()),
    };
    assert_eq!(saga.input(unknown), Err(Rejected::UnknownStep("nowhere".into())));
}

#[test]
fn an_ended_saga_takes_no_more_input_and_has_nothing_due() {
    let mut saga = Play::due(sequence(&["a"]), 50);
    let answer = saga.answer("a", Phase::Do, Outcome::Succeeded(Payload::null()));
    saga.done("a");
    let ended = Err(Rejected::Ended(Status::Succeeded));
    assert_eq!(saga.input(answer), ended);
    assert_eq!(saga.input(Input::Wake), ended);
    assert_eq!(saga.state.next_due(), None);
    assert!(!saga.state.anything_runs_here());
}

#[test]
fn draining_node_starts_nothing_and_still_takes_inputs() {
    let mut saga = Play::start_with(sequence(&["a", "b"]), Start::default(), true);
    assert_eq!(saga.news(), ["started"]);
    assert_eq!(saga.status(), Status::Pending);
    saga.draining = false;
    assert_eq!(saga.wake(1), ["do a 1"]);
    saga.draining = true;
    assert_eq!(saga.done("a"), ["a done"]);
    saga.draining = false;
    assert_eq!(saga.wake(2), ["do b 1"]);
    saga.draining = true;
    assert_eq!(saga.done("b"), ["b done", "succeeded"], "an end starts nothing");
}

#[test]
fn a_limited_step_asks_for_room_until_it_is_admitted() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).limited("a"));
    assert_eq!(saga.news(), ["started", "do b 1"]);
    let ask = Effect::Admit { position: 0 };
    assert_eq!(saga.effects[0], ask);
    saga.wake(1);
    assert_eq!(saga.effects, [ask], "the effect is repeated");
    saga.admit("a").unwrap();
    assert_eq!(saga.news(), ["do a 1"]);
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())), "there is one in flight");
    assert_eq!(saga.admit("b"), Err(Rejected::NotWaiting("b".into())));
    assert_eq!(saga.admit("c"), Err(Rejected::UnknownStep("c".into())));
}

#[test]
fn a_limited_step_needs_room_for_every_attempt() {
    let mut saga = Play::start(sequence(&["a"]).limited("a").retrying("a", 1));
    saga.admit("a").unwrap();
    saga.fails("a", ErrorKind::Failed);
    assert_eq!(saga.admit("a"), Err(Rejected::NotWaiting("a".into())), "it waits");
    assert_eq!(saga.wake(10), [""; 0]);
    assert_eq!(saga.effects, [Effect::Admit { position: 0 }]);
    saga.admit("a").unwrap();
    assert_eq!(saga.news(), ["do a 2"]);
}

#[test]
fn paused_draining_or_compensating_saga_ignores_room() {
    let refused = Err(Rejected::NotWaiting("a".into()));
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &[])]).limited("a"));
    saga.pause();
    assert_eq!(saga.effects, []);
    assert_eq!(saga.admit("a"), refused);
    saga.resume();
    assert_eq!(saga.effects, [Effect::Admit { position: 0 }]);
    saga.draining = true;
    assert_eq!(saga.admit("a"), refused);
    saga.draining = false;
    saga.cancel();
    assert_eq!(saga.admit("a"), refused);
    assert_eq!(saga.admit("nowhere"), Err(Rejected::UnknownStep("nowhere".into())));
}

#[test]
fn step_without_room_starts_no_attempt_until_admitted() {
    let mut saga = Play::start(graph(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]).retrying("b", 1));
    saga.full = vec![1];
    assert_eq!(saga.done("a"), ["a done", "do c 1"]);
    let ask = Effect::Admit { position: 1 };
    assert!(saga.effects.contains(&ask), "{:?}", saga.effects);
    assert_eq!(saga.wake(1), [""; 0]);
    assert_eq!(saga.effects, std::slice::from_ref(&ask), "the effect is repeated");
    saga.admit("b").unwrap();
    assert_eq!(saga.news(), ["do b 1"]);
    saga.fails("b", ErrorKind::Failed);
    assert_eq!(saga.wake(100), [""; 0]);
    assert_eq!(saga.state.steps[1].forward.attempts, 1, "a wait is no attempt");
    assert_eq!(saga.effects, [ask]);
    saga.full.clear();
    assert_eq!(saga.wake(101), ["do b 2"]);
}

#[test]
fn room_that_comes_after_the_deadline_starts_nothing() {
    let mut saga = Play::due(sequence(&["a"]).limited("a"), 100);
    saga.now = 100;
    assert_eq!(saga.admit("a"), Ok(()));
    assert_eq!(saga.news(), [""; 0]);
    assert_eq!(saga.wake(100), ["turn, late", "compensated"]);
}

#[test]
fn the_log_s_times_never_go_back_though_the_clock_does() {
    let mut saga = Play::start(sequence(&["a", "b"]).retrying("b", 1));
    saga.now = 100;
    saga.done("a");
    saga.now = 3;
    assert_eq!(saga.fails("b", ErrorKind::Failed), ["b do 1/2, again at 110"]);
    assert_eq!(saga.wake(50), [""; 0]);
    assert_eq!(saga.wake(110), ["do b 2"]);
    let times: Vec<_> = saga.log.iter().map(|recorded| recorded.at).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(saga.state.at, seconds(110));
}
