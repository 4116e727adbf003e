//! Every mistake at once, in its author's own terms.

use crate::lifecycle_declaration::support::{mistakes, with};

const NO_TEXT: &str = "write text, in quotes if it looks like something else";

#[test]
fn all_mistakes_are_told_at_once() {
    let told = mistakes(
        "
name: a parcel
titel: x
initial: orderd
states: [ordered, packed, sent.off, delivered]
terminal: [delivered, gone]
pause: { held: packed }
edges: [[ordered, packed], [packed, delivered], [delivered, packed], [packed, packed], [ordered]]
can_fail: [packed, packed]
error_kinds: [ok]
actions:
  packed:
    http: { method: PSOT, url: 'ftp://carrier' }
    next: { ok: delivered, nobody_home: delivered }
    timeout: soon
  delivered: { next: {} }
stuck_after: { packed: 10, ordered: 0s }
",
    );
    assert_eq!(
        told,
        [
            "titel: is not known: did you mean `title`?",
            "edges[4]: names 1 states: write it like [FROM, TO]",
            "actions.packed.http.method: `PSOT` is not one of POST, PUT, PATCH, DELETE, GET: did you mean `POST`?",
            "actions.packed.http.url: is neither http nor https",
            "actions.packed.timeout: `soon` is not a duration (expected number at 0): write it like 200ms, 30s or 5m",
            "stuck_after.packed: is a number: write a duration like 200ms, 30s or 5m",
            "name: contains ' ': use letters, digits, `-`, `_` and `.`",
            "states[2]: contains '.': use letters, digits, `-` and `_`, since topics end in it",
            "initial: `orderd` is no state: add it to `states`",
            "terminal[1]: `gone` is no state: add it to `states`",
            "can_fail[1]: `packed` is listed twice: list it once",
            "pause.held: `held` is no state: add it to `states`",
            "edges[2]: leads out of `delivered`, which is terminal: leave it out",
            "edges[3]: leads from `packed` to itself: leave it out",
            "error_kinds[0]: `ok` is what an answer without an error is called: choose another name",
            "actions.delivered: `delivered` is terminal, and nothing is done there: leave it out",
            "actions.delivered.next: says nothing of `ok`: name the state that follows",
            "actions.packed.next.nobody_home: `nobody_home` is no error kind: add it to `error_kinds`, or use `ok`",
            "stuck_after.ordered: is zero: every attempt would time out at once",
        ]
    );
}

#[test]
fn what_is_missing_is_told_by_its_place() {
    assert_eq!(mistakes("{}"), ["name: is missing", "initial: is missing", "states: is missing"]);
    for (action, told) in [
        ("{}", "actions.a.next: is missing"),
        ("{next: {}}", "actions.a.next: says nothing of `ok`: name the state that follows"),
        ("{http: {}, next: {ok: b}}", "actions.a.http.url: is missing"),
        ("{worker: {}, next: {ok: b}}", "actions.a.worker.queue: is missing"),
    ] {
        assert_eq!(mistakes(&with(&[&format!("actions: {{a: {action}}}")])), [told], "{action}");
    }
}

