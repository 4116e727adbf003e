//! `doctor`

use serde_json::json;

use crate::stage::{Ran, run_with};
use crate::stub::Stub;

async fn doctor(answer: &serde_json::Value, arguments: &[&str]) -> Ran {
    let stub = Stub::answering("200 OK", "application/json", &answer.to_string()).await;
    run_with(&[&["doctor", "--server", &stub.url()], arguments].concat(), &[], "").await
}

#[tokio::test]
async fn a_server_that_is_well_is_told_so() {
    let answer = json!({"status": "ok", "checked_at": "2030-01-31T12:00:00Z", "findings": [],
        "checks": [{"name": "stuck sagas", "status": "ok"}]});
    let told = doctor(&answer, &[]).await.good();
    assert!(told.contains("✓ ok") && told.contains("stuck sagas"), "{told}");
    assert_eq!(doctor(&answer, &["--json"]).await.json(), answer);
}

#[tokio::test]
async fn any_finding_is_told_with_what_to_do_and_fails() {
    let findings = json!([
        {"check": "stuck rollbacks", "severity": "error", "subject": "saga 0192", "message": "cannot be undone\u{1b}[2J",
         "action": "backstitch resolve"},
        {"check": "backups", "severity": "warning", "subject": null, "message": "there are none", "action": "make some"},
    ]);
    let answer = json!({"status": "attention", "checked_at": "2030-01-31T12:00:00Z", "findings": findings,
        "checks": [{"name": "stuck rollbacks", "status": "error"}, {"name": "backups", "status": "warning"}]});
    let told = doctor(&answer, &[]).await;
    assert_eq!((told.code, told.stderr.as_str()), (1, "backstitch: 2 findings need attention\n"));
    for words in [
        "✗ error stuck rollbacks: saga 0192: cannot be undone",
        "→ backstitch resolve",
        "! warning backups: there",
    ] {
        assert!(told.stdout.contains(words), "{words}: {told:?}");
    }
    assert!(!told.stdout.contains('\u{1b}'), "{told:?}");
    let printed = doctor(&answer, &["--json"]).await;
    assert_eq!(printed.code, 1);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&printed.stdout).unwrap(), answer);
}
