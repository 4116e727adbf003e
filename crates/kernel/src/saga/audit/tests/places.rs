//! Positions of events in a log, and complete valid logs.

use super::super::*;
use super::logs::*;
use crate::error::ErrorKind;

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
fn every_prefix_of_a_correct_rollback_is_clean() {
    let back = after_turning(&[
        undoes("b", 1),
        retries("b", Phase::Undo, 1, ErrorKind::Refused, 90),
        undoes("b", 2),
        undone("b", 2),
        undoes("a", 1),
        undone("a", 1),
        undone_saga(),
    ]);
    assert_clean(&pair(), &back);
}

#[test]
fn violation_names_the_event_and_the_reason() {
    let found = audit(&pair(), &log(&[starts("b", 1)]));
    assert_eq!(found[0].to_string(), "event 2 breaks invariant 7: step `b` starts before step `a` succeeded");
}

#[test]
fn invariant_1_wants_exactly_one_beginning() {
    assert_eq!(audit(&pair(), &[])[0].invariant, 1);
    assert_eq!(broken(&pair(), &[begun()]), [(1, 2)]);
    let headless = vec![Recorded { seq: 1, at: seconds(1), event: turns() }];
    assert_eq!(audit(&pair(), &headless)[0].invariant, 1);
}

#[test]
fn invariant_3_numbers_have_no_gaps_and_times_increase() {
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
