//! Terminal events.

use super::super::super::draft::Draft;
use super::super::*;
use super::logs::*;
use crate::error::ErrorKind;

#[test]
fn invariant_5_only_a_resolution_follows_an_end() {
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
    let reopened = [failed.clone(), vec![resolves("b", Resolution::Done), undoes("a", 1)]].concat();
    assert_clean(&pair(), &reopened);
    let silently = [failed.clone(), vec![undoes("a", 1)]].concat();
    assert!(broken(&pair(), &silently).contains(&(5, 10)));
    let too_soon = after_turning(&[undoes("b", 1), stuck("b", 1), resolves("b", Resolution::Retry)]);
    assert_eq!(broken(&pair(), &too_soon), [(5, 9)]);
}

#[test]
fn invariant_10_every_possible_effect_is_undone_once() {
    let none = after_turning(&[undone_saga()]);
    assert_eq!(broken(&pair(), &none), [(10, 7), (10, 7)]);
    let one = after_turning(&[undoes("b", 1), undone("b", 1), undone_saga()]);
    assert_eq!(broken(&pair(), &one), [(10, 9)]);
    let doubtful = [starts("a", 1), times_out("a", 1), turns(), undone_saga()];
    assert_eq!(broken(&pair(), &doubtful), [(10, 5)]);
    let refused = [starts("a", 1), fails("a", 1), turns(), undone_saga()];
    assert_clean(&pair(), &refused);
    let twice = after_turning(&[undoes("b", 1), undone("b", 1), undoes("b", 2)]);
    assert!(broken(&pair(), &twice).contains(&(10, 9)));
    assert_eq!(broken(&pair(), &[undone_saga()]), [(10, 2)], "without a rollback");
    let running = [starts("a", 1), turns(), undone_saga()];
    assert_eq!(broken(&pair(), &running), [(10, 4)]);
    let by_hand = after_turning(&[
        undoes("b", 1),
        stuck("b", 1),
        gives_up("b"),
        resolves("b", Resolution::Done),
        undoes("a", 1),
        undone("a", 1),
        undone_saga(),
    ]);
    assert_clean(&pair(), &by_hand);
}

#[test]
fn invariant_10_lets_no_doubt_be_forgotten() {
    for doubt in [
        vec![starts("a", 1), retries("a", Phase::Do, 1, ErrorKind::TimedOut, 30), starts("a", 2)],
        vec![starts("a", 1), adopted(), starts("a", 2)],
    ] {
        let forgotten = [doubt.clone(), vec![fails("a", 2)]].concat();
        let last = forgotten.len() as u64 + 1;
        assert_eq!(broken(&pair(), &forgotten), [(10, last)]);
        let kept = [doubt.clone(), vec![fails_in_doubt("a", 2)]].concat();
        assert_clean(&pair(), &kept);
        let not_undone = [kept, vec![turns(), undone_saga()]].concat();
        assert_eq!(broken(&pair(), &not_undone), [(10, last + 2)]);
    }
    let refused_in_doubt =
        Event::StepFailed { step: "a".into(), attempt: 1, error: error(ErrorKind::Refused), in_doubt: true };
    let claimed = [starts("a", 1), refused_in_doubt, turns(), undone_saga()];
    assert_eq!(broken(&pair(), &claimed), [(10, 5)], "what the log calls doubtful is undone as well");
    let known = vec![
        starts("a", 1),
        retries("a", Phase::Do, 1, ErrorKind::Failed, 30),
        starts("a", 2),
        fails("a", 2),
        turns(),
        undone_saga(),
    ];
    assert_clean(&pair(), &known);
    let denied =
        Event::StepFailed { step: "a".into(), attempt: 1, error: error(ErrorKind::InDoubt), in_doubt: false };
    assert_eq!(broken(&pair(), &[starts("a", 1), denied]), [(10, 3)]);
}

#[test]
fn invariant_11_success_means_all_done_and_nothing_undone() {
    let half = [starts("a", 1), succeeds("a", 1), Event::SagaSucceeded];
    assert_eq!(broken(&pair(), &half), [(11, 4)]);
    let turned = after_turning(&[Event::SagaSucceeded]);
    assert_eq!(broken(&pair(), &turned), [(11, 7)]);
    let undone = after_turning(&[undoes("b", 1), undone("b", 1), Event::SagaSucceeded]);
    assert_eq!(broken(&pair(), &undone), [(11, 9), (11, 9)]);
}

#[test]
fn invariant_13_wants_a_failed_compensation_to_be_seen() {
    let hidden = after_turning(&[undoes("b", 1), stuck("b", 1), undone_saga()]);
    assert!(broken(&pair(), &hidden).contains(&(13, 9)));
    let made_up = after_turning(&[gives_up("b")]);
    assert_eq!(broken(&pair(), &made_up), [(13, 7)]);
    let wrong_step = after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("a")]);
    assert_eq!(broken(&pair(), &wrong_step), [(13, 9)]);
    let dropped = after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("b")]);
    assert_clean(&pair(), &dropped);
    assert_eq!(broken(&going_on(&pair()), &dropped), [(13, 9)], "`a` was still to be undone");
    let not_stuck =
        after_turning(&[undoes("b", 1), stuck("b", 1), gives_up("b"), resolves("a", Resolution::Done)]);
    assert_eq!(broken(&pair(), &not_stuck), [(13, 10)]);
    let wider = Draft { compensation_concurrency: 2, ..siblings().draft().clone() };
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
