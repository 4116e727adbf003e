//! Validation of definitions: all errors together, and the computed order.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::saga::support::{Change, graph, sequence, step};
use backstitch_kernel::saga::draft::{
    DEFAULT_COMPENSATION_TIMEOUT, DEFAULT_STEP_TIMEOUT, Draft, DraftCompensation, MAX_CALL_LEN, MAX_DURATION,
    MAX_ID_LEN, MAX_METADATA_LEN, MAX_RETRIES, MAX_STEPS, MAX_TITLE_LEN, default_compensation_retry,
    default_retry,
};
use backstitch_kernel::saga::state::StepState;
use backstitch_kernel::saga::{Definition, Performer, Phase, Problem};
use backstitch_kernel::{Backoff, Payload, Retry, Timestamp};

/// The errors as `place: message`.
fn mistakes(draft: Draft) -> Vec<String> {
    match draft.check() {
        Ok(_) => Vec::new(),
        Err(problems) => {
            let told = problems.to_string();
            let found: Vec<String> = problems
                .0
                .into_iter()
                .map(|Problem { place, message }| format!("{place}: {message}"))
                .collect();
            let count = found.len();
            assert_eq!(told, format!("the definition has {count} mistake(s); {}", found.join("; ")));
            found
        }
    }
}

fn good(draft: Draft) -> Definition {
    draft.check().unwrap_or_else(|problems| panic!("{problems}"))
}

fn changed(change: impl FnOnce(&mut Draft)) -> Draft {
    let mut draft = sequence(&["a", "b"]);
    change(&mut draft);
    draft
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let found = mistakes(changed(|draft| {
        draft.name = String::new();
        draft.version = 0;
        draft.compensation_concurrency = 0;
        draft.steps[0].timeout = Duration::ZERO;
        draft.steps[0].concurrency = Some(0);
        draft.steps[1].id = "a".to_owned();
        draft.steps[1].depends_on = Some(vec!["nowhere".to_owned()]);
        draft.steps[1].compensate = Some(DraftCompensation {
            timeout: Duration::ZERO,
            retry: Retry::fixed(MAX_RETRIES + 1, Duration::ZERO),
            ..DraftCompensation::default()
        });
    }));
    assert_eq!(
        found,
        [
            "name: is empty",
            "version: versions count from 1",
            "compensation_concurrency: is 0: nothing could be undone; use 1 or more",
            "steps[0].timeout: is zero: every attempt would time out at once",
            "steps[0].concurrency: is 0: the step could never run; use 1 or more",
            "steps[1].compensate.timeout: is zero: every attempt would time out at once",
            "steps[1].compensate.retry.count: is 1001; the limit is 1000",
            "steps[1].id: `a` is already the id of steps[0]",
            "steps[1].depends_on[0]: there is no step `nowhere`",
        ]
    );
}

#[test]
fn a_definition_needs_a_step() {
    assert_eq!(mistakes(Draft::new("empty")), ["steps: is empty: a saga needs at least one step"]);
}

#[test]
fn names_and_ids_are_short_and_plain() {
    let name = |name: &str| mistakes(changed(|draft| draft.name = name.to_owned()));
    assert_eq!(name("Order_2.confirm-it"), [""; 0]);
    assert_eq!(name(&"n".repeat(MAX_ID_LEN)), [""; 0]);
    assert_eq!(name(&"n".repeat(MAX_ID_LEN + 1)), ["name: is 129 bytes long; the limit is 128"]);
    assert_eq!(name("a b"), ["name: contains ' ': use letters, digits, `-`, `_` and `.`"]);
    for odd in ["a:b", "a/b", "a\n", "a,b", "a<b", "`", ".", ".."] {
        assert_eq!(name(odd).len(), 1, "{odd:?}");
    }
    assert_eq!(name("..."), [""; 0]);
    let ids = mistakes(changed(|draft| {
        draft.steps[0].id = String::new();
        draft.steps[1].id = "b:c".to_owned();
    }));
    assert_eq!(
        ids,
        ["steps[0].id: is empty", "steps[1].id: contains ':': use letters, digits, `-`, `_` and `.`",]
    );
    let empty_twice = mistakes(changed(|draft| {
        draft.steps[0].id = String::new();
        draft.steps[1].id = String::new();
    }));
    assert_eq!(empty_twice, ["steps[0].id: is empty", "steps[1].id: is empty"]);
}

