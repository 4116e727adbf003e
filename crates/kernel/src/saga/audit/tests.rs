//! For every invariant a log that keeps it and logs that break it.

use std::sync::Arc;
use std::time::Duration;

use super::super::draft::{Draft, DraftCompensation, DraftStep};
use super::super::event::Started;
use super::*;
use crate::error::ErrorKind;
use crate::id::StepId;
use crate::payload::Payload;
use crate::retry::Retry;

/// A step with two retries 10 s apart, for its action and its compensation alike.
fn step(id: &str, after: &[&str]) -> DraftStep {
    let retry = Retry::fixed(2, Duration::from_secs(10));
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: Some(after.iter().map(|&id| id.to_owned()).collect()),
        timeout: Duration::from_secs(1),
        retry: retry.clone(),
        compensate: Some(DraftCompensation {
            timeout: Duration::from_secs(1),
            retry,
        }),
        concurrency: None,
    }
}

fn draft(steps: Vec<DraftStep>) -> Draft {
    Draft {
        steps,
        ..Draft::new("audited")
    }
}

/// `a`, then `b`.
fn pair() -> Definition {
    draft(vec![step("a", &[]), step("b", &["a"])]).check().unwrap()
}

/// `a`, then `b`, which cannot be undone, then `c`.
fn bridged() -> Definition {
    let mut bridge = step("b", &["a"]);
    bridge.compensate = None;
    draft(vec![step("a", &[]), bridge, step("c", &["b"])])
        .check()
        .unwrap()
}

/// `a` and `b` side by side.
fn siblings() -> Definition {
    draft(vec![step("a", &[]), step("b", &[])]).check().unwrap()
}

fn going_on(definition: &Definition) -> Definition {
    Draft {
        continue_on_compensation_failure: true,
        ..definition.draft().clone()
    }
    .check()
    .unwrap()
}

fn error(kind: ErrorKind) -> StepError {
    StepError::new(kind, "")
}

fn begun() -> Event {
    Event::SagaStarted(Arc::new(Started {
        definition: "audited".to_owned(),
        version: 1,
        input: Payload::null(),
        correlation_id: None,
        deadline: None,
        attributes: std::collections::BTreeMap::default(),
    }))
}

fn starts(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepStarted { step, attempt }
}

fn succeeds(step: &str, attempt: u32) -> Event {
    Event::StepSucceeded {
        step: step.into(),
        attempt,
        result: Payload::null(),
    }
}

fn fails(step: &str, attempt: u32) -> Event {
    Event::StepFailed {
        step: step.into(),
        attempt,
        error: error(ErrorKind::Refused),
        in_doubt: false,
    }
}

fn fails_in_doubt(step: &str, attempt: u32) -> Event {
    Event::StepFailed {
        step: step.into(),
        attempt,
        error: error(ErrorKind::Interrupted),
        in_doubt: true,
    }
}

fn times_out(step: &str, attempt: u32) -> Event {
    Event::StepTimedOut {
        step: step.into(),
        attempt,
        error: error(ErrorKind::TimedOut),
    }
}

fn retries(step: &str, phase: Phase, attempt: u32, kind: ErrorKind, at: i64) -> Event {
    Event::StepRetry {
        step: step.into(),
        phase,
        attempt,
        max_attempts: 100,
        error: error(kind),
        retry_at: seconds(at),
    }
}

fn turns() -> Event {
    Event::SagaCompensating {
        failed_step: None,
        error: error(ErrorKind::Cancelled),
    }
}

fn undoes(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepCompensating { step, attempt }
}

fn undone(step: &str, attempt: u32) -> Event {
    let step = StepId::from(step);
    Event::StepCompensated { step, attempt }
}

fn stuck(step: &str, attempt: u32) -> Event {
    Event::StepCompensationFailed {
        step: step.into(),
        attempt,
        error: error(ErrorKind::Failed),
    }
}

fn gives_up(step: &str) -> Event {
    Event::SagaFailed {
        step: step.into(),
        error: error(ErrorKind::Failed),
    }
}