#[test]
fn a_field_of_another_kind_is_told_with_what_to_write() {
    for (field, told) in [
        ("name: 7", format!("name: is a number: {NO_TEXT}")),
        ("title: [x]", format!("title: is a list: {NO_TEXT}")),
        ("subject: 7", format!("subject: is a number: {NO_TEXT}")),
        ("initial: {a: b}", format!("initial: is an object: {NO_TEXT}")),
        ("states: a", "states: is text: write a list".to_owned()),
        ("states: [a, b, c, 7]", format!("states[3]: is a number: {NO_TEXT}")),
        ("terminal: c", "terminal: is text: write a list".to_owned()),
        ("terminal: [c, true]", format!("terminal[1]: is true or false: {NO_TEXT}")),
        ("pause: [b]", "pause: is a list: write an object with fields".to_owned()),
        ("pause: {b: 7}", format!("pause.b: is a number: {NO_TEXT}")),
        ("edges: {a: b}", "edges: is an object: write a list".to_owned()),
        ("edges: [[a, b], b]", "edges[1]: is text: write a list".to_owned()),
        ("edges: [[a, b], [b, 7]]", format!("edges[1][1]: is a number: {NO_TEXT}")),
        ("edges: [[a, b], [a, b, c]]", "edges[1]: names 3 states: write it like [FROM, TO]".to_owned()),
        ("can_fail: ", "can_fail: is empty: write a list, or leave the field out".to_owned()),
        ("error_kinds: [7]", format!("error_kinds[0]: is a number: {NO_TEXT}")),
        ("actions: [a]", "actions: is a list: write an object with fields".to_owned()),
        ("actions: {a: go}", "actions.a: is text: write an object with fields".to_owned()),
        ("stuck_after: 10m", "stuck_after: is text: write an object with fields".to_owned()),
        (
            "stuck_after: {a: true}",
            "stuck_after.a: is true or false: write a duration like 200ms, 30s or 5m".to_owned(),
        ),
        (
            "stuck_after: {a: soon}",
            "stuck_after.a: `soon` is not a duration (expected number at 0): write it like 200ms, 30s or 5m"
                .to_owned(),
        ),
    ] {
        assert_eq!(mistakes(&with(&[field])), [told], "{field}");
    }
}

#[test]
fn a_mistake_in_an_action_is_told_by_its_place() {
    let performed = "worker: {queue: q}, next: {ok: b}";
    for (action, told) in [
        (
            "http: {url: 'http://x'}, worker: {queue: q}, next: {ok: b}".to_owned(),
            "actions.a: says both `http` and `worker`: one of them performs it".to_owned(),
        ),
        (
            "http: {url: 'pay/charge'}, next: {ok: b}".to_owned(),
            "actions.a.http.url: `pay/charge` is not a URL (relative URL without a base): write it like http://host/path".to_owned(),
        ),
        (
            "worker: {queue: 'a b'}, next: {ok: b}".to_owned(),
            "actions.a.worker.queue: contains ' ': use letters, digits, `-`, `_` and `.`".to_owned(),
        ),
        (
            "htpp: {url: 'http://x'}, next: {ok: b, lost: failed}, timeout: 1s".to_owned(),
            "actions.a.htpp: is not known: did you mean `http`?".to_owned(),
        ),
        (
            format!("{performed}, timeout: 30"),
            "actions.a.timeout: is a number: write a duration like 200ms, 30s or 5m".to_owned(),
        ),
        (
            format!("{performed}, timeout: 0s"),
            "actions.a.timeout: is zero: every attempt would time out at once".to_owned(),
        ),
        (
            format!("{performed}, retry: {{count: 1001}}"),
            "actions.a.retry.count: is 1001; the limit is 1000".to_owned(),
        ),
        (
            format!("{performed}, retry: {{backoff: random}}"),
            "actions.a.retry.backoff: `random` is not one of fixed, exponential, list".to_owned(),
        ),
        (
            "worker: {queue: q}, next: {ok: 7}".to_owned(),
            format!("actions.a.next.ok: is a number: {NO_TEXT}"),
        ),
        (
            "worker: {queue: q}, next: b".to_owned(),
            "actions.a.next: is text: write an object with fields".to_owned(),
        ),
        (
            "worker: {queue: q}, next: {ok: b, stolen: failed}".to_owned(),
            "actions.a.next.stolen: `stolen` is no error kind: add it to `error_kinds`, or use `ok`"
                .to_owned(),
        ),
        (
            "worker: {queue: q}, next: {ok: nowhere}".to_owned(),
            "actions.a.next.ok: `nowhere` is no state: add it to `states`".to_owned(),
        ),
        (
            "worker: {queue: q}, next: {ok: c}".to_owned(),
            "actions.a.next.ok: nothing leads from `a` to `c`: add it to `edges`".to_owned(),
        ),
        (
            "next: {ok: b, lost: failed}".to_owned(),
            "actions.a.next.lost: nothing is done in this state, so it has no errors: leave it out"
                .to_owned(),
        ),
    ] {
        assert_eq!(mistakes(&with(&[&format!("actions: {{a: {{{action}}}}}")])), [told], "{action}");
    }
}

