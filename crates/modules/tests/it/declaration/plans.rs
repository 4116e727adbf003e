//! What a definition will do.

use backstitch::StepId;
use backstitch_modules::declaration::{MAX_PLANNED, Plan};

use crate::declaration::support::yaml;

fn plan(text: &str) -> Plan {
    Plan::of(&yaml(text).check().unwrap())
}

/// Steps given as `id<parents`, all of which can be undone unless they end in `!`.
fn plan_of(steps: &str, more: &str) -> Plan {
    let steps = steps.split_whitespace().map(|step| {
        let (name, undo) = match step.strip_suffix('!') {
            Some(name) => (name, ""),
            None => (step, ", compensate: {worker: {queue: q}}"),
        };
        let (id, parents) = name
            .split_once('<')
            .map_or((name, String::new()), |(id, parents)| (id, format!(", depends_on: [{parents}]")));
        format!("{{id: {id}, action: {{worker: {{queue: q}}}}{parents}{undo}}}")
    });
    plan(&format!("{{name: a, {more} steps: [{}]}}", steps.collect::<Vec<_>>().join(", ")))
}

fn stages(stages: &[Vec<StepId>]) -> String {
    let stages: Vec<String> = stages.iter().map(|stage| names(stage)).collect();
    stages.join(" ")
}

fn names(steps: &[StepId]) -> String {
    steps.iter().map(StepId::as_str).collect::<Vec<_>>().join("+")
}

/// What is undone when this step says no, and when it is in doubt.
fn undone(plan: &Plan, step: &str) -> (String, String) {
    let rollback = plan.rollbacks.iter().find(|rollback| rollback.step.as_str() == step).unwrap();
    (stages(&rollback.said_no.undone), stages(&rollback.in_doubt.undone))
}

#[test]
fn a_sequence_goes_forward_in_order_and_back_in_reverse() {
    let plan = plan_of("a b c", "");
    assert_eq!(stages(&plan.forward), "a b c");
    assert_eq!(undone(&plan, "a"), (String::new(), "a".into()));
    assert_eq!(undone(&plan, "b"), ("a".into(), "b a".into()));
    assert_eq!(undone(&plan, "c"), ("b a".into(), "c b a".into()));
    assert_eq!(names(&plan.rollbacks[0].said_no.never_ran), "b+c");
    assert_eq!(names(&plan.rollbacks[2].in_doubt.never_ran), "");
}

#[test]
fn independent_steps_share_a_stage_and_are_all_undone() {
    let plan = plan_of("a b<a c<a d<b,c", "");
    assert_eq!(stages(&plan.forward), "a b+c d");
    assert_eq!(undone(&plan, "b"), ("c a".into(), "b c a".into()));
    assert_eq!(undone(&plan, "d"), ("c b a".into(), "d c b a".into()));
    assert_eq!(names(&plan.rollbacks[1].said_no.never_ran), "d");
}

#[test]
fn compensations_share_a_stage_where_the_definition_lets_them() {
    let plan = plan_of("a b<a c<a d<b,c", "compensation_concurrency: 2,");
    assert_eq!(undone(&plan, "d").0, "c+b a");
}

#[test]
fn what_has_no_compensation_stays_and_is_named() {
    let plan = plan_of("a b! c!", "");
    let last = &plan.rollbacks[2];
    assert_eq!(
        (stages(&last.said_no.undone), names(&last.said_no.nothing_to_undo)),
        ("a".into(), "b".into())
    );
    assert_eq!(names(&last.in_doubt.nothing_to_undo), "b+c");
}

#[test]
fn limits_and_retries_change_nothing_about_a_plan() {
    let limited = plan(
        "
name: a
steps:
  - { id: a, action: { http: { url: 'http://x' } }, compensate: { http: { url: 'http://x' } }, concurrency: 1, retry: 900 }
  - { id: b, action: { http: { url: 'http://x' } }, concurrency: 1, retry: { delays: [1h] } }
",
    );
    assert_eq!(stages(&limited.forward), "a b");
    assert_eq!(undone(&limited, "b"), ("a".into(), "a".into()));
}

#[test]
fn a_very_long_definition_is_planned_forward_only() {
    let steps: Vec<String> = (0..=MAX_PLANNED).map(|at| format!("s{at}")).collect();
    let long = plan_of(&steps.join(" "), "");
    assert_eq!(long.forward.len(), MAX_PLANNED + 1);
    assert!(long.rollbacks.is_empty());
    assert!(long.to_string().contains("too many steps"));
    assert_eq!(plan_of(&steps[1..].join(" "), "").rollbacks.len(), MAX_PLANNED);
}

#[test]
fn the_terminal_shows_a_plan_as_text() {
    let expected = "\
Forward
  1. payment
  2. stock + audit  (at the same time)

When a step fails
  payment  says no     nothing is undone
           in doubt    undo payment
  stock    says no     undo payment; audit cannot be undone
           in doubt    undo stock, then payment; audit cannot be undone
  audit    says no     undo stock, then payment
           in doubt    undo stock, then payment; audit cannot be undone
";
    assert_eq!(plan_of("payment stock<payment audit<payment!", "").to_string(), expected);
}

#[test]
fn programs_get_a_plan_as_json() {
    let json = serde_json::to_value(plan_of("a b!", "")).unwrap();
    let expected = serde_json::json!({
        "forward": [["a"], ["b"]],
        "rollbacks": [
            {
                "step": "a",
                "said_no": {"undone": [], "nothing_to_undo": [], "never_ran": ["b"]},
                "in_doubt": {"undone": [["a"]], "nothing_to_undo": [], "never_ran": ["b"]},
            },
            {
                "step": "b",
                "said_no": {"undone": [["a"]], "nothing_to_undo": [], "never_ran": []},
                "in_doubt": {"undone": [["a"]], "nothing_to_undo": ["b"], "never_ran": []},
            },
        ],
    });
    assert_eq!(json, expected);
}