fn resolves(step: &str, action: Resolution) -> Event {
    Event::StepResolved {
        step: step.into(),
        action,
        note: "looked at".to_owned(),
    }
}

fn adopted() -> Event {
    Event::SagaAdopted {
        node: "n".to_owned(),
        epoch: 1,
    }
}

fn seconds(at: i64) -> Timestamp {
    Timestamp::from_micros(at * 1_000_000)
}

/// These events after `saga.started`, one every ten seconds.
fn log(events: &[Event]) -> Vec<Recorded> {
    let events = std::iter::once(begun()).chain(events.iter().cloned());
    (1..)
        .zip(events)
        .map(|(seq, event)| Recorded {
            seq,
            at: seconds(10 * i64::try_from(seq).unwrap()),
            event,
        })
        .collect()
}

/// Which invariants are broken, by which events.
fn broken(definition: &Definition, events: &[Event]) -> Vec<(u8, u64)> {
    audit(definition, &log(events))
        .iter()
        .map(|found| (found.invariant, found.seq))
        .collect()
}

/// Every beginning of the log is clean as well.
fn assert_clean(definition: &Definition, events: &[Event]) {
    let log = log(events);
    for end in 1..=log.len() {
        assert_eq!(audit(definition, &log[..end]), [], "the first {end} events");
    }
}

/// `a` and `b` have succeeded and the rollback has begun: seven events in all.
fn both_done_and_turned() -> Vec<Event> {
    vec![
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        succeeds("b", 1),
        turns(),
    ]
}

/// The same, and more.
fn after_turning(more: &[Event]) -> Vec<Event> {
    [both_done_and_turned(), more.to_vec()].concat()
}

#[test]
fn a_saga_that_succeeds_is_clean_at_every_moment() {
    let forward = [
        starts("a", 1),
        retries("a", Phase::Do, 1, ErrorKind::InDoubt, 40),
        starts("a", 2),
        adopted(),
        starts("a", 3),
        succeeds("a", 3),
        starts("b", 1),
        succeeds("b", 1),
        Event::SagaSucceeded,
    ];
    assert_clean(&pair(), &forward);
}

#[test]
fn a_saga_that_is_rolled_back_in_reverse_order_is_clean_at_every_moment() {
    let back = after_turning(&[
        undoes("b", 1),
        retries("b", Phase::Undo, 1, ErrorKind::Refused, 90),
        undoes("b", 2),
        undone("b", 2),
        undoes("a", 1),
        undone("a", 1),
        Event::SagaCompensated,
    ]);
    assert_clean(&pair(), &back);
}

#[test]
fn a_violation_says_where_and_what() {
    let found = audit(&pair(), &log(&[starts("b", 1)]));
    assert_eq!(
        found[0].to_string(),
        "event 2 breaks invariant 7: step `b` starts before step `a` succeeded"
    );
}

#[test]
fn invariant_1_wants_exactly_one_beginning() {
    assert_eq!(audit(&pair(), &[])[0].invariant, 1);
    assert_eq!(broken(&pair(), &[begun()]), [(1, 2)]);
    let headless = vec![Recorded {
        seq: 1,
        at: seconds(1),
        event: turns(),
    }];
    assert_eq!(audit(&pair(), &headless)[0].invariant, 1);
}

#[test]
fn invariant_3_wants_numbers_without_gap_and_times_that_do_not_go_back() {
    let good = log(&[starts("a", 1), succeeds("a", 1)]);
    let found = |change: &dyn Fn(&mut Vec<Recorded>)| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = audit(&pair(), &bad);
        found.iter().map(|v| (v.invariant, v.seq)).collect::<Vec<_>>()
    };
    assert_eq!(found(&|_| {}), []);
    assert_eq!(found(&|log| log[0].seq = 2), [(3, 2), (3, 2)]);
    assert_eq!(found(&|log| log[2].seq = 4), [(3, 4)]);
    assert_eq!(found(&|log| log[2].seq = 2), [(3, 2)]);
    assert_eq!(found(&|log| log[2].at = log[1].at), [], "two at once are fine");
    assert_eq!(found(&|log| log[2].at = seconds(1)), [(3, 3)]);
}

