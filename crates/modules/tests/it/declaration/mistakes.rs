//! Every mistake at once, in its author's own terms.

use crate::declaration::support::{mistakes, mistakes_in_step};

#[test]
fn all_mistakes_are_told_at_once() {
    let told = mistakes(
        "
name: order confirmation
titel: x
compensation_concurrency: 0
steps:
  - id: payment
    action: { http: { method: PSOT, url: 'ftp://pay/charge', headers: { Host: other } } }
    timeout: 30
    retyr: 3
  - id: payment
    depends_on: [warehouse]
    action: { worker: { queue: 'a b' } }
    compensate: { timeout: 0s }
  - just text
",
    );
    assert_eq!(
        told,
        [
            "titel: is not known: did you mean `title`?",
            "steps[0].retyr: is not known: did you mean `retry`?",
            "steps[0].action.http.method: `PSOT` is not one of POST, PUT, PATCH, DELETE, GET: did you mean `POST`?",
            "steps[0].action.http.headers.Host: belongs to the call itself and cannot be set: leave it out",
            "steps[0].action.http.url: is neither http nor https",
            "steps[0].timeout: is a number: write a duration like 200ms, 30s or 5m",
            "steps[1].compensate: says neither what to call (`http`) nor which queue it goes to (`worker`)",
            "steps[2]: is text: write an object with fields",
            "name: contains ' ': use letters, digits, `-`, `_` and `.`",
            "compensation_concurrency: is 0: nothing could be undone; use 1 or more",
            "steps[1].action.worker.queue: contains ' ': use letters, digits, `-`, `_` and `.`",
            "steps[1].id: `payment` is already the id of steps[0]",
        ]
    );
}

#[test]
fn what_is_missing_is_told_by_its_place() {
    assert_eq!(mistakes("{}"), ["name: is missing", "steps: is missing"]);
    assert_eq!(mistakes("{name: a, steps: []}"), ["steps: is empty: a saga needs at least one step"]);
    assert_eq!(
        mistakes("{name: a, steps: [{}]}"),
        ["steps[0].id: is missing", "steps[0].action: is missing"]
    );
    let told = mistakes("{name: a, steps: [{id: b, action: {http: {}}}]}");
    assert_eq!(told, ["steps[0].action.http.url: is missing"]);
    let told = mistakes("{name: a, steps: [{id: b, action: {worker: {}}}]}");
    assert_eq!(told, ["steps[0].action.worker.queue: is missing"]);
}

#[test]
fn a_field_of_another_kind_is_told_with_what_to_write() {
    for (fields, told) in [
        ("title: 7", "title: is a number: write text, in quotes if it looks like something else"),
        ("depends_on: pay", "depends_on: is text: write a list"),
        (
            "depends_on: [1]",
            "depends_on[0]: is a number: write text, in quotes if it looks like something else",
        ),
        ("depends_on: ", "depends_on: is empty: write a list, or leave the field out"),
        (
            "timeout: soon",
            "timeout: `soon` is not a duration (expected number at 0): write it like 200ms, 30s or 5m",
        ),
        ("timeout: true", "timeout: is true or false: write a duration like 200ms, 30s or 5m"),
        ("concurrency: -1", "concurrency: is -1: write a whole number, 0 or more"),
        ("concurrency: 1.5", "concurrency: is 1.5: write a whole number, 0 or more"),
        ("concurrency: many", "concurrency: is text: write a whole number"),
        ("concurrency: 99999999999", "concurrency: is 99999999999, which is too large"),
        ("concurrency: 0", "concurrency: is 0: the step could never run; use 1 or more"),
        ("compensate: http", "compensate: is text: write an object with fields"),
        ("retry: often", "retry: is text: write an object with fields"),
        ("retry: -1", "retry: is -1: write a whole number, 0 or more"),
    ] {
        assert_eq!(mistakes_in_step(fields), [told], "{fields}");
    }
    assert_eq!(
        mistakes(
            "{name: a, continue_on_compensation_failure: yes, steps: [{id: b, action: {worker: {queue: c}}}]}"
        ),
        ["continue_on_compensation_failure: is text: write true or false"]
    );
}

