//! Attempts: their numbers, their times, their results.

use super::super::*;
use super::logs::*;
use crate::error::ErrorKind;

#[test]
fn invariant_14_wants_results_only_of_attempts_in_flight() {
    let table: [(&[Event], u64); 9] = [
        (&[succeeds("a", 1)], 2),
        (&[starts("a", 1), succeeds("a", 2)], 3),
        (&[starts("a", 1), succeeds("a", 1), succeeds("a", 1)], 4),
        (&[starts("a", 1), adopted(), succeeds("a", 1)], 4),
        (&[starts("a", 1), adopted(), fails_in_doubt("a", 1)], 4),
        (&[fails("a", 0)], 2),
        (&[starts("a", 1), retries("a", Phase::Do, 1, ErrorKind::Failed, 90), fails("a", 1)], 4),
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
fn interrupted_action_may_end_unreported_in_a_rollback() {
    let waiting = [
        starts("a", 1),
        retries("a", Phase::Do, 1, ErrorKind::Failed, 90),
        turns(),
        fails("a", 1),
        undone_saga(),
    ];
    assert_clean(&siblings(), &waiting);
    assert_clean(&siblings(), &[starts("a", 1), turns(), adopted(), fails_in_doubt("a", 1)]);
}

#[test]
fn adoption_does_not_interrupt_an_outside_workers_attempt() {
    assert_clean(&pair(), &[starts_outside("a", 1), adopted(), succeeds("a", 1), starts("b", 1)]);
    let refused = [starts_outside("a", 1), adopted(), fails("a", 1), turns(), undone_saga()];
    assert_clean(&pair(), &refused);
    assert_eq!(broken(&pair(), &[starts_outside("a", 1), adopted(), starts_outside("a", 2)]), [(17, 4)]);
    let retry = retries("a", Phase::Do, 1, ErrorKind::Failed, 30);
    let here = [starts_outside("a", 1), retry, starts("a", 2), adopted(), succeeds("a", 2)];
    assert_eq!(broken(&pair(), &here), [(14, 6)], "what comes after it is judged by itself");

    assert_clean(&pair(), &after_turning(&[undoes_outside("b", 1), adopted(), undone("b", 1)]));
    let twice = after_turning(&[undoes_outside("b", 1), adopted(), undoes_outside("b", 2)]);
    assert_eq!(broken(&pair(), &twice), [(17, 9)]);
}

#[test]
fn the_fifth_interruption_may_end_an_attempt_without_an_answer() {
    let interrupted = |times: u32, start: &dyn Fn(u32) -> Event| -> Vec<Event> {
        (1..=times).flat_map(|attempt| [start(attempt), adopted()]).collect()
    };
    let forward = interrupted(5, &|attempt| starts("a", attempt));
    assert_clean(&pair(), &[forward.clone(), vec![fails_in_doubt("a", 5)]].concat());
    assert_eq!(broken(&pair(), &[forward, vec![starts("a", 6)]].concat()), [(17, 12)]);
    let fewer = interrupted(4, &|attempt| starts("a", attempt));
    assert_eq!(broken(&pair(), &[fewer, vec![fails_in_doubt("a", 4)]].concat()), [(14, 10)]);

    let back = after_turning(&interrupted(5, &|attempt| undoes("b", attempt)));
    assert_clean(&pair(), &[back.clone(), vec![stuck("b", 5)]].concat());
    assert_eq!(broken(&pair(), &[back.clone(), vec![stuck("b", 4)]].concat()), [(14, 17)]);
    assert_eq!(broken(&pair(), &[back, vec![undoes("b", 6)]].concat()), [(17, 17)]);
}

#[test]
fn invariant_17_wants_attempts_one_by_one_and_in_their_time() {
    let retry = |at| retries("a", Phase::Do, 1, ErrorKind::Failed, at);
    let table: [(&[Event], Option<u64>); 8] = [
        (&[starts("a", 2)], Some(2)),
        (&[starts("a", 1), starts("a", 2)], Some(3)),
        (&[starts("a", 1), adopted(), starts("a", 1)], Some(4)),
        (&[starts("a", 1), succeeds("a", 1), starts("a", 2)], Some(4)),
        (&[starts("a", 1), retry(41), starts("a", 2)], Some(4)),
        (&[starts("a", 1), retry(40), starts("a", 2)], None),
        (&[starts("a", 1), retry(29)], Some(3)),
        (&[starts("a", 1), retry(30)], None),
    ];
    for (events, expected) in table {
        let expected: Vec<(u8, u64)> = expected.map(|seq| (17, seq)).into_iter().collect();
        assert_eq!(broken(&pair(), events), expected, "{events:?}");
    }
}

#[test]
fn invariant_17_wants_no_more_retries_than_allowed() {
    let tries = |phase: Phase, start: &dyn Fn(u32) -> Event, step: &str, count: u32| -> Vec<Event> {
        (1..=count)
            .flat_map(|attempt| [start(attempt), retries(step, phase, attempt, ErrorKind::Failed, 300)])
            .collect()
    };
    // The waits end long after the next attempt here, so only the count is checked.
    let counts = |definition: &Definition, events: &[Event]| {
        let found = audit(definition, &log(events));
        found.iter().filter(|v| v.message.contains("retries are allowed")).count()
    };
    let start = |attempt| starts("a", attempt);
    assert_eq!(counts(&pair(), &tries(Phase::Do, &start, "a", 2)), 0);
    assert_eq!(counts(&pair(), &tries(Phase::Do, &start, "a", 3)), 1);
    let undo = |attempt| undoes("b", attempt);
    let twice = after_turning(&tries(Phase::Undo, &undo, "b", 2));
    assert_eq!(counts(&pair(), &twice), 0);
    assert_eq!(counts(&pair(), &after_turning(&tries(Phase::Undo, &undo, "b", 3))), 1);
    let reopened = [
        twice,
        vec![undoes("b", 3), stuck("b", 3), gives_up("b"), resolves("b", Resolution::Retry)],
        vec![undoes("b", 4), retries("b", Phase::Undo, 4, ErrorKind::Failed, 300)],
    ];
    assert_eq!(counts(&pair(), &reopened.concat()), 0, "a person's retry counts anew");
    let Event::StepRetry { step, phase, attempt, error, retry_at, .. } =
        retries("a", Phase::Do, 1, ErrorKind::Failed, 90)
    else {
        unreachable!("it is what it is made as")
    };
    let last = Event::StepRetry { step, phase, attempt, max_attempts: 1, error, retry_at };
    assert_eq!(broken(&pair(), &[starts("a", 1), last]), [(17, 3)]);
}

#[test]
fn a_person_s_retry_is_forgiven_its_interruptions() {
    let worn_out: Vec<Event> = (1..=5).flat_map(|attempt| [undoes("b", attempt), adopted()]).collect();
    let again = [stuck("b", 5), gives_up("b"), resolves("b", Resolution::Retry), undoes("b", 6), adopted()];
    let events = after_turning(&[worn_out, again.to_vec(), vec![undoes("b", 7)]].concat());
    assert_clean(&pair(), &events);
}