#[test]
fn invariant_4_wants_steps_that_the_definition_has() {
    assert_eq!(broken(&pair(), &[starts("nowhere", 1)]), [(4, 2)]);
}

#[test]
fn invariant_5_lets_nothing_follow_an_end_but_the_resolution_of_a_failed_one() {
    let succeeded = [both_done_and_turned()[..4].to_vec(), vec![Event::SagaSucceeded]].concat();
    assert_clean(&pair(), &succeeded);
    let twice = [succeeded.clone(), vec![Event::SagaSucceeded]].concat();
    assert_eq!(broken(&pair(), &twice), [(5, 7)]);
    let adopted = [succeeded.clone(), vec![adopted()]].concat();
    assert_eq!(broken(&pair(), &adopted), [(5, 7)]);
    let resolved = [succeeded, vec![resolves("a", Resolution::Done)]].concat();
    assert!(broken(&pair(), &resolved).contains(&(5, 7)));

    let failed = after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("b")]);
    assert_clean(&pair(), &failed);
    let reopened = [
        failed.clone(),
        vec![resolves("b", Resolution::Done), undoes("a", 1)],
    ]
    .concat();
    assert_clean(&pair(), &reopened);
    let silently = [failed.clone(), vec![undoes("a", 1)]].concat();
    assert!(broken(&pair(), &silently).contains(&(5, 10)));
    let too_soon = after_turning(&[undoes("b", 1), stuck("b", 1), resolves("b", Resolution::Retry)]);
    assert_eq!(broken(&pair(), &too_soon), [(5, 9)]);
}

#[test]
fn invariant_7_wants_a_step_to_wait_for_all_it_depends_on() {
    assert_eq!(broken(&pair(), &[starts("b", 1)]), [(7, 2)]);
    assert_eq!(broken(&pair(), &[starts("a", 1), starts("b", 1)]), [(7, 3)]);
    assert_eq!(
        broken(&pair(), &[starts("a", 1), fails("a", 1), starts("b", 1)]),
        [(7, 4)]
    );
    assert_clean(&siblings(), &[starts("b", 1), starts("a", 1)]);
}

#[test]
fn invariant_8_lets_no_action_begin_once_the_rollback_has() {
    assert_eq!(broken(&siblings(), &[turns(), starts("a", 1)]), [(8, 3)]);
    assert_eq!(broken(&siblings(), &[turns(), turns()]), [(8, 3)]);
    let again = [
        starts("a", 1),
        turns(),
        retries("a", Phase::Do, 1, ErrorKind::Failed, 50),
    ];
    assert_eq!(broken(&siblings(), &again), [(8, 4)]);
    assert_clean(&siblings(), &[starts("a", 1), turns(), succeeds("a", 1)]);
}

#[test]
fn invariant_9_wants_what_came_after_to_be_undone_before() {
    assert_eq!(broken(&pair(), &after_turning(&[undoes("a", 1)])), [(9, 7)]);
    let beside = after_turning(&[undoes("b", 1), undoes("a", 1)]);
    assert!(broken(&pair(), &beside).contains(&(9, 8)));
    let early = [starts("a", 1), succeeds("a", 1), undoes("a", 1)];
    assert_eq!(broken(&pair(), &early), [(9, 4)], "no rollback has begun");

    let over_the_bridge = |last: Event| {
        let mut events = both_done_and_turned();
        events.splice(4..4, [starts("c", 1), succeeds("c", 1)]);
        events.push(last);
        events
    };
    assert_eq!(broken(&bridged(), &over_the_bridge(undoes("a", 1))), [(9, 9)]);
    assert_clean(&bridged(), &over_the_bridge(undoes("c", 1)));

    let never_ran = [starts("a", 1), succeeds("a", 1), turns(), undoes("a", 1)];
    assert_clean(&pair(), &never_ran);
    let said_no = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        fails("b", 1),
        turns(),
        undoes("a", 1),
    ];
    assert_clean(&pair(), &said_no);
    let in_doubt = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        times_out("b", 1),
        turns(),
        undoes("a", 1),
    ];
    assert_eq!(broken(&pair(), &in_doubt), [(9, 7)]);
    let waiting = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        retries("b", Phase::Do, 1, ErrorKind::Failed, 60),
        turns(),
        undoes("a", 1),
    ];
    assert_eq!(
        broken(&pair(), &waiting),
        [(9, 7)],
        "nobody has said how `b` ended"
    );
}

