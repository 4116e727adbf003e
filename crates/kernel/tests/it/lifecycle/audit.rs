//! Impossible logs and their violations.

use backstitch_kernel::lifecycle::{AbandonReason, Event, Failure, Given, Recorded, audit};

use crate::lifecycle::support::{Life, at, driven, fail, machine, start, to};

fn blamed(machine: &backstitch_kernel::lifecycle::Machine, log: &[Recorded]) -> Vec<u8> {
    audit(machine, log).into_iter().map(|violation| violation.invariant).collect()
}

/// The violations in the log of these inputs after a change to it.
fn broken(state: &str, change: impl FnOnce(&mut Vec<Recorded>)) -> Vec<u8> {
    let mut life = Life::standing_in(state);
    change(&mut life.log);
    blamed(&life.machine, &life.log)
}

fn appended(state: &str, event: Event) -> Vec<u8> {
    broken(state, |log| {
        let seq = log.len() as u64 + 1;
        log.push(Recorded { seq, at: at(1000), event });
    })
}

fn moved(from: &str, to: &str, attempt: u32) -> Event {
    Event::Transitioned { from: from.into(), to: to.into(), attempt, data: None, error: None }
}

#[test]
fn a_log_that_was_decided_is_right() {
    for state in ["requested", "vercel_created", "live", "failed", "awaiting_github"] {
        assert_eq!(broken(state, |_| {}), [0_u8; 0]);
    }
}

#[test]
fn a_log_begins_with_one_start() {
    assert_eq!(blamed(&machine(), &[]), [1]);
    let mut life = Life::standing_in("source_resolving");
    life.log.remove(0);
    life.log[0].seq = 1;
    assert_eq!(blamed(&life.machine, &life.log), [1]);
    let first = Life::standing_in("requested").log[0].event.clone();
    assert_eq!(appended("requested", first), [1]);
}

#[test]
fn a_log_begins_where_the_machine_does() {
    let found = broken("requested", |log| {
        let Event::Started(started) = &log[0].event else { panic!("no start") };
        let mut elsewhere = (**started).clone();
        elsewhere.state = "live".into();
        log[0].event = Event::Started(elsewhere.into());
    });
    assert_eq!(found, [1]);
}

#[test]
fn a_log_has_no_gap_and_time_does_not_go_back() {
    assert_eq!(broken("vercel_created", |log| drop(log.remove(2))), [2, 6]);
    assert_eq!(broken("vercel_created", |log| log[2].at = at(-5)), [3]);
}

#[test]
fn nothing_follows_an_end() {
    assert_eq!(appended("live", moved("live", "requested", 1)), [4, 6]);
    assert_eq!(appended("failed", moved("failed", "live", 1)), [4, 6]);
}

#[test]
fn only_a_pause_state_is_abandoned_and_nothing_follows() {
    let abandoned = |state: &str, reason| Event::Abandoned { state: state.into(), attempt: 1, reason };
    let requested = || AbandonReason::Requested { note: "left".to_owned() };
    assert_eq!(appended("awaiting_github", abandoned("awaiting_github", requested())), [0_u8; 0]);
    assert_eq!(appended("requested", abandoned("requested", requested())), [10]);
    assert_eq!(appended("requested", abandoned("awaiting_github", requested())), [10]);
    let expired = abandoned("awaiting_github", AbandonReason::Expired);
    assert_eq!(appended("awaiting_github", expired), [10], "its pause has no limit");
    let counted = Event::Abandoned { state: "awaiting_github".into(), attempt: 2, reason: requested() };
    assert_eq!(appended("awaiting_github", counted), [5]);
    let found = broken("awaiting_github", |log| {
        let seq = log.len() as u64 + 1;
        log.push(Recorded { seq, at: at(1000), event: abandoned("awaiting_github", requested()) });
        let event = Event::Restarted { attempt: 2, given: Given::default() };
        log.push(Recorded { seq: seq + 1, at: at(1000), event });
    });
    assert_eq!(found, [4]);
}

#[test]
fn starts_are_counted() {
    let restarted = Event::Restarted { attempt: 3, given: Given::default() };
    assert_eq!(appended("requested", restarted), [5]);
    assert_eq!(appended("requested", moved("requested", "source_resolving", 2)), [5]);
}

#[test]
fn only_declared_states_follow() {
    assert_eq!(appended("requested", moved("requested", "live", 1)), [6]);
    assert_eq!(appended("requested", moved("live", "requested", 1)), [6]);
    assert_eq!(appended("awaiting_github", moved("awaiting_github", "source_resolving", 1)), [6]);
}

#[test]
fn only_declared_states_fail_with_declared_kinds() {
    let failed = |from: &str, kind: &str| Event::Failed {
        from: from.into(),
        attempt: 1,
        failure: Failure { kind: kind.to_owned(), message: String::new() },
    };
    assert_eq!(appended("source_resolved", failed("source_resolved", "internal")), [7]);
    assert_eq!(appended("requested", failed("requested", "weather")), [7]);
    assert_eq!(appended("requested", failed("live", "internal")), [6]);
}

#[test]
fn attempts_of_an_action_are_counted() {
    let retry = |state: &str, attempt, max_attempts| Event::ActionRetry {
        state: state.into(),
        attempt,
        max_attempts,
        error: backstitch_kernel::StepError::not_done("again"),
        retry_at: at(2000),
    };
    let mut life = Life::of(driven());
    life.tell(start()).unwrap();
    for (event, expected) in [
        (retry("source_resolving", 1, 3), vec![]),
        (retry("source_resolving", 2, 3), vec![8]),
        (retry("source_resolving", 1, 1), vec![8]),
        (retry("live", 1, 3), vec![8]),
    ] {
        let mut log = life.log.clone();
        log.push(Recorded { seq: log.len() as u64 + 1, at: at(1000), event });
        assert_eq!(blamed(&life.machine, &log), expected);
    }
    assert_eq!(appended("requested", retry("requested", 1, 3)), [8], "nothing is done there");
}

#[test]
fn only_an_awaited_attempt_is_leased_and_once() {
    let leased = |state: &str, attempt| Event::ActionLeased { state: state.into(), attempt, until: at(2000) };
    let mut life = Life::of(driven());
    life.tell(start()).unwrap();
    assert_eq!(appended("requested", leased("requested", 1)), [11], "no worker does it");
    let after = |life: &Life, event| {
        let mut log = life.log.clone();
        log.push(Recorded { seq: log.len() as u64 + 1, at: at(1000), event });
        blamed(&life.machine, &log)
    };
    assert_eq!(after(&life, leased("source_resolving", 1)), [11], "a call does it");
    life.answer(Ok("null")).unwrap();
    life.answer(Ok("null")).unwrap();
    assert_eq!(after(&life, leased("hook_creating", 1)), [0_u8; 0]);
    assert_eq!(after(&life, leased("hook_creating", 2)), [11]);
    life.lease().unwrap();
    assert_eq!(after(&life, leased("hook_creating", 1)), [11], "a second time");
}

#[test]
fn start_in_a_pause_state_continues() {
    let mut life = Life::standing_in("awaiting_github");
    life.tell(start()).unwrap();
    life.tell(fail("internal")).unwrap();
    let restarted_at = life.log.len() - 2;
    life.log.remove(restarted_at);
    life.log.last_mut().unwrap().seq -= 1;
    assert!(blamed(&life.machine, &life.log).contains(&9));
    assert!(life.tell(to("live")).is_err());
}
