//! The order of events.

use super::super::super::draft::Draft;
use super::super::*;
use super::logs::*;
use crate::error::ErrorKind;

#[test]
fn invariant_7_wants_a_step_to_wait_for_all_it_depends_on() {
    assert_eq!(broken(&pair(), &[starts("b", 1)]), [(7, 2)]);
    assert_eq!(broken(&pair(), &[starts("a", 1), starts("b", 1)]), [(7, 3)]);
    assert_eq!(broken(&pair(), &[starts("a", 1), fails("a", 1), starts("b", 1)]), [(7, 4)]);
    assert_clean(&siblings(), &[starts("b", 1), starts("a", 1)]);
}

#[test]
fn invariant_8_lets_no_action_begin_once_the_rollback_has() {
    assert_eq!(broken(&siblings(), &[turns(), starts("a", 1)]), [(8, 3)]);
    assert_eq!(broken(&siblings(), &[turns(), turns()]), [(8, 3)]);
    let again = [starts("a", 1), turns(), retries("a", Phase::Do, 1, ErrorKind::Failed, 50)];
    assert_eq!(broken(&siblings(), &again), [(8, 4)]);
    assert_clean(&siblings(), &[starts("a", 1), turns(), succeeds("a", 1)]);
}

#[test]
fn invariant_9_later_steps_are_undone_first() {
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
    let said_no = [starts("a", 1), succeeds("a", 1), starts("b", 1), fails("b", 1), turns(), undoes("a", 1)];
    assert_clean(&pair(), &said_no);
    let in_doubt =
        [starts("a", 1), succeeds("a", 1), starts("b", 1), times_out("b", 1), turns(), undoes("a", 1)];
    assert_eq!(broken(&pair(), &in_doubt), [(9, 7)]);
    let waiting = [
        starts("a", 1),
        succeeds("a", 1),
        starts("b", 1),
        retries("b", Phase::Do, 1, ErrorKind::Failed, 60),
        turns(),
        undoes("a", 1),
    ];
    assert_eq!(broken(&pair(), &waiting), [(9, 7)], "the log does not say how `b` ended");
}

#[test]
fn invariant_9_wants_no_action_in_flight() {
    let running = [starts("b", 1), starts("a", 1), succeeds("a", 1), turns(), undoes("a", 1)];
    assert_eq!(broken(&siblings(), &running), [(9, 6)]);
}

#[test]
fn invariant_9_skips_a_failed_compensation_if_continuing() {
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
    let two = Draft { compensation_concurrency: 2, ..siblings().draft().clone() };
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
    let wider = Draft { compensation_concurrency: 2, ..siblings().draft().clone() };
    assert_clean(&wider.check().unwrap(), &two_at_once);
}

#[test]
fn invariant_12_only_possible_effects_are_undone() {
    let never_started = [starts("a", 1), succeeds("a", 1), turns(), undoes("b", 1)];
    assert_eq!(broken(&pair(), &never_started), [(12, 5)]);
    let said_no = [starts("a", 1), fails("a", 1), turns(), undoes("a", 1)];
    assert_eq!(broken(&pair(), &said_no), [(12, 5)]);
    let cannot =
        [starts("a", 1), succeeds("a", 1), starts("b", 1), succeeds("b", 1), turns(), undoes("b", 1)];
    assert_eq!(broken(&bridged(), &cannot), [(12, 7)]);
}