#[test]
fn invariant_9_wants_no_action_in_flight() {
    let running = [
        starts("b", 1),
        starts("a", 1),
        succeeds("a", 1),
        turns(),
        undoes("a", 1),
    ];
    assert_eq!(broken(&siblings(), &running), [(9, 6)]);
}

#[test]
fn invariant_9_passes_a_failed_compensation_only_when_continuing() {
    let past = after_turning(&[undoes("b", 1), stuck("b", 1), undoes("a", 1)]);
    assert!(broken(&pair(), &past).contains(&(9, 9)));
    assert_clean(&going_on(&pair()), &past);
    assert_eq!(broken(&siblings(), &past), [(9, 9)], "stopping stops everything");
    assert_clean(&going_on(&siblings()), &past);

    let skipped = after_turning(&[
        undoes("b", 1),
        stuck("b", 1),
        gives_up("b"),
        resolves("b", Resolution::Skip),
        undoes("a", 1),
    ]);
    assert_clean(&pair(), &skipped);
}

#[test]
fn invariant_9_lets_a_person_retry_one_of_two_that_are_stuck() {
    let two = Draft {
        compensation_concurrency: 2,
        ..siblings().draft().clone()
    };
    let both_stuck = after_turning(&[
        undoes("b", 1),
        undoes("a", 1),
        stuck("b", 1),
        stuck("a", 1),
        gives_up("a"),
        resolves("b", Resolution::Retry),
        undoes("b", 2),
    ]);
    assert_clean(&two.check().unwrap(), &both_stuck);
}

#[test]
fn invariant_9_wants_no_more_compensations_at_once_than_allowed() {
    let two_at_once = after_turning(&[undoes("b", 1), undoes("a", 1)]);
    assert_eq!(broken(&siblings(), &two_at_once), [(9, 8)]);
    let beside_a_waiting_one = after_turning(&[
        undoes("b", 1),
        retries("b", Phase::Undo, 1, ErrorKind::Failed, 200),
        undoes("a", 1),
    ]);
    assert_eq!(broken(&siblings(), &beside_a_waiting_one), [(9, 9)]);
    let beside_an_interrupted_one = after_turning(&[undoes("b", 1), adopted(), undoes("a", 1)]);
    assert_eq!(broken(&siblings(), &beside_an_interrupted_one), [(9, 9)]);
    let wider = Draft {
        compensation_concurrency: 2,
        ..siblings().draft().clone()
    };
    assert_clean(&wider.check().unwrap(), &two_at_once);
}

#[test]
fn invariant_10_wants_everything_that_may_have_happened_to_be_undone_once() {
    let none = after_turning(&[Event::SagaCompensated]);
    assert_eq!(broken(&pair(), &none), [(10, 7), (10, 7)]);
    let one = after_turning(&[undoes("b", 1), undone("b", 1), Event::SagaCompensated]);
    assert_eq!(broken(&pair(), &one), [(10, 9)]);
    let doubtful = [starts("a", 1), times_out("a", 1), turns(), Event::SagaCompensated];
    assert_eq!(broken(&pair(), &doubtful), [(10, 5)]);
    let refused = [starts("a", 1), fails("a", 1), turns(), Event::SagaCompensated];
    assert_clean(&pair(), &refused);
    let twice = after_turning(&[undoes("b", 1), undone("b", 1), undoes("b", 2)]);
    assert!(broken(&pair(), &twice).contains(&(10, 9)));
    assert_eq!(
        broken(&pair(), &[Event::SagaCompensated]),
        [(10, 2)],
        "without a rollback"
    );
    let running = [starts("a", 1), turns(), Event::SagaCompensated];
    assert_eq!(broken(&pair(), &running), [(10, 4)]);
    let by_hand = after_turning(&[
        undoes("b", 1),
        stuck("b", 1),
        gives_up("b"),
        resolves("b", Resolution::Done),
        undoes("a", 1),
        undone("a", 1),
        Event::SagaCompensated,
    ]);
    assert_clean(&pair(), &by_hand);
}

