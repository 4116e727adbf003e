//! Every example succeeds and prints the expected lines.

use std::path::PathBuf;
use std::process::Command;

/// The programs are beside the tests, in the directory of their profile.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.is_file(),
        "the example `{name}` is not built: run `cargo build -p backstitch --examples` first"
    );
    program
}

/// Runs an example; its output contains these lines in this order.
fn says(name: &str, lines: &[&str]) {
    let output = Command::new(program(name)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}\n{complaints}", output.status);
    let mut rest = &*text;
    for line in lines {
        let (_, after) =
            rest.split_once(line).unwrap_or_else(|| panic!("{name} does not say `{line}`:\n{text}"));
        rest = after;
    }
}

#[test]
fn example_deploy_feature() {
    says(
        "deploy_feature",
        &[
            "created branch feature/user-auth",
            "created migration 001_add_users.sql",
            "created service auth-service",
            "Saga result: succeeded",
            "Deploying broken-service",
            "removed migration 002_add_payments.sql",
            "removed branch feature/payments",
            "Saga result: compensated",
        ],
    );
    says("deploy_feature", &["Saga failed at step deploy-service: CRASH_LOOP: the image does not start"]);
}

#[test]
fn example_create_dev_team() {
    says(
        "create_dev_team",
        &[
            "[Phase 5] Team accounts created successfully",
            "[Phase 5] The user reads: NO_CAPACITY: no capacity for another agent",
        ],
    );
    says(
        "create_dev_team",
        &["[Phase 5] Saga create-dev-team started", "[Phase 5] Saga create-dev-team compensating..."],
    );
    says("create_dev_team", &["[Phase 5] Step assign-tasks completed"]);
    says("create_dev_team", &["[Coordinator] team_creation_failed at create-frontend-dev"]);
}

#[test]
fn example_dag_of_five() {
    says(
        "dag_of_five",
        &[
            "hour  2: design-database begins",
            "hour  2: implement-frontend begins",
            "hour  5: implement-backend begins",
            "hour  9: run-tests begins",
            "succeeded after 10 hours",
            "run-tests fails",
            "compensated after 10 hours",
        ],
    );
    let undone = ["implement-backend is thrown away", "design-architecture is thrown away"];
    says("dag_of_five", &undone);
}

#[test]
fn example_api_call_with_retries() {
    says(
        "api_call_with_retries",
        &[
            "after  0 s: step call-external-api failed, attempt 1/4: API_CALL_FAILED",
            "after 12 s: step call-external-api failed, attempt 2/4: no answer within 10000 ms",
            "after 16 s: succeeded",
            "answer of https://api.example/good",
            "POST https://api.example/bad/undo (perhaps it was done)",
            "after 16 s: compensated",
        ],
    );
}

#[test]
fn example_order_processing() {
    says(
        "order_processing",
        &[
            "payment-for-order-of-ada: 42 charged for order-of-ada",
            "mail to ada@example.org: order order-of-ada, payment payment-for-order-of-ada",
            "Saga result: succeeded",
            "payment-for-order-of-bob: 7 refunded for order-of-bob",
            "order-of-bob cancelled, because VALIDATION_ERROR",
            "Saga result: compensated",
        ],
    );
}

#[test]
fn example_error_handling_by_kind() {
    says(
        "error_handling_by_kind",
        &[
            "[Compensate] Starting user deletion: ada",
            "[Compensate] Failed to delete user ada: NETWORK_ERROR: connection reset",
            "[Compensate] User ada already deleted",
            "may be different next time: starting it again",
            "second try: succeeded",
            "the user reads: the data is not valid",
            "the operator is paged",
        ],
    );
}

#[test]
fn example_timeouts() {
    says(
        "timeouts",
        &[
            "60 s hangs: no answer within 60000 ms, trying again",
            "190 s hangs: given up, in doubt",
            "190 s saga compensated",
            "reserve: cannot be undone",
            "saga failed",
            "saga compensated",
        ],
    );
    says("timeouts", &["undone though in doubt, result None", "released: Some(\"reservation\")"]);
}

#[test]
fn example_health_check() {
    says(
        "health_check",
        &[
            "deploy-feature running",
            "deploy-feature compensated",
            "deploy-feature succeeded",
            "\"failed_step\": \"deploy-service\"",
            "[Health Check] 2 active sagas",
            "[Health Check] Stuck for more than 0ns: deploy-feature (running)",
        ],
    );
}

#[test]
fn every_example_is_run_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let written = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = written.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let this = include_str!("examples.rs");
    let missing: Vec<_> = names.filter(|name| !this.contains(&format!("fn example_{name}()"))).collect();
    assert!(missing.is_empty(), "examples that no test runs: {missing:?}");
}