#[test]
fn titles_and_metadata_have_their_limits() {
    let found = mistakes(changed(|draft| {
        draft.title = Some("t".repeat(MAX_TITLE_LEN + 1));
        draft.metadata = Some(Payload::encode(&"m".repeat(MAX_METADATA_LEN - 1)).unwrap());
        draft.steps[1].title = Some("t".repeat(MAX_TITLE_LEN + 1));
    }));
    assert_eq!(
        found,
        [
            "title: is longer than 512 bytes",
            "metadata: is larger than 16384 bytes",
            "steps[1].title: is longer than 512 bytes",
        ]
    );
    let largest = changed(|draft| {
        draft.title = Some("t".repeat(MAX_TITLE_LEN));
        draft.metadata = Some(Payload::encode(&"m".repeat(MAX_METADATA_LEN - 2)).unwrap());
        draft.steps[1].title = Some("t".repeat(MAX_TITLE_LEN));
    });
    assert_eq!(mistakes(largest), [""; 0]);
}

#[test]
fn the_number_of_steps_has_its_limit() {
    let ids: Vec<String> = (0..=MAX_STEPS).map(|nth| format!("s{nth}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(mistakes(sequence(&ids[1..])), [""; 0]);
    assert_eq!(mistakes(sequence(&ids)), ["steps: has 501 steps; the limit is 500"]);
}

#[test]
fn timeouts_waits_and_counts_have_their_limits() {
    let too_long = MAX_DURATION + Duration::from_nanos(1);
    let found = |retry: Retry| mistakes(changed(|draft| draft.steps[0].retry = retry));
    assert_eq!(found(Retry::fixed(MAX_RETRIES, MAX_DURATION)), [""; 0]);
    let waits_too_long = ["steps[0].retry: waits longer than 366 days"];
    assert_eq!(found(Retry::fixed(1, too_long)), waits_too_long);
    assert_eq!(found(Retry::after_each(vec![Duration::ZERO, too_long])), waits_too_long);
    assert_eq!(found(Retry::exponential(1, Duration::ZERO).with_cap(too_long)), waits_too_long);
    assert_eq!(
        found(Retry::exponential(1, Duration::from_secs(7200))),
        ["steps[0].retry.delay: is longer than max_delay"]
    );
    assert_eq!(found(Retry::exponential(1, Duration::from_secs(3600))), [""; 0]);
    let no_waits =
        |count| Retry { count, backoff: Backoff::List(Vec::new()), jitter_percent: 0, within: None };
    assert_eq!(found(no_waits(0)), [""; 0]);
    assert_eq!(found(no_waits(1)), ["steps[0].retry.delays: is empty: give one wait at least"]);
    let timeout = |timeout| mistakes(changed(|draft| draft.steps[0].timeout = timeout));
    assert_eq!(timeout(MAX_DURATION), [""; 0]);
    assert_eq!(timeout(too_long), ["steps[0].timeout: is longer than 366 days"]);
}

#[test]
fn a_queue_is_named_like_everything_else() {
    let queue = |queue: &str| Performer::Worker { queue: queue.to_owned() };
    let found = mistakes(changed(|draft| {
        draft.steps[0].action = queue("");
        draft.steps[0].compensate =
            Some(DraftCompensation { action: queue("a/b"), ..DraftCompensation::default() });
        draft.steps[1].action = queue(&"q".repeat(MAX_ID_LEN + 1));
    }));
    assert_eq!(
        found,
        [
            "steps[0].action.worker.queue: is empty",
            "steps[0].compensate.worker.queue: contains '/': use letters, digits, `-`, `_` and `.`",
            "steps[1].action.worker.queue: is 129 bytes long; the limit is 128",
        ]
    );
    assert_eq!(mistakes(sequence(&["a"]).outside("a").undo_outside("a")), [""; 0]);
}

#[test]
fn queue_timeout_is_for_workers_and_not_zero() {
    let found = mistakes(changed(|draft| {
        draft.steps[0].queue_timeout = Some(Duration::from_secs(1));
        draft.steps[1].action = Performer::Worker { queue: "q".to_owned() };
        draft.steps[1].queue_timeout = Some(Duration::ZERO);
    }));
    assert_eq!(
        found,
        [
            "steps[0].queue_timeout: is for workers: nothing else waits in a queue",
            "steps[1].queue_timeout: is zero: every attempt would time out at once",
        ]
    );
    let both = sequence(&["a"]).outside("a").undo_outside("a").waiting_at_most("a", 60);
    assert_eq!(mistakes(both), [""; 0]);
}

#[test]
fn time_for_all_attempts_is_not_for_workers() {
    let bounded = Retry::fixed(3, Duration::from_secs(1)).within(Duration::from_secs(30));
    let found = mistakes(changed(|draft| {
        draft.steps[1].action = Performer::Worker { queue: "q".to_owned() };
        draft.steps[1].retry = bounded.clone();
        draft.steps[0].retry = bounded.clone();
    }));
    let message =
        "is not for workers: it would count the time in the queue; use `timeout` and `queue_timeout`";
    assert_eq!(found, [format!("steps[1].retry.within: {message}")]);
}

#[test]
fn concurrency_of_worker_steps_is_refused() {
    assert_eq!(
        mistakes(sequence(&["a"]).outside("a").limited("a")),
        [
            "steps[0].concurrency: is for steps performed here: how many a worker does at once is the worker's to say"
        ]
    );
    assert_eq!(mistakes(sequence(&["a"]).undo_outside("a").limited("a")), [""; 0]);
}

#[test]
fn a_call_has_its_limit() {
    let call = |len: usize| Performer::Call(Payload::encode(&"c".repeat(len - 2)).unwrap());
    let found = mistakes(changed(|draft| {
        draft.steps[0].action = call(MAX_CALL_LEN + 1);
        draft.steps[1].compensate =
            Some(DraftCompensation { action: call(MAX_CALL_LEN + 1), ..DraftCompensation::default() });
    }));
    let expected =
        ["steps[0].action: is larger than 16384 bytes", "steps[1].compensate: is larger than 16384 bytes"];
    assert_eq!(found, expected);
    assert_eq!(mistakes(changed(|draft| draft.steps[0].action = call(MAX_CALL_LEN))), [""; 0]);
}

#[test]
fn a_step_cannot_depend_on_itself_nor_twice_on_another() {
    assert_eq!(
        mistakes(graph(&[("a", &["a"]), ("b", &["a", "a"])])),
        ["steps[0].depends_on[0]: `a` depends on itself", "steps[1].depends_on[1]: `a` is listed twice",]
    );
}

#[test]
fn a_circle_is_shown_in_the_order_it_would_run() {
    assert_eq!(
        mistakes(graph(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"]), ("e", &[])])),
        ["steps: depend on each other in a circle: `b` → `c` → `a` → `b`"]
    );
}

#[test]
fn every_cycle_is_reported_without_its_dependents() {
    let found = mistakes(graph(&[
        ("a", &["b"]),
        ("b", &["a"]),
        ("c", &["b"]),
        ("d", &["c", "e"]),
        ("e", &["d"]),
        ("f", &["e"]),
        ("g", &["f"]),
    ]));
    assert_eq!(
        found,
        [
            "steps: depend on each other in a circle: `b` → `a` → `b`",
            "steps: depend on each other in a circle: `e` → `d` → `e`",
        ]
    );
}

#[test]
fn a_circle_that_hangs_on_another_one_is_reported_too() {
    let found = mistakes(graph(&[("x", &["r", "y"]), ("r", &["s"]), ("s", &["r"]), ("y", &["x"])]));
    assert_eq!(
        found,
        [
            "steps: depend on each other in a circle: `s` → `r` → `s`",
            "steps: depend on each other in a circle: `y` → `x` → `y`",
        ]
    );
}

#[test]
fn a_step_without_depends_on_follows_the_one_before_it() {
    let draft = Draft {
        steps: vec![step("a", None), step("b", None), step("c", Some(&[])), step("d", Some(&["c", "a"]))],
        ..Draft::new("mixed")
    };
    let definition = good(draft);
    let parents: Vec<&[usize]> = definition.steps().iter().map(|step| &*step.depends_on).collect();
    assert_eq!(parents, [&[][..], &[0], &[], &[0, 2]]);
}

#[test]
fn successors_are_all_that_come_after_directly_or_not() {
    let definition =
        good(graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["a"]), ("e", &["c", "d"])]));
    let after: Vec<&[usize]> = definition.steps().iter().map(|step| &*step.successors).collect();
    assert_eq!(after, [&[1, 2, 3, 4][..], &[2, 4], &[4], &[4], &[]]);
}

#[test]
fn valid_definition_keeps_its_fields() {
    let draft = sequence(&["a", "b"])
        .retrying("a", 3)
        .undo_retrying("a", 4)
        .without_undo("b")
        .limited("b")
        .going_on()
        .undoing_at_once(7);
    let draft = Draft { version: 9, ..draft };
    let definition = good(draft.clone());
    assert_eq!(definition.name(), "played");
    assert_eq!(definition.version(), 9);
    assert_eq!(definition.draft(), &draft);
    assert!(definition.continues_past_failed_compensation());
    assert_eq!(definition.compensation_concurrency(), 7);
    assert_eq!(definition.position(&"b".into()), Some(1));
    assert_eq!(definition.position(&"c".into()), None);
    let [a, b] = definition.steps() else { panic!("two steps") };
    assert_eq!(a.id.as_str(), "a");
    assert_eq!(a.timeout, Duration::from_secs(30));
    assert_eq!((a.retry.count, a.limited), (3, false));
    assert_eq!(a.compensation.as_ref().unwrap().retry.count, 4);
    assert_eq!((b.compensation.as_ref(), b.limited), (None, true));
}

#[test]
fn fingerprint_changes_only_with_the_meaning_of_a_log() {
    let base = || graph(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]);
    let print = |draft: Draft| good(draft).fingerprint();
    let first = print(base());
    assert_eq!(first, 17_949_524_365_209_113_563, "it is the same on every machine and in every version");
    assert_eq!(print(base().retrying("a", 5).undo_retrying("a", 9)), first);
    let mut by_call = base();
    by_call.steps[0].action = Performer::Call(Payload::encode(&"x").unwrap());
    assert_eq!(print(by_call), first, "what the engine calls, it performs here");
    let mut elsewhere = base().outside("b");
    elsewhere.steps[1].action = Performer::Worker { queue: "others".to_owned() };
    assert_eq!(print(elsewhere), print(base().outside("b")), "a log names its queues itself");
    assert_eq!(print(Draft { title: Some("T".to_owned()), ..base() }), first);
    let moved = graph(&[("b", &["a"]), ("c", &["b", "a"]), ("a", &[])]);
    assert_eq!(print(moved), first, "the order of declaration has no meaning of its own");
    let others = [
        Draft { name: "other".to_owned(), ..base() },
        base().going_on(),
        base().undoing_at_once(2),
        base().without_undo("b"),
        base().outside("b"),
        base().undo_outside("b"),
        base().outside("b").undo_outside("b"),
        base().outside("c"),
        graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]),
        graph(&[("a", &[]), ("b", &["a"]), ("d", &["a", "b"])]),
    ];
    let prints: BTreeSet<u64> = others.iter().map(|other| print(other.clone())).chain([first]).collect();
    assert_eq!(prints.len(), others.len() + 1, "no two of them are taken for each other");
}