#[test]
fn invariant_10_lets_no_doubt_be_forgotten() {
    for doubt in [
        vec![
            starts("a", 1),
            retries("a", Phase::Do, 1, ErrorKind::TimedOut, 30),
            starts("a", 2),
        ],
        vec![starts("a", 1), adopted(), starts("a", 2)],
    ] {
        let forgotten = [doubt.clone(), vec![fails("a", 2)]].concat();
        let last = forgotten.len() as u64 + 1;
        assert_eq!(broken(&pair(), &forgotten), [(10, last)]);
        let kept = [doubt.clone(), vec![fails_in_doubt("a", 2)]].concat();
        assert_clean(&pair(), &kept);
        let not_undone = [kept, vec![turns(), Event::SagaCompensated]].concat();
        assert_eq!(broken(&pair(), &not_undone), [(10, last + 2)]);
    }
    let known = vec![
        starts("a", 1),
        retries("a", Phase::Do, 1, ErrorKind::Failed, 30),
        starts("a", 2),
        fails("a", 2),
        turns(),
        Event::SagaCompensated,
    ];
    assert_clean(&pair(), &known);
    let Event::StepFailed { step, attempt, .. } = fails("a", 1) else {
        unreachable!("it is what it is made as")
    };
    let denied = Event::StepFailed {
        step,
        attempt,
        error: error(ErrorKind::InDoubt),
        in_doubt: false,
    };
    assert_eq!(broken(&pair(), &[starts("a", 1), denied]), [(10, 3)]);
}

#[test]
fn invariant_11_wants_every_step_to_succeed_and_nothing_to_be_undone() {
    let half = [starts("a", 1), succeeds("a", 1), Event::SagaSucceeded];
    assert_eq!(broken(&pair(), &half), [(11, 4)]);
    let turned = after_turning(&[Event::SagaSucceeded]);
    assert_eq!(broken(&pair(), &turned), [(11, 7)]);
    let undone = after_turning(&[undoes("b", 1), undone("b", 1), Event::SagaSucceeded]);
    assert_eq!(broken(&pair(), &undone), [(11, 9), (11, 9)]);
}

#[test]
fn invariant_12_lets_only_what_may_have_happened_be_undone() {
    let never_started = [starts("a", 1), succeeds("a", 1), turns(), undoes("b", 1)];
    assert_eq!(broken(&pair(), &never_started), [(12, 5)]);
    let said_no = [starts("a", 1), fails("a", 1), turns(), undoes("a", 1)];
    assert_eq!(broken(&pair(), &said_no), [(12, 5)]);
    let cannot = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        succeeds("b", 1),
        turns(),
        undoes("b", 1),
    ];
    assert_eq!(broken(&bridged(), &cannot), [(12, 7)]);
}