#[test]
fn a_state_that_is_only_passed_takes_no_time_and_no_tries() {
    let told = mistakes(&with(&["actions: {a: {next: {ok: b}, timeout: 5s, retry: 3}}"]));
    let places: Vec<&str> = told.iter().filter_map(|told| told.split(": ").next()).collect();
    assert_eq!(places, ["actions.a.timeout", "actions.a.retry"]);
    assert!(told[0].contains("nothing is done in this state: say what to call"), "{told:?}");
}

#[test]
fn states_that_are_nowhere_are_told_wherever_they_are_named() {
    for (field, place) in [
        ("initial: x", "initial"),
        ("terminal: [c, x]", "terminal[1]"),
        ("pause: {x: a}", "pause.x"),
        ("pause: {b: x}", "pause.b"),
        ("edges: [[a, b], [b, c], [b, x]]", "edges[2]"),
        ("can_fail: [x]", "can_fail[0]"),
        ("actions: {x: {next: {ok: a}}}", "actions.x"),
        ("stuck_after: {x: 1s}", "stuck_after.x"),
    ] {
        let told = mistakes(&with(&[field]));
        assert_eq!(told, [format!("{place}: `x` is no state: add it to `states`")], "{field}");
    }
}

#[test]
fn states_that_nothing_leads_to_and_dead_ends_are_told() {
    assert_eq!(
        mistakes(&with(&["states: [a, b, c, d, e]", "edges: [[a, b], [b, c], [b, e], [d, c]]"])),
        [
            "states[3]: nothing leads to `d` from `a`: add an edge, or leave it out",
            "states[4]: `e` leads to no terminal state: add an edge that does, or add it to `can_fail`"
        ]
    );
}

#[test]
fn nothing_leads_out_of_an_end() {
    assert_eq!(
        mistakes(&with(&["edges: [[a, b], [b, c], [c, a], [failed, a]]"])),
        [
            "edges[2]: leads out of `c`, which is terminal: leave it out",
            "edges[3]: leads out of `failed`, which is terminal: leave it out"
        ]
    );
}

#[test]
fn states_that_are_only_passed_in_a_circle_are_told() {
    let told = mistakes(&with(&[
        "edges: [[a, b], [b, a], [b, c]]",
        "actions: {a: {next: {ok: b}}, b: {next: {ok: a}}}",
    ]));
    assert_eq!(
        told,
        [
            "actions: go round in a circle without anything being done (`a` → `b` → `a`): let one of them act, or lead elsewhere"
        ]
    );
}

#[test]
fn a_version_is_not_written_by_people() {
    let told = mistakes(&with(&["version: 2"]));
    assert!(told.len() == 1 && told[0].starts_with("version: is not known: "), "{told:?}");
    let told = mistakes(&with(&["actions: {a: {performer: code, next: {ok: b}}}"]));
    assert_eq!(told.len(), 1, "nor is who performs what, but as `http` or `worker`: {told:?}");
}

#[test]
fn a_part_that_cannot_be_read_brings_no_complaint_about_those_that_need_it() {
    let actions = "actions: {a: {worker: {queue: q}, next: {ok: b, lost: failed}}, b: {next: {ok: c}}}";
    for (fields, told) in [
        (&["states: [a, 7, c]"][..], "states[1]: "),
        (&["states: 7"], "states: "),
        (&["edges: [[a, b], 7]"], "edges[1]: "),
        (&["edges: [[a, 7], [b, c]]"], "edges[0][1]: "),
        (&["edges: 7"], "edges: "),
        (&["can_fail: 7"], "can_fail: "),
        (&["can_fail: [7]"], "can_fail[0]: "),
        (&["error_kinds: 7"], "error_kinds: "),
        (&["error_kinds: [7]"], "error_kinds[0]: "),
        (&["error_kinds: [7]", "can_fail: []"], "error_kinds[0]: "),
        (&["terminal: 7"], "terminal: "),
        (&["pause: 7"], "pause: "),
        (&["initial: 7"], "initial: "),
    ] {
        let found = mistakes(&with(&[fields, &[actions]].concat()));
        assert!(found.len() == 1 && found[0].starts_with(told), "{fields:?}: {found:?}");
    }
}