#[test]
fn absent_fields_have_the_documented_defaults() {
    let draft: Draft =
        serde_json::from_str(r#"{"name": "n", "steps": [{"id": "a", "compensate": {}}, {"id": "b"}]}"#)
            .unwrap();
    assert_eq!((draft.version, draft.compensation_concurrency), (1, 1));
    assert!(!draft.continue_on_compensation_failure && !draft.on_success && !draft.on_failure);
    let [a, b] = &*draft.steps else { panic!("two steps") };
    assert_eq!((a.timeout, DEFAULT_STEP_TIMEOUT), (Duration::from_secs(60), Duration::from_secs(60)));
    assert_eq!((&a.retry, default_retry()), (&Retry::fixed(2, Duration::from_secs(5)), b.retry.clone()));
    let undo = a.compensate.as_ref().unwrap();
    assert_eq!(undo, &DraftCompensation::default());
    assert_eq!(undo.timeout, DEFAULT_COMPENSATION_TIMEOUT);
    assert_eq!(undo.timeout, Duration::from_secs(120));
    assert_eq!(undo.retry, default_compensation_retry());
    let waits: Vec<u64> = (1..=5).map(|nth| undo.retry.wait(nth, 0).as_secs()).collect();
    assert_eq!((undo.retry.count, waits), (5, vec![1, 2, 4, 8, 16]));
    assert_eq!(undo.retry.wait(9, 0), Duration::from_secs(60));
    assert_eq!((&b.compensate, &b.depends_on, b.concurrency), (&None, &None, None));
}

#[test]
fn a_draft_survives_its_written_form_and_refuses_unknown_fields() {
    let mut draft = graph(&[("a", &[]), ("b", &["a"]), ("c", &[])]).limited("a").undo_outside("a");
    draft = draft.outside("b").without_undo("b").going_on();
    draft.steps[2].action = Performer::Call(Payload::parse(r#"{"http": {"url": "x"}}"#).unwrap());
    let written = serde_json::to_string(&draft).unwrap();
    assert_eq!(serde_json::from_str::<Draft>(&written).unwrap(), draft);
    let steps = &serde_json::from_str::<serde_json::Value>(&written).unwrap()["steps"];
    let said = [&steps[0], &steps[0]["compensate"], &steps[1]].map(|written| written.get("action").is_some());
    assert_eq!(said, [false, true, true], "who performs it is written unless the program does");
    for unknown in [
        r#"{"name": "n", "steps": [], "stesp": []}"#,
        r#"{"name": "n", "steps": [{"id": "a", "depend_on": []}]}"#,
        r#"{"name": "n", "steps": [{"id": "a", "compensate": {"timeuot": "1s"}}]}"#,
        r#"{"name": "n", "steps": [{"id": "a", "action": {"wroker": {"queue": "q"}}}]}"#,
    ] {
        assert!(serde_json::from_str::<Draft>(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn each_phase_has_its_own_time_and_a_step_without_undo_has_one() {
    let mut draft = sequence(&["a", "b"]).without_undo("b");
    draft.steps[0].timeout = Duration::from_secs(7);
    let definition = draft.check().unwrap();
    let times = |position: usize| {
        let step = &definition.steps()[position];
        [Phase::Do, Phase::Undo].map(|phase| {
            let time = step.time_of_attempt(phase, &StepState::default(), Timestamp::default());
            time.map(|time| time.as_secs())
        })
    };
    assert_eq!(times(0), [Some(7), Some(30)]);
    assert_eq!(times(1), [Some(30), None]);
}