#[test]
fn invariant_13_wants_a_failed_compensation_to_be_seen() {
    let hidden = after_turning(&[undoes("b", 1), stuck("b", 1), Event::SagaCompensated]);
    assert!(broken(&pair(), &hidden).contains(&(13, 9)));
    let made_up = after_turning(&[gives_up("b")]);
    assert_eq!(broken(&pair(), &made_up), [(13, 7)]);
    let wrong_step = after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("a")]);
    assert_eq!(broken(&pair(), &wrong_step), [(13, 9)]);
    let dropped = after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("b")]);
    assert_clean(&pair(), &dropped);
    assert_eq!(
        broken(&going_on(&pair()), &dropped),
        [(13, 9)],
        "`a` was still to be undone"
    );
    let not_stuck = after_turning(&[
        undoes("b", 1),
        stuck("b", 1),
        gives_up("b"),
        resolves("a", Resolution::Done),
    ]);
    assert_eq!(broken(&pair(), &not_stuck), [(13, 10)]);
    let wider = Draft {
        compensation_concurrency: 2,
        ..siblings().draft().clone()
    };
    let busy = after_turning(&[undoes("b", 1), undoes("a", 1), stuck("b", 1), gives_up("b")]);
    assert_eq!(broken(&wider.check().unwrap(), &busy), [(13, 10)]);
    let action_in_flight = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        turns(),
        undoes("a", 1),
        stuck("a", 1),
        gives_up("a"),
    ];
    assert_eq!(broken(&siblings(), &action_in_flight), [(9, 6), (13, 8)]);
}

#[test]
fn invariant_14_wants_results_only_of_attempts_in_flight() {
    let table: [(&[Event], u64); 9] = [
        (&[succeeds("a", 1)], 2),
        (&[starts("a", 1), succeeds("a", 2)], 3),
        (&[starts("a", 1), succeeds("a", 1), succeeds("a", 1)], 4),
        (&[starts("a", 1), adopted(), succeeds("a", 1)], 4),
        (&[starts("a", 1), adopted(), fails_in_doubt("a", 1)], 4),
        (&[fails("a", 0)], 2),
        (
            &[
                starts("a", 1),
                retries("a", Phase::Do, 1, ErrorKind::Failed, 90),
                fails("a", 1),
            ],
            4,
        ),
        (&[starts("a", 1), adopted(), turns(), fails_in_doubt("a", 2)], 5),
        (&[retries("a", Phase::Do, 0, ErrorKind::Failed, 90)], 2),
    ];
    for (events, seq) in table {
        assert_eq!(broken(&pair(), events), [(14, seq)], "{events:?}");
    }
    let undo: [(&[Event], u64); 4] = [
        (&[undone("b", 1)], 7),
        (&[undoes("b", 1), undone("b", 2)], 8),
        (&[undoes("b", 1), adopted(), stuck("b", 1)], 9),
        (&[stuck("b", 0)], 7),
    ];
    for (events, seq) in undo {
        assert_eq!(broken(&pair(), &after_turning(events)), [(14, seq)], "{events:?}");
    }
}

#[test]
fn what_nobody_will_try_again_may_end_without_an_answer_once_the_rollback_began() {
    let waiting = [
        starts("a", 1),
        retries("a", Phase::Do, 1, ErrorKind::Failed, 90),
        turns(),
        fails("a", 1),
        Event::SagaCompensated,
    ];
    assert_clean(&siblings(), &waiting);
    assert_clean(
        &siblings(),
        &[starts("a", 1), turns(), adopted(), fails_in_doubt("a", 1)],
    );
}

#[test]
fn the_fifth_interruption_may_end_an_attempt_without_an_answer() {
    let interrupted = |times: u32, start: &dyn Fn(u32) -> Event| -> Vec<Event> {
        (1..=times)
            .flat_map(|attempt| [start(attempt), adopted()])
            .collect()
    };
    let forward = interrupted(5, &|attempt| starts("a", attempt));
    assert_clean(&pair(), &[forward.clone(), vec![fails_in_doubt("a", 5)]].concat());
    assert_eq!(
        broken(&pair(), &[forward, vec![starts("a", 6)]].concat()),
        [(17, 12)]
    );
    let fewer = interrupted(4, &|attempt| starts("a", attempt));
    assert_eq!(
        broken(&pair(), &[fewer, vec![fails_in_doubt("a", 4)]].concat()),
        [(14, 10)]
    );

    let back = after_turning(&interrupted(5, &|attempt| undoes("b", attempt)));
    assert_clean(&pair(), &[back.clone(), vec![stuck("b", 5)]].concat());
    assert_eq!(
        broken(&pair(), &[back.clone(), vec![stuck("b", 4)]].concat()),
        [(14, 17)]
    );
    assert_eq!(
        broken(&pair(), &[back, vec![undoes("b", 6)]].concat()),
        [(17, 17)]
    );
}

