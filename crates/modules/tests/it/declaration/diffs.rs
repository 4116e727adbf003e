//! What changed from one definition to the next.

use backstitch_modules::declaration::changes;
use serde_json::json;

use crate::declaration::support::yaml;

fn step(id: &str, more: &str) -> String {
    format!("{{id: {id}, action: {{worker: {{queue: q}}}}{more}}}")
}

fn saga(steps: &[String], more: &str) -> String {
    format!("{{name: a, {more} steps: [{}]}}", steps.join(", "))
}

fn changed(before: &str, after: &str) -> Vec<String> {
    changes(&yaml(before), &yaml(after)).iter().map(ToString::to_string).collect()
}

fn steps(ids: &str) -> String {
    let steps: Vec<String> = ids.split_whitespace().map(|id| step(id, ", depends_on: []")).collect();
    saga(&steps, "")
}

#[test]
fn nothing_changes_between_a_definition_and_itself() {
    let text = saga(&[step("a", ""), step("b", ", timeout: 5s")], "title: x,");
    assert!(changed(&text, &text).is_empty());
    let spelt_out = saga(
        &[step("a", ", timeout: 60s, retry: 2"), step("b", ", timeout: 5s, depends_on: [a]")],
        "title: x,",
    );
    assert!(changed(&text, &spelt_out).is_empty(), "a default that is written down is no change");
}

#[test]
fn a_change_is_told_by_its_place() {
    let before = saga(&[step("payment", ", timeout: 30s, retry: { delay: 1s }")], "");
    let after = saga(
        &[step(
            "payment",
            ", timeout: 45s, retry: { delay: 1s, backoff: exponential }, compensate: { worker: { queue: u } }",
        )],
        "continue_on_compensation_failure: true, title: Pay, metadata: { owner: x },",
    );
    assert_eq!(
        changed(&before, &after),
        [
            "continue_on_compensation_failure: false → true",
            "metadata: added",
            "title: added, Pay",
            "steps[payment].compensate: added",
            "steps[payment].retry.backoff: fixed → exponential",
            "steps[payment].retry.max_delay: added, 1h",
            "steps[payment].timeout: 30s → 45s",
        ]
    );
    let calls = |url: &str| format!("{{name: a, steps: [{{id: b, action: {{http: {{url: '{url}'}}}}}}]}}");
    assert_eq!(
        changed(&calls("http://old"), &calls("http://new")),
        ["steps[b].action.http.url: http://old → http://new"]
    );
}

#[test]
fn steps_are_added_removed_and_moved() {
    assert_eq!(changed(&steps("a b c"), &steps("a c")), ["steps[b]: removed"]);
    assert_eq!(changed(&steps("a c"), &steps("a b c")), ["steps[b]: added"]);
    assert_eq!(changed(&steps("a b c d"), &steps("d a b c")), ["steps[d]: moved from place 4 to 1"]);
    assert_eq!(changed(&steps("a b c d"), &steps("b c d a")), ["steps[a]: moved from place 1 to 4"]);
    assert_eq!(
        changed(&steps("a b"), &steps("x y")),
        ["steps[a]: removed", "steps[b]: removed", "steps[x]: added", "steps[y]: added"]
    );
}

#[test]
fn a_step_put_between_two_changes_what_the_later_one_waits_for() {
    let before = saga(&[step("a", ""), step("c", "")], "");
    let after = saga(&[step("a", ""), step("b", ""), step("c", "")], "");
    assert_eq!(changed(&before, &after), [r#"steps[c].depends_on: ["a"] → ["b"]"#, "steps[b]: added"]);
}

#[test]
fn programs_get_changes_as_json() {
    let before = saga(&[step("a", ", timeout: 30s")], "");
    let after = saga(&[step("a", ", timeout: 45s")], "");
    assert_eq!(
        serde_json::to_value(changes(&yaml(&before), &yaml(&after))).unwrap(),
        json!([{"place": "steps[a].timeout", "what": "changed", "before": "30s", "after": "45s"}])
    );
}