#[test]
fn a_field_under_a_wrong_name_brings_no_complaint_about_those_that_need_it() {
    let head = "name: m\ninitial: a\nstates: [a, b]\nterminal: [b]\n";
    let action = "actions: {a: {worker: {queue: q}, next: {ok: b, lost: failed}}}\n";
    for (rest, told) in [
        (
            "egdes: [[a, b]]\ncan_fail: [a]\nerror_kinds: [lost]\n",
            "egdes: is not known: did you mean `edges`?",
        ),
        (
            "edges: [[a, b]]\ncanfail: [a]\nerror_kinds: [lost]\n",
            "canfail: is not known: did you mean `can_fail`?",
        ),
        (
            "edges: [[a, b]]\ncan_fail: [a]\nerrors: [lost]\n",
            "errors: is not known: the fields here are name, ",
        ),
    ] {
        let found = mistakes(&format!("{head}{action}{rest}"));
        assert!(found.len() == 1 && found[0].starts_with(told), "{rest}: {found:?}");
    }
}

#[test]
fn a_part_that_cannot_be_read_hides_no_mistake_of_its_neighbours() {
    assert_eq!(
        mistakes(&with(&["states: [a, 7, b.b, a, c]", "edges: [[a, c], [c, a], 7, [a, a]]"])),
        [
            format!("states[1]: is a number: {NO_TEXT}"),
            "edges[2]: is a number: write a list".to_owned(),
            "states[2]: contains '.': use letters, digits, `-` and `_`, since topics end in it".to_owned(),
            "states[3]: `a` is listed twice: list it once".to_owned(),
            "edges[1]: leads out of `c`, which is terminal: leave it out".to_owned(),
            "edges[3]: leads from `a` to itself: leave it out".to_owned(),
        ]
    );
}

#[test]
fn what_is_far_too_long_is_told_and_not_looked_at_any_further() {
    let names: Vec<String> = (0..3_000).map(|nth| format!("x{nth}")).collect();
    let list = format!("[{}]", names.join(", "));
    let object = |value: &str| {
        let entries: Vec<String> = names.iter().map(|name| format!("{name}: {value}")).collect();
        format!("{{{}}}", entries.join(", "))
    };
    for (field, value, limit) in [
        ("states", list.clone(), 200),
        ("terminal", list.clone(), 201),
        ("can_fail", list.clone(), 201),
        ("error_kinds", list.clone(), 100),
        ("edges", format!("[{}]", vec!["[a, x]"; 3_000].join(", ")), 2_000),
        ("pause", object("a"), 201),
        ("actions", object("{next: {ok: a}}"), 201),
        ("stuck_after", object("1s"), 201),
    ] {
        let told = mistakes(&with(&[&format!("{field}: {value}")]));
        assert_eq!(told, [format!("{field}: has 3000 entries; the limit is {limit}")]);
    }
    let answers = format!("actions: {{a: {{worker: {{queue: q}}, next: {}}}}}", object("b"));
    assert_eq!(mistakes(&with(&[&answers])), ["actions.a.next: has 3000 entries; the limit is 102"]);
}

#[test]
fn a_document_that_is_no_machine_is_told_so() {
    for (text, complaint) in [
        ("", "the definition: is empty"),
        ("just text", "the definition: is text: write an object with fields"),
        ("[1, 2]", "the definition: is a list"),
        ("name: m\nstates: [a\n", "line "),
        ("name: a\nname: b\n", "line 2, "),
    ] {
        let told = mistakes(text);
        assert!(told.len() == 1 && told[0].starts_with(complaint), "{text}: {told:?}");
    }
}
