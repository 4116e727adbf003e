//! `backstitch check` shows the plans of a definition, or all its errors.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const SAGA: &str = "
name: order
steps:
  - id: payment
    action:     { http: { url: 'http://payment/charge' } }
    compensate: { http: { url: 'http://payment/refund' } }
  - id: parcel
    action: { worker: { queue: logistics } }
";

const LIFECYCLE: &str = "
name: parcel
initial: packed
states: [packed, sent, held, delivered]
terminal: [delivered]
pause: { held: sent }
edges: [[packed, sent], [sent, held], [sent, delivered]]
can_fail: [packed, sent]
actions:
  packed: { http: { url: 'http://carrier/pick-up' }, next: { ok: sent } }
";

/// Files to check.
struct Desk(TempDir);

impl Desk {
    fn with(name: &str, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        Self(folder)
    }

    fn check(&self, arguments: &[&str]) -> Output {
        check_in(self.0.path(), arguments, "")
    }
}

fn check_in(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backstitch"));
    command.arg("check").args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that never reads its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn as_json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_saga_is_shown_with_its_way_forward_and_its_way_back() {
    let output = Desk::with("order.yaml", SAGA).check(&["order.yaml"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(
        stdout(&output),
        "Saga order

Forward
  1. payment
  2. parcel

When a step fails
  payment  says no     nothing is undone
           in doubt    undo payment
  parcel   says no     undo payment
           in doubt    undo payment; parcel cannot be undone
"
    );
}

#[test]
fn a_lifecycle_is_shown_with_its_diagram() {
    let output = Desk::with("parcel.yml", LIFECYCLE).check(&["parcel.yml"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(
        stdout(&output),
        "Lifecycle parcel
  begins in    packed
  acts in      packed
  waits in     held
  can fail in  packed, sent
  ends in      delivered, failed
  tells on     lifecycles.parcel.STATE

stateDiagram-v2
    [*] --> packed
    packed --> sent
    packed --> failed : fail
    sent --> held
    sent --> delivered
    sent --> failed : fail
    held --> sent : start
    delivered --> [*]
    failed --> [*]
    note right of packed : call
"
    );
}

#[test]
fn plans_and_diagrams_are_available_as_json() {
    let output = Desk::with("order.yaml", SAGA).check(&["order.yaml", "--json"]);
    let told = as_json(&output);
    assert_eq!((&told["kind"], &told["name"]), (&json!("saga"), &json!("order")));
    assert_eq!(told["plan"]["forward"], json!([["payment"], ["parcel"]]));
    assert_eq!(told["plan"]["rollbacks"][1]["in_doubt"]["nothing_to_undo"], json!(["parcel"]));

    let output = Desk::with("parcel.yaml", LIFECYCLE).check(&["--json", "parcel.yaml"]);
    let told = as_json(&output);
    assert_eq!((&told["kind"], &told["name"]), (&json!("lifecycle"), &json!("parcel")));
    assert!(told["diagram"].as_str().unwrap().starts_with("stateDiagram-v2\n"), "{told}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_file_is_json_where_its_name_says_so() {
    let text =
        json!({"name": "order", "steps": [{"id": "a", "action": {"worker": {"queue": "q"}}}]}).to_string();
    let output = Desk::with("order.JSON", &text).check(&["order.JSON"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = Desk::with("order.json", SAGA).check(&["order.json"]);
    assert!(stderr(&output).contains("is not JSON: "), "{}", stderr(&output));
}

#[test]
fn standard_input_is_checked_too() {
    let folder = TempDir::new().unwrap();
    let output = check_in(folder.path(), &["-"], SAGA);
    assert!(output.status.success() && stdout(&output).starts_with("Saga order\n"), "{}", stderr(&output));
    let output = check_in(folder.path(), &["-"], "name: order\nsteps: []\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("backstitch: the input has 1 mistake\n"), "{}", stderr(&output));
}

#[test]
fn each_saga_error_has_a_line_with_its_path() {
    let text = "name: order\nsteps:\n  - { idd: a, action: { http: { url: 'ftp://x' } } }\n";
    let output = Desk::with("order.yaml", text).check(&["order.yaml"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert_eq!(
        stderr(&output),
        "steps[0].idd: is not known: did you mean `id`?
steps[0].id: is missing
steps[0].action.http.url: is neither http nor https
backstitch: order.yaml has 3 mistakes
"
    );
}

#[test]
fn each_lifecycle_error_has_a_line_with_its_path() {
    let text = "name: m\ninitial: nowhere\nstates: [a, \"b\\nc\"]\ntimeout: 1s\n";
    let output = Desk::with("m.yaml", text).check(&["m.yaml"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert!(lines[0].starts_with("timeout: is not known: "), "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            "states[1]: contains '\\n': use letters, digits, `-`, `_` and `.`",
            "initial: `nowhere` is no state: add it to `states`",
            "backstitch: m.yaml has 3 mistakes",
        ]
    );
}

#[test]
fn quoted_text_cannot_forge_a_line() {
    let text = "name: m\ninitial: a\nstates: [a]\ncan_fail: [a]\nstuck_after: { \"x\\nbackstitch: all is well\": 1s }\n";
    let output = Desk::with("m.yaml", text).check(&["m.yaml"]);
    assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
}

#[test]
fn errors_are_available_as_json() {
    let output = Desk::with("m.yaml", "name: m\ninitial: b\nstates: [a]\n").check(&["m.yaml", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let problem = json!({"place": "initial", "message": "`b` is no state: add it to `states`"});
    assert_eq!(as_json(&output), json!({"kind": "lifecycle", "problems": [problem]}));

    let output = Desk::with("m.yaml", "name: [m\n").check(&["m.yaml", "--json"]);
    assert_eq!((output.status.code(), as_json(&output)["kind"].clone()), (Some(1), Value::Null));
}

#[test]
fn document_of_no_known_kind_is_refused() {
    for text in ["name: order\nstep: []\n", "", "just text", "[steps]"] {
        let output = Desk::with("x.yaml", text).check(&["x.yaml"]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let told = "is neither a saga, which has `steps`, nor a lifecycle, which has `states`";
        assert!(stderr(&output).contains(told), "{text}: {}", stderr(&output));
    }
}

#[test]
fn unreadable_file_is_named() {
    let desk = Desk::with("order.yaml", SAGA);
    let output = desk.check(&["missing.yaml"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert!(
        stderr(&output).starts_with("backstitch: missing.yaml cannot be read: No such file"),
        "{}",
        stderr(&output)
    );
    let output = desk.check(&["."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(". cannot be read: "), "{}", stderr(&output));
}

#[test]
fn wrong_usage_differs_from_validation_errors() {
    let desk = Desk::with("order.yaml", SAGA);
    for arguments in [&[][..], &["order.yaml", "--jsno"], &["order.yaml", "order.yaml"]] {
        let output = desk.check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("Usage: backstitch check"), "{}", stderr(&output));
    }
}

#[test]
fn no_setting_and_no_database_is_needed() {
    let desk = Desk::with("order.yaml", SAGA);
    assert!(desk.check(&["order.yaml"]).status.success());
    assert_eq!(fs::read_dir(desk.0.path()).unwrap().count(), 1, "nothing is left behind");
}