#[test]
fn invariant_17_wants_attempts_one_by_one_and_in_their_time() {
    let retry = |at| retries("a", Phase::Do, 1, ErrorKind::Failed, at);
    let table: [(&[Event], &[(u8, u64)]); 8] = [
        (&[starts("a", 2)], &[(17, 2)]),
        (&[starts("a", 1), starts("a", 2)], &[(17, 3)]),
        (&[starts("a", 1), adopted(), starts("a", 1)], &[(17, 4)]),
        (&[starts("a", 1), succeeds("a", 1), starts("a", 2)], &[(17, 4)]),
        (&[starts("a", 1), retry(41), starts("a", 2)], &[(17, 4)]),
        (&[starts("a", 1), retry(40), starts("a", 2)], &[]),
        (&[starts("a", 1), retry(29)], &[(17, 3)]),
        (&[starts("a", 1), retry(30)], &[]),
    ];
    for (events, expected) in table {
        assert_eq!(broken(&pair(), events), expected, "{events:?}");
    }
}

#[test]
fn invariant_17_wants_no_more_retries_than_allowed() {
    let tries = |phase: Phase, start: &dyn Fn(u32) -> Event, step: &str, count: u32| -> Vec<Event> {
        (1..=count)
            .flat_map(|attempt| {
                [
                    start(attempt),
                    retries(step, phase, attempt, ErrorKind::Failed, 300),
                ]
            })
            .collect()
    };
    // The waits end long after the next attempt here, so only the count is looked at.
    let counts = |definition: &Definition, events: &[Event]| {
        let found = audit(definition, &log(events));
        found
            .iter()
            .filter(|v| v.message.contains("retries are allowed"))
            .count()
    };
    let start = |attempt| starts("a", attempt);
    assert_eq!(counts(&pair(), &tries(Phase::Do, &start, "a", 2)), 0);
    assert_eq!(counts(&pair(), &tries(Phase::Do, &start, "a", 3)), 1);
    let undo = |attempt| undoes("b", attempt);
    let twice = after_turning(&tries(Phase::Undo, &undo, "b", 2));
    assert_eq!(counts(&pair(), &twice), 0);
    assert_eq!(
        counts(&pair(), &after_turning(&tries(Phase::Undo, &undo, "b", 3))),
        1
    );
    let reopened = [
        twice,
        vec![
            undoes("b", 3),
            stuck("b", 3),
            gives_up("b"),
            resolves("b", Resolution::Retry),
        ],
        vec![
            undoes("b", 4),
            retries("b", Phase::Undo, 4, ErrorKind::Failed, 300),
        ],
    ];
    assert_eq!(
        counts(&pair(), &reopened.concat()),
        0,
        "a person's retry counts anew"
    );
    let Event::StepRetry {
        step,
        phase,
        attempt,
        error,
        retry_at,
        ..
    } = retries("a", Phase::Do, 1, ErrorKind::Failed, 90)
    else {
        unreachable!("it is what it is made as")
    };
    let last = Event::StepRetry {
        step,
        phase,
        attempt,
        max_attempts: 1,
        error,
        retry_at,
    };
    assert_eq!(broken(&pair(), &[starts("a", 1), last]), [(17, 3)]);
}

#[test]
fn a_person_s_retry_is_forgiven_its_interruptions() {
    let worn_out: Vec<Event> = (1..=5)
        .flat_map(|attempt| [undoes("b", attempt), adopted()])
        .collect();
    let again = [
        stuck("b", 5),
        gives_up("b"),
        resolves("b", Resolution::Retry),
        undoes("b", 6),
        adopted(),
    ];
    let events = after_turning(&[worn_out, again.to_vec(), vec![undoes("b", 7)]].concat());
    assert_clean(&pair(), &events);
}