#[test]
fn a_retry_policy_that_contradicts_itself_is_refused() {
    for (policy, told) in [
        ("{cuont: 2}", "retry.cuont: is not known: did you mean `count`?"),
        (
            "{backoff: exponental}",
            "retry.backoff: `exponental` is not one of fixed, exponential, list: did you mean `exponential`?",
        ),
        ("{backoff: random}", "retry.backoff: `random` is not one of fixed, exponential, list"),
        ("{max_delay: 1m}", "retry.max_delay: is for `backoff: exponential`"),
        ("{backoff: fixed, delays: [1s]}", "retry.delays: is for `backoff: list`; write `delay`"),
        ("{delays: [1s], delay: 1s}", "retry.delay: is not for a list of waits: `delays` says all of them"),
        ("{backoff: list}", "retry.delays: is missing"),
        ("{delays: [], count: 1}", "retry.delays: is empty: give one wait at least"),
        (
            "{delays: [1s, never]}",
            "retry.delays[1]: `never` is not a duration (expected number at 0): write it like 200ms, 30s or 5m",
        ),
        ("{jitter: 101}", "retry.jitter: is 101 percent; the limit is 100"),
        ("{jitter: 300}", "retry.jitter: is 300, which is too large"),
        ("{count: 1001}", "retry.count: is 1001; the limit is 1000"),
        ("{backoff: exponential, delay: 1h, max_delay: 1m}", "retry.delay: is longer than max_delay"),
        ("{delay: 2years}", "retry: waits longer than 366 days"),
    ] {
        assert_eq!(mistakes_in_step(&format!("retry: {policy}")), [told], "{policy}");
    }
}

#[test]
fn one_mistake_in_a_policy_hides_no_other() {
    assert_eq!(
        mistakes_in_step("retry: {backoff: randm, count: -1, delay: soon, jitter: a}").len(),
        4,
        "backoff, count, delay and jitter"
    );
}

#[test]
fn somebody_performs_a_step_and_only_one() {
    let both = mistakes("{name: a, steps: [{id: b, action: {http: {url: 'http://c'}, worker: {queue: d}}}]}");
    assert_eq!(both, ["steps[0].action: says both `http` and `worker`: one of them performs it"]);
    let other = mistakes("{name: a, steps: [{id: b, action: {htpp: {url: 'http://c'}}}]}");
    assert_eq!(other[0], "steps[0].action.htpp: is not known: did you mean `http`?");
}

#[test]
fn a_circle_and_a_stranger_are_told() {
    let told = mistakes(
        "
name: order
steps:
  - { id: a, depends_on: [b], action: { worker: { queue: q } } }
  - { id: b, depends_on: [a, zebra], action: { worker: { queue: q } } }
",
    );
    assert_eq!(
        told,
        [
            "steps[1].depends_on[1]: there is no step `zebra`",
            "steps: depend on each other in a circle: `b` → `a` → `b`"
        ]
    );
}

#[test]
fn a_step_whose_id_cannot_be_read_brings_no_complaint_about_those_that_name_it() {
    let told = mistakes(
        "
name: order
steps:
  - { idd: pay, action: { worker: { queue: q } } }
  - { id: ship, depends_on: [pay], action: { worker: { queue: q } } }
",
    );
    assert_eq!(told, ["steps[0].idd: is not known: did you mean `id`?", "steps[0].id: is missing"]);
}

#[test]
fn an_unknown_field_without_a_near_one_is_told_what_there_is() {
    assert_eq!(
        mistakes_in_step("colour: red"),
        [
            "colour: is not known: the fields here are id, title, depends_on, action, compensate, timeout, queue_timeout, retry, concurrency"
        ]
    );
}

#[test]
fn a_field_of_any_name_has_a_place_on_one_line() {
    let told = mistakes_in_step("'': 1, \"a\\nb\": 2");
    assert!(told[0].starts_with("\"\": is not known"), "{told:?}");
    assert!(told[1].starts_with("a\\nb: is not known"), "{told:?}");
    let long = mistakes_in_step(&format!("{}: 1", "x".repeat(500)));
    assert!(long[0].len() < 300, "{long:?}");
}

#[test]
fn a_call_that_is_too_long_is_refused_at_its_place() {
    let url = format!("'http://pay/{}'", "a".repeat(20_000));
    let told = mistakes(&format!("{{name: a, steps: [{{id: b, action: {{http: {{url: {url}}}}}}}]}}"));
    assert_eq!(told, ["steps[0].action: is larger than 16384 bytes"]);
}
