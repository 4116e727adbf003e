//! `doctor`

use serde_json::{Value, json};

use crate::cli::stage::{Ran, Stage, on_both_stores_with, run_with};
use crate::cli::stub::Stub;
use crate::support::within;

async fn doctor(answer: &serde_json::Value, arguments: &[&str]) -> Ran {
    let stub = Stub::answering("200 OK", "application/json", &answer.to_string()).await;
    run_with(&[&["doctor", "--server", &stub.url()], arguments].concat(), &[], "").await
}

#[tokio::test]
async fn healthy_server_has_no_findings() {
    let answer = json!({"status": "ok", "checked_at": "2030-01-31T12:00:00Z", "findings": [],
        "checks": [{"name": "stuck sagas", "status": "ok"}]});
    let told = doctor(&answer, &[]).await.good();
    assert!(told.contains("✓ ok") && told.contains("stuck sagas"), "{told}");
    assert_eq!(doctor(&answer, &["--json"]).await.json(), answer);
}

#[tokio::test]
async fn finding_is_shown_with_its_remedy_and_fails() {
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

/// No disk is too full for a test.
const ANY_DISK: [(&str, &str); 4] = [
    ("BACKSTITCH_DOCTOR_DISK_WARNING_BYTES", "0"),
    ("BACKSTITCH_DOCTOR_DISK_WARNING_PERCENT", "0"),
    ("BACKSTITCH_DOCTOR_DISK_ERROR_BYTES", "0"),
    ("BACKSTITCH_DOCTOR_DISK_ERROR_PERCENT", "0"),
];

#[tokio::test]
async fn doctor_command_follows_a_failed_rollback() {
    on_both_stores_with(&ANY_DISK, async |stage: Stage| {
        let told = stage.run(&["doctor"]).await.good();
        for words in ["✓ ok", "failed_rollbacks", "disk_space", "✓ nothing to find fault with"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let well = stage.run(&["doctor", "--json"]).await.json();
        assert_eq!((&well["status"], &well["findings"]), (&json!("ok"), &json!([])));

        let saga = stage.ended_order(&["refuse:inventory", "fail-undo:payment"], "failed").await;
        // An answer may be a second old.
        let ill = within(async {
            loop {
                let ran = stage.run(&["doctor", "--json"]).await;
                if ran.code != 0 {
                    return ran;
                }
            }
        })
        .await;
        assert_eq!((ill.code, ill.stderr.as_str()), (1, "backstitch: 1 finding needs attention\n"));
        let said: Value = serde_json::from_str(&ill.stdout).unwrap();
        assert_eq!(said["status"], "attention");
        let [finding] = &said["findings"].as_array().unwrap()[..] else { panic!("{said}") };
        assert_eq!((&finding["check"], &finding["subject"]), (&json!("failed_rollbacks"), &json!(saga)));
        let told = stage.run(&["doctor"]).await;
        assert_eq!((told.code, told.stderr.as_str()), (1, "backstitch: 1 finding needs attention\n"));
        for words in [&format!("! warning failed_rollbacks: {saga}: "), "→ ", "backstitch resolve"] {
            assert!(told.stdout.contains(words), "{words}: {told:?}");
        }

        stage.run(&["resolve", &saga, "payment", "done", "--note", "by hand"]).await.good();
        within(async { while stage.run(&["doctor"]).await.code != 0 {} }).await;
    })
    .await;
}
